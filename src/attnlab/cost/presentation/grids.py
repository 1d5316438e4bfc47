"""Rows of text under headings, which a terminal, a page and a notebook show alike; and how numbers are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NOTHING = "–"
_DECIMAL = ("", "k", "M", "G", "T", "P", "E", "Z", "Y", "R", "Q")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB")


@dataclass(frozen=True)
class Grid:
    """A table with a title and a word on how to read it."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: str = ""
    text_columns: Sequence[int] = (0,)

    def __str__(self) -> str:
        """Columns of plain text."""
        lines = [self.headings, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.headings))]
        shown = [
            "  ".join(
                cell.ljust(width) if column in self.text_columns else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        words = ["", self.words] if self.words else []
        return "\n".join([self.title, "", shown[0], "─" * max(map(len, shown)), *shown[1:], *words])


def count_text(number: int) -> str:
    """A whole number, exactly."""
    return f"{number:,}"


def flops_text(number: float) -> str:
    """With three digits that count and a letter for the thousands: 3.62 T."""
    return _scaled(number, 1000, _DECIMAL)


def bytes_text(number: float) -> str:
    """With three digits that count: 475 MiB."""
    return _scaled(number, 1024, _BINARY)


def ratio_text(number: float) -> str:
    """0.75, 1.50, 12.3."""
    return f"{number:.2f}" if number < 9.995 else f"{number:.1f}" if number < 999.5 else f"{number:.3g}"


def share_text(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else NOTHING


def quantity_text(number: float | int | None, unit: str) -> str:
    """A number in its unit."""
    if number is None:
        return NOTHING
    if unit == "B":
        return bytes_text(number)
    if unit == "FLOPs":
        return f"{flops_text(number)}FLOPs" if number >= 1000 else f"{flops_text(number)} FLOPs"
    if unit == "FLOPs/B":
        return f"{number:.3g}" if number < 1000 else f"{number:,.0f}"
    return count_text(int(number))


def _scaled(number: float, base: int, names: Sequence[str]) -> str:
    place = 0
    while place + 1 < len(names) and number >= base ** (place + 1):
        place += 1
    scaled = number / base**place
    if scaled >= 99_999:
        return f"{scaled:.3g} {names[place]}"
    digits = 0 if place == 0 and scaled == int(scaled) else 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
    return f"{scaled:,.{digits}f} {names[place]}".rstrip() if names[place] or base == 1024 else f"{scaled:,.{digits}f}"
