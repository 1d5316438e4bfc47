"""The options that all commands of `attnlab bench` share, their progress, and how findings are printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from attnlab.bench.findings import (
    BenchListener,
    Findings,
    bars_table,
    describe_bars,
    figures_table,
    findings_page,
)
from attnlab.bench.timing import check_rounds
from attnlab.cli.errors import with_options
from attnlab.cli.options import Flag, JsonFlag
from attnlab.cli.printing import say, show, show_json, show_section
from attnlab.errors import AttnlabError
from attnlab.pages import Figure, write_page
from attnlab.storage.files import check_writable

_SMOKE_ROUNDS = 2


@Parameter(name="*")
@dataclass(frozen=True)
class BenchOutput:
    """What is printed and written of the findings.

    Parameters
    ----------
    bars
        Judge what attnlab claims of itself.
    strict
        With --bars: end with exit code 1 unless every bar is met.
    out
        Also write a page to this HTML file.
    as_json
        Print the figures as JSON.
    smoke
        Tiny sizes, to try the tool; the figures mean nothing.
    """

    bars: Flag = False
    strict: Flag = False
    out: Path | None = None
    as_json: JsonFlag = False
    smoke: Flag = False

    def check(self) -> None:
        """Refuse what cannot be done before anything is measured."""
        if self.strict and not self.bars:
            raise AttnlabError("--strict judges the bars, and they are not measured", hint="add --bars")
        if self.out is not None:
            check_writable(self.out)

    def rounds(self, given: int | None, usual: int) -> int:
        """Return how often to measure: as given, or as usual."""
        rounds = given if given is not None else _SMOKE_ROUNDS if self.smoke else usual
        check_rounds(rounds)
        return rounds

    def run(self, measure: Callable[[BenchListener], Findings]) -> int:
        """Measure, print the findings, write the page, and return the exit code."""
        self.check()
        with listening() as listener:
            if self.smoke:
                listener.note("a smoke run: the figures mean nothing")
            found = measure(listener)
        if self.as_json:
            show_json(found.to_dict())
        else:
            self._print(found)
        if self.out is not None:
            write_page(findings_page(found, bars=self.bars), self.out)
            say(f"wrote {self.out}")
        return int(self.strict and not found.all_met)

    def _print(self, found: Findings) -> None:
        lines = (str(found.machine), found.conditions, found.machine.warning)
        show("\n".join(line for line in lines if line))
        for section in found.sections():
            if not all(isinstance(part, Figure) for part in section.content):
                show_section(section.heading, section.content)
        if not self.bars:
            return
        show("", *describe_bars(found.bars), "", bars_table(found.bars))
        missed = figures_table(found.bars, missed_only=True)
        if missed.rows:
            show("\nMissed:\n", missed)


BENCH_OUTPUT = BenchOutput()


class _Lines(BenchListener):
    """Progress as plain lines, for a file or a pipe."""

    def step(self, what: str, done: int, total: int) -> None:
        say(f"{done + 1}/{total} {what}")

    def note(self, text: str) -> None:
        say(f"note: {with_options(text)}")


class _Bar(BenchListener):
    """Progress as one line that is updated, only between measurements, so as not to disturb them."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def step(self, what: str, done: int, total: int) -> None:
        self._progress.update(self._task, description=what, completed=done, total=total)
        self._progress.refresh()

    def note(self, text: str) -> None:
        self._progress.console.print(Text(f"note: {with_options(text)}"))


@contextmanager
def listening() -> Iterator[BenchListener]:
    """Show the progress of a measurement: a line that changes in a terminal, plain lines elsewhere."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _Lines()
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as progress:
        yield _Bar(progress, progress.add_task("", total=None))
