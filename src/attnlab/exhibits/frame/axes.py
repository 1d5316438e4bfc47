"""What the axes of a plot must show, and the round places that are named on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from attnlab.exhibits.frame.blocks import Plot

Axis = Literal["x", "y"]
AXES: tuple[Axis, Axis] = ("x", "y")


def extent(plot: Plot, axis: Axis) -> list[float]:
    """All numbers that an axis must show; a histogram stands on 0."""
    values = [value for one in plot.series for value in (one.x if axis == "x" else one.y)]
    if axis == "y":
        pairs = [(y, e) for one in plot.series for y, e in zip(one.y, one.error, strict=False)]
        values += [y + sign * e for y, e in pairs for sign in (-1, 1)]
        values += [0.0] * any(one.kind == "histogram" for one in plot.series)
    log = plot.log_x if axis == "x" else plot.log_y
    return [value for value in values if math.isfinite(value) and (value > 0 or not log)] or [1.0, 10.0]


def round_places(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers that reach from below `low` to above `high`, at most so many."""
    if high <= low:
        spread = abs(low) * 0.1 or 1.0
        low, high = low - spread, high + spread
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    while math.floor(high / step) - math.ceil(low / step) > most - 1:
        step *= 2.5 if f"{step:e}".startswith("2") else 2
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{place * step:.12g}") for place in range(first, last + 1)]


def powers(values: Sequence[float]) -> list[float]:
    """The places to name on a logarithmic axis: powers of ten, with 2 and 5 between them where they are few."""
    low, high = min(values), max(values)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first <= 2 else (1,)
    stride = max(1, (last - first) // 6)
    places = [step * 10.0**power for power in range(first, last + 1, stride) for step in steps]
    return [place for place in places if low <= place * 1.001 and place <= high * 1.001] or [low, high]
