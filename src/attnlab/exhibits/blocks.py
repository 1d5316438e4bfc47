"""Blocks: the elements that an exhibit shows, drawn as text in a terminal and with plotly on a page.

show.plot("Entropy", line("derived", x, y), points("sampled", x, y, error=e), x="key width D_k", y="entropy (nats)")
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attnlab.errors import InputError
from attnlab.formats import general
from attnlab.pages import Table

Cell = str | int | float | bool
SeriesKind = Literal["line", "points", "histogram", "bars"]


@dataclass(frozen=True)
class Words:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Formula:
    """A displayed equation."""

    text: str


@dataclass(frozen=True)
class TableBlock:
    """Rows of cells under headings; numbers are rounded when they are drawn."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def table(self, *, caption: str = "", wrap_columns: Sequence[int] = ()) -> Table:
        """Return the table as text; columns without a number are aligned to the left."""
        rows = [[cell_text(cell) for cell in row] for row in self.rows]
        texts = [n for n in range(len(self.headings)) if all(isinstance(row[n], str) for row in self.rows)]
        return Table(self.headings, rows, caption, text_columns=texts, wrap_columns=wrap_columns)


@dataclass(frozen=True)
class Slip:
    """An error in a source: its statement, and the computed value."""

    claim: str
    says: str
    computed: str


@dataclass(frozen=True)
class Series:
    """A named series of numbers. `error` is the half-width of an interval around y; x of a histogram are its edges."""

    kind: SeriesKind
    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    error: tuple[float, ...] = ()


@dataclass(frozen=True)
class Plot:
    """Series over two axes, each labelled with its quantity and unit; `labels` name the bars.

    `equal` axes have the same scale, so that shapes are not distorted.
    """

    title: str
    series: tuple[Series, ...]
    x: str
    y: str
    caption: str = ""
    log_x: bool = False
    log_y: bool = False
    labels: tuple[str, ...] = ()
    equal: bool = False


@dataclass(frozen=True)
class Heatmap:
    """A matrix of numbers, with names of rows and columns."""

    title: str
    cells: tuple[tuple[float, ...], ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    x: str
    y: str
    unit: str
    caption: str = ""


def line(name: str, x: Any, y: Any) -> Series:
    """Return a derived series, or a curve through many points.

    Parameters
    ----------
    name
        The name in the legend.
    x
        The x coordinates.
    y
        The values, one for each x.
    """
    return _series("line", name, x, y)


def points(name: str, x: Any, y: Any, error: Any = ()) -> Series:
    """Return a sampled or measured series.

    Parameters
    ----------
    name
        The name in the legend.
    x
        The x coordinates.
    y
        The values, one for each x.
    error
        The half-width of the interval around each value, if there is one.
    """
    return _series("points", name, x, y, error)


def histogram(
    name: str, samples: Any, *, bins: int = 40, low: float | None = None, high: float | None = None
) -> Series:
    """Return the distribution of samples as a density, so that a derived density can be drawn on top.

    Parameters
    ----------
    name
        The name in the legend.
    samples
        Numbers of a tensor, an array or a list.
    bins
        The number of bars.
    low
        The left edge of the first bar; the smallest sample if None.
    high
        The right edge of the last bar; the largest sample if None.
    """
    values = np.asarray(flat(samples))
    limits = (values.min() if low is None else low, values.max() if high is None else high)
    density, edges = np.histogram(values, bins=bins, range=limits, density=False)
    heights = density / (values.size * np.diff(edges))  # relative to all samples, including those outside
    return Series("histogram", name, tuple(edges.tolist()), tuple(heights.tolist()))


def bars(name: str, y: Any) -> Series:
    """Return a series with one number for each label of the plot.

    Parameters
    ----------
    name
        The name in the legend.
    y
        The numbers.
    """
    heights = flat(y)
    return Series("bars", name, tuple(float(place) for place in range(len(heights))), heights)


def _series(kind: SeriesKind, name: str, x: Any, y: Any, error: Any = ()) -> Series:
    across, up, errors = flat(x), flat(y), flat(error)
    if len(across) != len(up) or not across:
        raise InputError(f"{name!r} has {len(across)} x and {len(up)} y", hint="give as many of each, at least one")
    if errors and len(errors) != len(across):
        raise InputError(f"{len(errors)} errors for {len(across)} points of {name!r}", hint="give one for each")
    return Series(kind, name, across, up, errors)


def flat(values: Any) -> tuple[float, ...]:
    """Return the numbers of a tensor, an array or a list, one after the other."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    return tuple(np.asarray(values, dtype=np.float64).reshape(-1).tolist())


def cell_text(cell: Cell) -> str:
    """Return a cell as text: whole numbers with thousands separators, others to five digits."""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}" if abs(cell) >= 10_000 else str(cell)
    return cell if isinstance(cell, str) else general(cell)


def vector_text(values: Any, digits: int = 5) -> str:
    """Return numbers as text: (2, 8, −20).

    Parameters
    ----------
    values
        Numbers of a tensor, an array or a list.
    digits
        Significant digits.
    """
    return "(" + ", ".join(general(value, digits) for value in flat(values)) + ")"


Block = Words | Formula | TableBlock | Slip | Plot | Heatmap

# Axes: the range that a plot must show, and its round tick values


Axis = Literal["x", "y"]
AXES: tuple[Axis, Axis] = ("x", "y")


def extent(plot: Plot, axis: Axis) -> list[float]:
    """Return all numbers that an axis must show; a histogram stands on 0."""
    values = [value for one in plot.series for value in (one.x if axis == "x" else one.y)]
    if axis == "y":
        pairs = [(y, e) for one in plot.series for y, e in zip(one.y, one.error, strict=False)]
        values += [y + sign * e for y, e in pairs for sign in (-1, 1)]
        values += [0.0] * any(one.kind == "histogram" for one in plot.series)
    log = plot.log_x if axis == "x" else plot.log_y
    return [value for value in values if math.isfinite(value) and (value > 0 or not log)] or [1.0, 10.0]


def round_places(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers that reach from below `low` to above `high`, at most so many."""
    if high <= low:
        spread = abs(low) * 0.1 or 1.0
        low, high = low - spread, high + spread
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    while math.floor(high / step) - math.ceil(low / step) > most - 1:
        step *= 2.5 if f"{step:e}".startswith("2") else 2
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{place * step:.12g}") for place in range(first, last + 1)]


def powers(values: Sequence[float]) -> list[float]:
    """Return the ticks of a logarithmic axis: powers of ten, with 2 and 5 between them where they are few."""
    low, high = min(values), max(values)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first <= 2 else (1,)
    stride = max(1, (last - first) // 6)
    places = [step * 10.0**power for power in range(first, last + 1, stride) for step in steps]
    return [place for place in places if low <= place * 1.001 and place <= high * 1.001] or [low, high]
