"""Output of the commands: tables and data on stdout, everything else on stderr."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

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
    """Show the step that is under way on one line of a terminal, and nothing elsewhere."""
    console = Console(stderr=True, highlight=False)
    with console.status("") as status:
        yield lambda step: status.update(Text(step))


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
