"""One more thing that was looked at, in the form that a page, a terminal and JSON share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.pages import Details, MapGrid, Points, Section, Table
from attnlab.statistics import Interval

NOTHING = "–"
_DIGITS = 6  # of the numbers in JSON, as more are nothing but rounding


@dataclass(frozen=True, eq=False)
class View:
    """`name` is its key in JSON, where `data` stands; the parts are for people."""

    name: str
    heading: str
    parts: Sequence[str | Points | Table | Details | MapGrid]
    data: Any

    def section(self) -> Section:
        return Section(self.heading, list(self.parts))


def signed(value: float | None, decimals: int = 3) -> str:
    """A number with its sign, a real minus; what rounds to zero has none."""
    if value is None or not math.isfinite(value):
        return NOTHING
    text = f"{abs(value):.{decimals}f}"
    return text if float(text) == 0 else f"{'−' if value < 0 else '+'}{text}"


def number(value: float | None, decimals: int = 2) -> str:
    if value is None or not math.isfinite(value):
        return NOTHING
    text = f"{value:.{decimals}f}"
    return (text.removeprefix("-") if float(text) == 0 else text).replace("-", "−")


def ends(found: Interval | None, decimals: int = 3, *, sign: bool = True) -> str:
    """Between what a mean lies."""
    if found is None or not math.isfinite(found.low):
        return NOTHING
    show = signed if sign else number
    return f"{show(found.low, decimals)} … {show(found.high, decimals)}"


def plain(value: Any) -> Any:
    """As strict JSON can hold it: numbers with the digits that count, None for those that are none."""
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
        case Interval():
            return {name: plain(one) for name, one in vars(value).items()}
        case dict():
            return {str(key): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def joined(words: Sequence[str]) -> str:
    """a; a and b; a, b and c."""
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} and {words[-1]}"


def counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
