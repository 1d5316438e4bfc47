"""Equations of the tables as mathematics: a cell that holds nothing but equations that attnlab itself states."""

from __future__ import annotations

import re
from functools import cache
from html import unescape

from attnlab.attention import variants
from attnlab.exhibits import exhibits
from attnlab.pages import equations_html

_CELL = re.compile(r"(<td[^>]*>)((?:[^<]|<br\s*/?>)+)(</td>)")
_BREAK = re.compile(r"<br\s*/?>")


def set_equations(html: str) -> str:
    """Return the page with MathML in all cells of tables whose lines are equations of variants or exhibits."""
    return _CELL.sub(_set, html)


def _set(cell: re.Match[str]) -> str:
    lines = [unescape(line) for line in _BREAK.split(cell[2])]
    if not all(_shape(line) in _known() for line in lines):
        return cell[0]
    return f"{cell[1]}{equations_html(chr(10).join(lines))}{cell[3]}"


@cache
def _known() -> frozenset[str]:
    texts = ["\n".join(one.equations()) for one in variants()] + [one.equation for one in exhibits()]
    return frozenset(_shape(line) for text in texts for line in text.splitlines())


def _shape(line: str) -> str:
    """Return a line without its blanks, which Markdown changes."""
    return "".join(line.split())
