"""How a measurement's progress is shown: a line that changes in a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from attnlab.bench import Listener
from attnlab.cli.printing import say


class _Lines(Listener):
    """Progress as plain lines, for a file or a pipe."""

    def step(self, what: str, done: int, total: int) -> None:
        say(f"{done + 1}/{total} {what}")

    def note(self, text: str) -> None:
        say(f"note: {text}")


class _Bar(Listener):
    """Progress as one line that changes. It is drawn between measurements only, so as not to disturb them."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def step(self, what: str, done: int, total: int) -> None:
        self._progress.update(self._task, description=what, completed=done, total=total)
        self._progress.refresh()

    def note(self, text: str) -> None:
        self._progress.console.print(Text(f"note: {text}"))


@contextmanager
def listening() -> Iterator[Listener]:
    """Somebody who tells the person what is being measured."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _Lines()
        return
    looks = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*looks, console=console, auto_refresh=False, transient=True) as progress:
        yield _Bar(progress, progress.add_task("", total=None))
