"""A view: one thing that was found in a model, in the form that a page, a terminal and JSON share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attnlab.corpora import Tokenizer
from attnlab.formats import interval
from attnlab.pages import Details, MapGrid, Points, Section, Table
from attnlab.statistics import Interval
from attnlab.storage.records import to_plain

DIGITS = 6  # of the numbers in JSON, as more are nothing but rounding
_MARKS = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍"}


@dataclass(frozen=True, eq=False)
class LookView:
    """`name` is its key in JSON, where `data` stands as plain data; the parts are for people."""

    name: str
    heading: str
    parts: Sequence[str | Points | Table | Details | MapGrid]
    data: object

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", to_plain(self.data, nulls=True, digits=DIGITS))

    def section(self) -> Section:
        return Section(self.heading, list(self.parts))


def ends(found: Interval | None, decimals: int = 3) -> str:
    """Return the two ends of an interval, if there is one."""
    return interval(None if found is None else found.low, None if found is None else found.high, decimals)


def shade(value: float | None) -> float | None:
    """Return how dark the cell of a number is, from 0 to 1; None for no number."""
    return None if value is None or value != value else min(1.0, max(0.0, value))


def printable(tokenizer: Tokenizer, ids: Iterable[int]) -> tuple[str, ...]:
    """Return each token as something visible: spaces and line ends as signs, half characters as their bytes."""
    return tuple(_shown(tokenizer, token) for token in ids)


def _shown(tokenizer: Tokenizer, token: int) -> str:
    if tokenizer.kind == "byte" and token > 127:
        return f"\\x{token:02x}"
    return "".join(_sign(character) for character in tokenizer.decode([token])) or "∅"


def _sign(character: str) -> str:
    if character in _MARKS:
        return _MARKS[character]
    return character if character.isprintable() else repr(character)[1:-1]
