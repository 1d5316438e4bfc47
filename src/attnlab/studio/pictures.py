"""Small pictures as SVG, drawn without any library: intervals in a list, and a map of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_WIDTH, _ROW, _PAD = 150, 9, 4
_REACH = 3.0  # margins that an axis shows at most on each side


def intervals_svg(rows: Sequence[Mapping[str, Any]], margin: float) -> str:
    """Return intervals of differences in nats below each other, with the margin as a band; far ones are cut off."""
    if not rows:
        return ""
    most = max([1.5 * margin, *(abs(row[end]) for row in rows for end in ("low", "high"))])
    reach: float = min(most, max(_REACH * margin, *(1.2 * abs(row["mean"]) for row in rows)))

    def x(value: float) -> float:
        return round(_WIDTH / 2 * (1 + max(-1.0, min(1.0, value / reach))), 1)

    height = _ROW * len(rows) + 2 * _PAD
    parts = [
        f'<rect class="band" x="{x(-margin)}" y="0" width="{x(margin) - x(-margin):.1f}" height="{height}"/>',
        f'<line class="zero" x1="{x(0)}" x2="{x(0)}" y1="0" y2="{height}"/>',
    ]
    for number, row in enumerate(rows):
        y = _PAD + _ROW * (number + 0.5)
        tone = {"better": "good", "worse": "bad"}.get(row["verdict"], "even")
        parts.append(f'<line class="{tone}" x1="{x(row["low"])}" x2="{x(row["high"])}" y1="{y}" y2="{y}"/>')
        parts.append(f'<circle class="{tone}" cx="{x(row["mean"])}" cy="{y}" r="3"/>')
    words = "; ".join(f"{row['arm']} {row['verdict'] or 'not decided yet'}" for row in rows)
    return _svg(_WIDTH, height, parts, words, "intervals")


def weights_svg(rows: Sequence[Sequence[float]], words: str, size: int = 26) -> str:
    """Return a map of weights between 0 and 1 as squares."""
    parts = [
        f'<rect class="weight" x="{size * column + 1}" y="{size * row + 1}" width="{size - 2}" height="{size - 2}" '
        f'style="--share:{min(1.0, max(0.0, weight)):.3f}"/>'
        for row, weights in enumerate(rows)
        for column, weight in enumerate(weights)
    ]
    return _svg(size * len(rows[0]), size * len(rows), parts, words, "weights")


def _svg(width: int, height: int, parts: Sequence[str], words: str, kind: str) -> str:
    label = escape(words, quote=True)
    inside = "".join(parts)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg class="small {kind}" role="img" aria-label="{label}" {size}>{inside}</svg>'
