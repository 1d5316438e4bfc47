"""How verbs print: tables and data on stdout, talk on stderr."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text


def make_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: Sequence[int] = (0,),
    wrap: Sequence[int] = (0,),
    styles: Mapping[str, str] | None = None,
) -> Table:
    """A table without lines: the columns `left` are text, the others numbers; those in `wrap` give way if it is tight.

    A cell whose words are in `styles` is printed in that style. Without any heading there is no line for them.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.show_header = any(headings)
    for number, heading in enumerate(headings):
        justify = "left" if number in left else "right"
        table.add_column(Text(heading), justify=justify, no_wrap=number not in wrap, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(cell, style=(styles or {}).get(cell, "")) for cell in row))
    return table


def fits(table: Table) -> bool:
    """Whether a table can be printed on stdout without cutting anything."""
    console = Console()
    return console.measure(table, options=console.options.update(max_width=10_000)).maximum <= console.width


def show(*things: Table | Text | str) -> None:
    """Print for a person, on stdout."""
    console = Console(highlight=False)
    for thing in things:
        console.print(Text(thing) if isinstance(thing, str) else thing)


def tell(*things: Table | Text | str) -> None:
    """Print for a person what is not the answer, on stderr."""
    console = Console(stderr=True, highlight=False)
    for thing in things:
        console.print(Text(thing) if isinstance(thing, str) else thing)


def show_json(data: object) -> None:
    """Print for a program, on stdout."""
    print(json.dumps(data, indent=2, ensure_ascii=False))


def say(text: str) -> None:
    """Tell the person something that is not the answer, on stderr."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(text))
