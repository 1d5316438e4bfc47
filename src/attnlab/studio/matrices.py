"""Formatting and parsing of numbers in the studio, and matrices as HTML: editable ones, and those that attention
computes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from attnlab.errors import InputError

Rows = Sequence[Sequence[float]]

SYMBOLS = {"x": "X", "query": "W_Q", "key": "W_K", "value": "W_V"}
_RESULTS = {
    "query": ("Q", "queries"),
    "key": ("K", "keys"),
    "value": ("V", "values"),
    "scores": ("S", "scores"),
    "weights": ("P", "weights"),
    "output": ("O", "output"),
}
_HIDDEN = "·"
_DECIMALS = 5
_SMALL, _LARGE = 1e-4, 1e7


def number_text(value: float | str) -> str:
    """Return a number of a matrix: 2, −7.94066, 6.90e−13; one that is not finite is a word."""
    if isinstance(value, str) or not math.isfinite(value):
        return str(value).replace("-", "−")
    if value == 0:
        return "0"
    if not _SMALL <= abs(value) < _LARGE:
        mantissa, _, power = f"{value:.2e}".partition("e")
        return f"{mantissa}e{int(power)}".replace("-", "−")
    text = f"{value:.{_DECIMALS}f}".rstrip("0").rstrip(".")
    return text.replace("-", "−")


def typed_text(value: float) -> str:
    """Return a number as one would type it."""
    return repr(int(value)) if value == int(value) and abs(value) < _LARGE else repr(value)


def read_number(text: str) -> float:
    """Return the number that was typed: a decimal number, or a fraction."""
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
    """Return the whole number within a range that was typed."""
    plain = text.strip().replace("−", "-").replace(" ", "")
    if not plain.lstrip("-").isdecimal() or not least <= int(plain[:12]) <= most or len(plain) > 12:
        raise InputError(f"{what} is {text.strip() or 'nothing'!r}", hint=f"use a whole number from {least} to {most}")
    return int(plain)


def editable_html(name: str, rows: Rows, *, tokens: Sequence[str] = (), heads: int = 1) -> str:
    """Return a matrix of fields to type into; where its rows are tokens, their names can be typed too."""
    symbol = SYMBOLS[name]
    height, width = len(rows), len(rows[0])
    body = ""
    for i, row in enumerate(rows):
        first = f"<th>{_field('token', i, 0, tokens[i], f'name of token {i + 1}')}</th>" if tokens else ""
        cells = ""
        for j, value in enumerate(row):
            label = f"{symbol}, row {i + 1}, column {j + 1}"
            apart = ' class="apart"' if heads > 1 and j and j % (width // heads) == 0 else ""
            cells += f"<td{apart}>{_field(name, i, j, typed_text(value), label)}</td>"
        body += f"<tr>{first}{cells}</tr>"
    size = f"<small>{height} × {width}</small>"
    return _scrolling(f'<table class="matrix"><caption>{symbol} {size}</caption><tbody>{body}</tbody></table>')


def _scrolling(table: str) -> str:
    """Return a table in a place that scrolls where the page is narrower than the table."""
    return f'<div tabindex="0">{table}</div>'


def _field(name: str, row: int, column: int, value: str, label: str) -> str:
    mode = "text" if name == "token" else "decimal"
    return (
        f'<input data-cell="{name} {row} {column}" inputmode="{mode}" maxlength="24" autocomplete="off" '
        f'spellcheck="false" aria-label="{escape(label, quote=True)}" value="{escape(value, quote=True)}">'
    )


def steps_html(answer: Mapping[str, Any], before: Mapping[str, Any] | None) -> str:
    """Return every step of attention, head by head; cells that differ from those of `before` stand out."""
    steps, last = answer["steps"], (before or {}).get("steps", {})
    heads, group = len(steps["output"]), answer["group"]
    parts = []
    for head in range(heads):
        places = {name: head // group if name in {"key", "value"} else head for name in steps}
        tables = [
            _result(name, steps[name], _at(last.get(name), places[name]), answer, places[name])
            for name in _RESULTS
            if steps[name] is not None
        ]
        title = f"<h3>Head {head + 1}</h3>" if heads > 1 else ""
        parts.append(f'{title}<div class="flow">{"".join(tables)}</div>')
    if steps["weights"] is None:
        parts.append('<p class="note">This operator gives no weight to a single token, so that there is no map.</p>')
    return "".join(parts)


def _at(matrices: Any, place: int) -> Any:
    return matrices[place] if matrices is not None and place < len(matrices) else None


def _result(name: str, heads: Sequence[Rows], before: Any, answer: Mapping[str, Any], place: int) -> str:
    """Return one step of the head at a place."""
    symbol, words = _RESULTS[name]
    rows = heads[place]
    tokens, pairwise = answer["state"]["tokens"], name in {"scores", "weights"}
    comparable = before is not None and len(before) == len(rows) and len(before[0]) == len(rows[0])
    body = ""
    for i, row in enumerate(rows):
        cells = ""
        for j, value in enumerate(row):
            seen = not pairwise or answer["visible"][i][j]
            changed = comparable and before[i][j] != value
            cells += _cell(name, value, seen=seen, changed=changed)
        body += f'<tr><th scope="row">{escape(tokens[i])}</th>{cells}</tr>'
    head = ""
    if pairwise:
        names = "".join(f'<th scope="col">{escape(token)}</th>' for token in tokens)
        head = f"<thead><tr><td></td>{names}</tr></thead>"
    caption = f"{symbol} <small>{words}, {len(rows)} × {len(rows[0])}</small>"
    inside = f"<caption>{caption}</caption>{head}<tbody>{body}</tbody>"
    table = f'<table class="matrix" data-result="{name}" data-offset="{place * len(rows[0])}">{inside}</table>'
    return _scrolling(table)


def _cell(name: str, value: float | str, *, seen: bool, changed: bool) -> str:
    classes, style = ["changed"] if changed else [], ""
    if not seen:
        shown = "0" if name == "weights" else f'<span aria-label="not visible">{_HIDDEN}</span>'
        return f'<td class="hidden">{shown}</td>'
    if name == "weights" and not isinstance(value, str):
        classes.append("shaded")
        style = f' style="--share:{min(1.0, abs(value)):.3f}"'
    return f'<td class="{" ".join(classes)}"{style} title="{value!r}">{number_text(value)}</td>'


def rows_html(answer: Mapping[str, Any]) -> str:
    """Return for each query its scores, its weights, and the sum of the weighted values, in one line."""
    steps, tokens, visible = answer["steps"], answer["state"]["tokens"], answer["visible"]
    if steps["weights"] is None:
        return ""
    heads, group = len(steps["output"]), answer["group"]
    lines = []
    for i, token in enumerate(tokens):
        for head in range(heads):
            seen = [j for j in range(len(tokens)) if visible[i][j]]
            scores, weights = steps["scores"][head][i], steps["weights"][head][i]
            values, output = steps["value"][head // group], steps["output"][head][i]
            sums = " + ".join(f"{number_text(weights[j])}·{vector_text(values[j])}" for j in seen) or "0"
            name = escape(token) + (f", head {head + 1}" if heads > 1 else "")
            lines.append(
                f"<li><b>{name}</b> s = {vector_text([scores[j] for j in seen])} → p = "
                f"{vector_text([weights[j] for j in seen])} → o = {sums} = {vector_text(output)}</li>"
            )
    return f'<ol class="rows">{"".join(lines)}</ol>'


def vector_text(values: Sequence[float | str], most: int | None = None) -> str:
    """Return numbers in brackets; of long vectors only the first `most`."""
    shown = [number_text(value) for value in values[:most]]
    return f"({', '.join([*shown, '…'] if len(shown) < len(values) else shown)})"
