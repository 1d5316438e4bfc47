"""What an exhibit shows, described once: drawn with letters in a terminal, and with plotly on a page.

show.plot("Entropy", line("derived", x, y), points("sampled", x, y, error=e), x="key width D_k", y="entropy (nats)")
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attnlab.errors import InputError

Cell = str | int | float | bool
SeriesKind = Literal["line", "points", "histogram", "bars"]


@dataclass(frozen=True)
class Words:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Formula:
    """An equation on lines of its own."""

    text: str


@dataclass(frozen=True)
class TableBlock:
    """Rows of cells under headings; numbers are shortened when they are drawn."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Slip:
    """Where a note is wrong: what it says, and what is computed."""

    claim: str
    says: str
    computed: str


@dataclass(frozen=True)
class Series:
    """Numbers with a name. `error` is the half of an interval around y; a histogram's x are its edges."""

    kind: SeriesKind
    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    error: tuple[float, ...] = ()


@dataclass(frozen=True)
class Plot:
    """Series over two axes, each with what it shows and its unit; `labels` name the places of bars.

    `equal` axes have the same scale, so that shapes look as they are.
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
    """A number for each row and column."""

    title: str
    cells: tuple[tuple[float, ...], ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    x: str
    y: str
    unit: str
    caption: str = ""


def line(name: str, x: Any, y: Any) -> Series:
    """What is derived, or a curve through many places."""
    return _series("line", name, x, y)


def points(name: str, x: Any, y: Any, error: Any = ()) -> Series:
    """What was sampled or measured, with the half of its interval where it has one."""
    made = _series("points", name, x, y)
    errors = flat(error)
    if errors and len(errors) != len(made.x):
        raise InputError(f"{len(errors)} errors for {len(made.x)} points of {name!r}", hint="give one for each")
    return Series("points", name, made.x, made.y, errors)


def histogram(
    name: str, samples: Any, *, bins: int = 40, low: float | None = None, high: float | None = None
) -> Series:
    """How samples are spread, as a density, so that a derived one can be drawn on top."""
    values = np.asarray(flat(samples))
    limits = (values.min() if low is None else low, values.max() if high is None else high)
    density, edges = np.histogram(values, bins=bins, range=limits, density=False)
    heights = density / (values.size * np.diff(edges))  # of all samples, also those outside
    return Series("histogram", name, tuple(edges.tolist()), tuple(heights.tolist()))


def bars(name: str, y: Any) -> Series:
    """One number for each label of the plot."""
    heights = flat(y)
    return Series("bars", name, tuple(float(place) for place in range(len(heights))), heights)


def heatmap(
    title: str, cells: Any, *, rows: Iterable[str], columns: Iterable[str], x: str, y: str, unit: str, caption: str = ""
) -> Heatmap:
    """A matrix, its first row on top."""
    grid = np.asarray(cells if not hasattr(cells, "detach") else cells.detach().cpu(), dtype=np.float64)
    names, others = tuple(rows), tuple(columns)
    if grid.shape != (len(names), len(others)):
        raise InputError(
            f"{title!r} has cells of shape {grid.shape} for {len(names)} rows and {len(others)} columns",
            hint="name each row and column",
        )
    return Heatmap(title, tuple(tuple(row) for row in grid.tolist()), names, others, x, y, unit, caption)


def _series(kind: SeriesKind, name: str, x: Any, y: Any) -> Series:
    across, up = flat(x), flat(y)
    if len(across) != len(up) or not across:
        raise InputError(f"{name!r} has {len(across)} x and {len(up)} y", hint="give as many of each, at least one")
    return Series(kind, name, across, up)


def flat(values: Any) -> tuple[float, ...]:
    """Numbers of a tensor, an array or a list, one after the other."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    return tuple(np.asarray(values, dtype=np.float64).reshape(-1).tolist())


def cell_text(cell: Cell) -> str:
    """A cell as it is read: whole numbers with their thousands, others to five digits."""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}" if abs(cell) >= 10_000 else str(cell)
    return cell if isinstance(cell, str) else number_text(cell)


def number_text(number: float, digits: int = 5) -> str:
    """1234567.0 → 1.2346e+06, 0.25 → 0.25, -0.0 → 0."""
    if not math.isfinite(number):
        return {True: "∞", False: "−∞"}[number > 0] if math.isinf(number) else "not a number"
    return f"{number + 0.0:.{digits}g}".replace("-", "−")


def vector_text(values: Any, digits: int = 5) -> str:
    """(2, 8, −20)."""
    return "(" + ", ".join(number_text(value, digits) for value in flat(values)) + ")"


def plain(value: Any) -> Any:
    """Data that JSON can hold: what is not finite becomes text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else number_text(value)
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(one) for one in value]
    return value


Block = Words | Formula | TableBlock | Slip | Plot | Heatmap
