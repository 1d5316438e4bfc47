"""Plots in a terminal. Series differ in the letters that they are drawn with, so that colour is not needed."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import plotext

from attnlab.exhibits.frame.blocks import Heatmap, Plot, Series, number_text

_LINES = (("braille", "⠒"), ("·", "·"), ("-", "-"), ("~", "~"))  # what plotext calls them, and how they look
_POINTS = ("●", "x", "◇", "▲", "+", "*")
_HISTOGRAMS = ("░", "▒")
_BARS = ("█", "▒", "░", "/")
_SHADES = " ░▒▓█"
_HEIGHT = 18
_ONE_TURN = threading.Lock()  # plotext has one figure for all


def plot_text(plot: Plot, width: int, *, colour: bool) -> str:
    """The plot as lines of text; with `colour`, with the codes for it."""
    if plot.labels:
        return bars_text(plot, width)
    letters = _letters(plot.series)
    with _ONE_TURN:
        figure = plotext.figure
        figure.clear.all()
        figure.theme("default" if colour else "colorless")
        figure.canvas("default")
        figure.plot_size(width, _HEIGHT)
        for one, (marker, _) in zip(plot.series, letters, strict=True):
            _draw(figure, one, marker, plot)
        for axis, log in (("x", plot.log_x), ("y", plot.log_y)):
            if log:
                places = _powers(_all(plot, axis))
                figure.ruler(axis).ticks([math.log10(place) for place in places], [f"{place:g}" for place in places])
        drawn = str(figure.build().string(not colour))
    legend = "   ".join(f"{letter} {one.name}" for one, (_, letter) in zip(plot.series, letters, strict=True))
    lines = [line.rstrip() for line in drawn.splitlines()]
    return "\n".join([f"{plot.y}      {legend}", *lines, plot.x.center(width).rstrip()])


def bars_text(plot: Plot, width: int) -> str:
    """Bars from left to right, one under the other, each with its number; those below 0 run from the same line."""
    room = max(10, width - max(map(len, plot.labels)) - 14)
    largest = max((abs(value) for one in plot.series for value in one.y if math.isfinite(value)), default=0.0) or 1.0
    indent = max(map(len, plot.labels))
    legend = "   ".join(f"{letter} {one.name}" for one, letter in zip(plot.series, _BARS, strict=False))
    lines = [f"{plot.y}      {legend}" if len(plot.series) > 1 else plot.y]
    for place, label in enumerate(plot.labels):
        for number, one in enumerate(plot.series):
            value = one.y[place]
            length = round(room * abs(value) / largest) if math.isfinite(value) else 0
            name = label if number == 0 else ""
            lines.append(f"{name:>{indent}} │{_BARS[number % len(_BARS)] * length} {number_text(value, 4)}")
    return "\n".join([*lines, plot.x] if plot.x else lines)


def heatmap_text(drawn: Heatmap, width: int) -> str:
    """A shade for each cell, with its number where there is room."""
    values = [value for row in drawn.cells for value in row if math.isfinite(value)]
    low, high = min(values, default=0.0), max(values, default=1.0)
    indent = max(map(len, drawn.rows))
    texts = [[number_text(value, 3) for value in row] for row in drawn.cells]
    cell = max([len(text) for row in texts for text in row] + [len(name) for name in drawn.columns]) + 2
    roomy = indent + 1 + (cell + 1) * len(drawn.columns) <= width
    lines = [f"{drawn.unit}: {_SHADES[1]} {number_text(low, 3)} … {_SHADES[-1]} {number_text(high, 3)}"]
    if roomy:
        lines.append(" " * (indent + 1) + " ".join(name.rjust(cell) for name in drawn.columns))
    for name, row, words in zip(drawn.rows, drawn.cells, texts, strict=True):
        shades = [_shade(value, low, high) for value in row]
        if roomy:
            cells = (f"{shade} {text}".rjust(cell) for shade, text in zip(shades, words, strict=True))
            lines.append(f"{name:>{indent}} " + " ".join(cells))
        else:
            lines.append(f"{name:>{indent}} " + "".join(shade * 2 for shade in shades))
    return "\n".join([*lines, f"down: {drawn.y}, across: {drawn.x}"])


def _letters(series: Sequence[Series]) -> list[tuple[str, str]]:
    """For each series the marker that plotext draws it with, and how that looks."""
    used = {"line": 0, "points": 0, "histogram": 0, "bars": 0}
    found = []
    for one in series:
        number = used[one.kind]
        used[one.kind] += 1
        if one.kind == "line":
            found.append(_LINES[number % len(_LINES)])
        else:
            letters = _POINTS if one.kind == "points" else _HISTOGRAMS
            found.append((letters[number % len(letters)],) * 2)
    return found


def _draw(figure: Any, one: Series, marker: str, plot: Plot) -> None:
    if one.kind == "histogram":
        centres = [(a + b) / 2 for a, b in pairwise(one.x)]
        figure.draw(figure.bar(centres, list(one.y), marker=marker, width=1, lines=False, _reset_ticks=False))
        return
    places = [
        (_scaled(x, plot.log_x), _scaled(y, plot.log_y))
        for x, y in zip(one.x, one.y, strict=True)
        if _shown(x, y, plot)
    ]
    if not places:
        return
    signal = figure.signal([x for x, _ in places], [y for _, y in places], marker=marker)
    figure.draw(signal.lines() if one.kind == "line" else signal)


def _shown(x: float, y: float, plot: Plot) -> bool:
    finite = math.isfinite(x) and math.isfinite(y)
    return finite and (x > 0 or not plot.log_x) and (y > 0 or not plot.log_y)


def _scaled(value: float, log: bool) -> float:
    return math.log10(value) if log else value


def _all(plot: Plot, axis: str) -> list[float]:
    values = [value for one in plot.series for value in (one.x if axis == "x" else one.y)]
    return [value for value in values if value > 0 and math.isfinite(value)]


def _powers(values: list[float]) -> list[float]:
    """The places to name on a logarithmic axis: powers of ten, and 2 and 5 between them where they are few."""
    low, high = min(values), max(values)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first <= 2 else (1,)
    stride = max(1, (last - first) // 6)
    places = [step * 10.0**power for power in range(first, last + 1, stride) for step in steps]
    return [place for place in places if low <= place * 1.001 and place <= high * 1.001] or [low, high]


def _shade(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return "?"
    share = (value - low) / (high - low) if high > low else 0.0
    return _SHADES[min(len(_SHADES) - 1, int(share * len(_SHADES)))]
