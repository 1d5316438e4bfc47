"""Output of the commands: tables and data on stdout, everything else on stderr."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from attnlab.formats import clock_time
from attnlab.pages import Table
from attnlab.storage.records import to_plain


def show(*things: Table | Text | str) -> None:
    """Print for a person, on stdout."""
    console = Console(highlight=False)
    for thing in things:
        console.print(_drawn(thing))


def say(*things: Table | Text | str) -> None:
    """Print on stderr: progress, notes and other text that is not the answer."""
    console = Console(stderr=True, highlight=False)
    for thing in things:
        console.print(_drawn(thing), soft_wrap=isinstance(thing, str))


@contextmanager
def showing_steps() -> Iterator[Callable[[str], None]]:
    """Show the step that is under way on one line of a terminal, and nothing elsewhere.

    Of steps that are counted, such as "layer 3 of 12", the time left is shown as well.
    """
    console, clock = Console(stderr=True, highlight=False), StepClock()
    with console.status("") as status:
        yield lambda step: status.update(Text(clock.describe(step)))


class StepClock:
    """Estimates the time left of steps that end with "3 of 12", from the first step with the same text before it."""

    _counted = re.compile(r"(.*?)(\d+) of (\d+)")

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._words, self._first, self._begin = "", 0, 0.0

    def describe(self, step: str) -> str:
        """Return the words of a step that begins now, with the time left if it is known."""
        if (match := self._counted.fullmatch(step)) is None:
            return step
        words, number, total = match[1], int(match[2]), int(match[3])
        if words != self._words or number <= self._first:
            self._words, self._first, self._begin = words, number, self._now()
            return step
        each = (self._now() - self._begin) / (number - self._first)
        return f"{step}   {clock_time(each * (total - number + 1))} left"


def show_json(data: object) -> None:
    """Print for a program, on stdout."""
    print(json.dumps(to_plain(data), indent=2, ensure_ascii=False))


def show_pairs(pairs: Mapping[str, str] | Iterable[Sequence[str]]) -> None:
    """Print names with their values, one on each line."""
    show(pairs_table(pairs))


def pairs_table(pairs: Mapping[str, str] | Iterable[Sequence[str]]) -> Table:
    """Return names with their values; long values take several lines."""
    rows = [*pairs.items()] if isinstance(pairs, Mapping) else [*pairs]
    return Table(("", ""), rows, text_columns=(0, 1), wrap_columns=(1,))


def show_section(heading: str, parts: Iterable[object]) -> None:
    """Print the parts of a page's section that a terminal can show: text, lists and tables."""
    from attnlab.pages import Points

    show("", heading)
    for part in parts:
        match part:
            case str():
                show("", part)
            case Points():
                show("", *(f"  · {item}" for item in part.items))
            case Table():
                show("", *([part.caption] if part.caption else []), part)


def fits(table: Table) -> bool:
    """Return whether a table can be printed on stdout without cutting anything."""
    console = Console()
    options = console.options.update(max_width=10_000)
    return console.measure(table.to_terminal(), options=options).maximum <= console.width


def _drawn(thing: Table | Text | str) -> object:
    if isinstance(thing, Table):
        return thing.to_terminal()
    return Text(thing) if isinstance(thing, str) else thing
