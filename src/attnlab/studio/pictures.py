"""Small pictures as SVG, drawn without a library: intervals in a list, an attention matrix, an icon for each page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_WIDTH, _ROW, _PAD = 150, 9, 4
_REACH = 3.0  # maximum extent of an axis on each side, in margins
_ICON_SIZE = 48  # pixels
# The icon of each page, as strokes of each kind (see studio.css).
_ICONS = {
    "/seen": {
        "soft": "M8 10C24 10 24 24 40 24M8 24C24 24 24 10 40 10M8 38C24 38 24 24 40 24",
        "strong": "M8 38C24 38 24 10 40 10",
        "dot": "M8 10h0M8 24h0M8 38h0M40 10h0M40 24h0M40 38h0",
    },
    "/playground": {
        "fill": "M6 6h12v12h-12zM18 18h12v12h-12zM30 30h12v12h-12zM6 30h12v12h-12z",
        "soft": "M6 6h36v36h-36zM18 6v36M30 6v36M6 18h36M6 30h36",
    },
    "/compare": {"soft": "M24 5v38", "strong": "M28 14h14M6 24h12M19 34h14", "dot": "M35 14h0M12 24h0M26 34h0"},
    "/scale": {
        "soft": "M6 5v37h37",
        "strong": "M12 34L20 28L28 24",
        "dashed": "M28 24L43 16",
        "dot": "M12 34h0M20 28h0M28 24h0",
    },
    "/retrofit": {
        "fill": "M8 20h22v9h-22z",
        "soft": "M8 8h22v9h-22zM8 20h22v9h-22zM8 32h22v9h-22z",
        "strong": "M44 14C44 24 42 25 34 25M38 21L34 25L38 29",
    },
    "/heads": {
        "fill": "M6 6v16h16zM26 26v16h16z",
        "strong": "M27 7L41 21M7 27L21 41",
        "soft": "M6 6h16v16h-16zM26 6h16v16h-16zM6 26h16v16h-16zM26 26h16v16h-16z",
    },
    "/cost": {
        "fill": "M8 26h8v16h-8zM20 18h8v24h-8zM32 32h8v10h-8z",
        "soft": "M8 12h8v30h-8zM20 6h8v36h-8zM32 22h8v20h-8zM4 42h40",
    },
    "/ask": {"soft": "M6 8h36v24h-20l-8 9v-9h-8z", "strong": "M20 16a4 4 0 1 1 5 4q-1 1 -1 3M24 27v.5"},
    "/exhibits": {"soft": "M6 8h36v32h-36zM6 16h36", "strong": "M15 28L21 34L33 22"},
}


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


def page_icon(address: str) -> str:
    """Return the icon of a page, which is decoration beside its name."""
    strokes = "".join(f'<path class="{kind}" d="{path}"/>' for kind, path in _ICONS[address].items())
    size = f'viewBox="0 0 {_ICON_SIZE} {_ICON_SIZE}" width="{_ICON_SIZE}" height="{_ICON_SIZE}"'
    return f'<svg class="icon" aria-hidden="true" {size}>{strokes}</svg>'


def _svg(width: int, height: int, parts: Sequence[str], words: str, kind: str) -> str:
    label = escape(words, quote=True)
    inside = "".join(parts)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg class="small {kind}" role="img" aria-label="{label}" {size}>{inside}</svg>'
