"""Numbers and words as people read them: real minus signs, significant digits, units that fit.

A number that is missing or not finite is written as `NOTHING`.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence

NOTHING = "–"
_DECIMAL_UNITS = ("", " k", " M", " G", " T", " P", " E", " Z", " Y", " R", " Q")
_BYTE_UNITS = (" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB", " ZiB", " YiB")
_LEAST_P = 0.001


def file_name(text: str, longest: int = 60) -> str:
    """Return a text as a part of file names: letters, digits, - and +, and a hyphen for anything else."""
    return "".join(sign if sign.isalnum() or sign in "-+" else "-" for sign in text)[:longest]


def fixed(value: float | None, decimals: int = 2) -> str:
    """Return a number with so many decimals: 0.25, −3.10."""
    if value is None or not math.isfinite(value):
        return NOTHING
    text = f"{value:.{decimals}f}"
    return (text.removeprefix("-") if float(text) == 0 else text).replace("-", "−")


def signed(value: float | None, decimals: int = 3) -> str:
    """Return a number with its sign: +0.25, −3.10; a number that rounds to zero has none."""
    text = fixed(value, decimals)
    return f"+{text}" if value is not None and text[0].isdigit() and float(text) else text


def significant(value: float | None) -> str:
    """Return three significant digits without an exponent: 0.97, 9.71, 97.1, 971."""
    if value is None:
        return NOTHING
    return fixed(value, 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0)


def general(value: float, digits: int = 5, *, sign: bool = False) -> str:
    """Return a number of any size as text: 1234567.0 → 1.2346e+06, 0.25 → 0.25, -0.0 → 0.

    Parameters
    ----------
    value
        The number.
    digits
        Significant digits.
    sign
        Whether a positive number gets a +.
    """
    if not math.isfinite(value):
        return {True: "∞", False: "−∞"}[value > 0] if math.isinf(value) else "not a number"
    return f"{value + 0.0:{'+' if sign and value else ''}.{digits}g}".replace("-", "−")


def interval(low: float | None, high: float | None, decimals: int = 3, *, sign: bool = True) -> str:
    """Return the two ends of an interval: −0.250 … +0.125."""
    if low is None or high is None or not math.isfinite(low) or not math.isfinite(high):
        return NOTHING
    write = signed if sign else fixed
    return f"{write(low, decimals)} … {write(high, decimals)}"


def percent(share: float | None, decimals: int = 0) -> str:
    """Return a share of one as per cent: 0.25 → 25 %."""
    return NOTHING if share is None or not math.isfinite(share) else f"{fixed(100 * share, decimals)} %"


def p_value(p: float | None) -> str:
    """Return a p value to three decimals, at least 0.001."""
    if p is None:
        return NOTHING
    return f"< {_LEAST_P:g}" if p < _LEAST_P else f"{p:.3f}"


def p_relation(p: float | None) -> str:
    """Return a p value with its relation, as in "p = 0.012" or "p < 0.001", without the letter."""
    text = p_value(p)
    return text if p is None or text.startswith("<") else f"= {text}"


def count(number: float) -> str:
    """Return three significant digits and a decimal unit: 946, 33.1 k, 124 M."""
    return _scaled(number, 1000, 999.5, _DECIMAL_UNITS)


def byte_count(number: float | None) -> str:
    """Return three significant digits and a binary unit: 812 B, 1.50 KiB, 40.0 MiB."""
    return NOTHING if number is None else _scaled(number, 1024, 1024, _BYTE_UNITS)


def clock_time(seconds: float) -> str:
    """Return a duration as a clock shows it: 3725 → 1:02:05, 72 → 1:12."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def ratio(ours: float | None, theirs: float | None) -> str:
    """Return how many times as large one number is as another: 1.25 ×."""
    return NOTHING if ours is None or not theirs else f"{significant(ours / theirs)} ×"


def plural(number: int, word: str) -> str:
    """Return a number of things: 1 seed, 4 seeds."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def and_list(words: Sequence[str]) -> str:
    """Return words as a list: a; a and b; a, b and c."""
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} and {words[-1]}"


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _scaled(number: float, factor: int, limit: float, units: Sequence[str]) -> str:
    value, unit = float(number), 0
    while abs(value) >= limit and unit < len(units) - 1:
        value, unit = value / factor, unit + 1
    return f"{significant(value) if unit else f'{value:.0f}'}{units[unit]}"
