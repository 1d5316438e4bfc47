"""Numbers as the studio prints and reads them."""

from __future__ import annotations

import math

from attnlab.errors import InputError

_DIGITS = 5  # behind the point, as the discussion sheet has them
_SMALL, _LARGE = 1e-4, 1e7


def number_text(value: float | str) -> str:
    """2, −7.94066, 6.90e−13; what is no finite number is a word."""
    if isinstance(value, str) or not math.isfinite(value):
        return str(value).replace("-", "−")
    if value == 0:
        return "0"
    if not _SMALL <= abs(value) < _LARGE:
        mantissa, _, power = f"{value:.2e}".partition("e")
        return f"{mantissa}e{int(power)}".replace("-", "−")
    text = f"{value:.{_DIGITS}f}".rstrip("0").rstrip(".")
    return text.replace("-", "−")


def typed_text(value: float) -> str:
    """A number as one would type it."""
    return repr(int(value)) if value == int(value) and abs(value) < _LARGE else repr(value)


def read_number(text: str) -> float:
    """What somebody typed: a decimal number, or a fraction."""
    plain = text.strip().replace("−", "-").replace(",", ".")
    above, slash, below = plain.partition("/")
    try:
        value = float(above) / float(below) if slash else float(plain)
    except (ValueError, ZeroDivisionError):
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{text.strip() or 'nothing'!r} is no number", hint="write 2, −1.5, 1e−3 or 1/3")
    return value


def read_whole(text: str, what: str, least: int, most: int) -> int:
    """A whole number within a range."""
    plain = text.strip().replace("−", "-").replace(" ", "")
    if not plain.lstrip("-").isdecimal() or not least <= int(plain[:12]) <= most or len(plain) > 12:
        raise InputError(f"{what} is {text.strip() or 'nothing'!r}", hint=f"use a whole number from {least} to {most}")
    return int(plain)
