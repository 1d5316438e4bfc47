"""Linear least squares: how a paired difference changes with model size, and growth rates.

    trend          the slope of each seed's differences over log₁₀ N
    y = a · xᵇ     b is the slope of log y over log x
    y = a · e^(rx) r is the slope of log y over x

The slopes of different seeds are independent, so their mean has an interval and a p-value by Student's t, even if the
differences of one seed are correlated across sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlab.errors import InputError, SpecError
from attnlab.statistics.checking import check_logarithms, check_values
from attnlab.statistics.paired import Interval, Noise, mean_interval, paired_t

_FEWEST_RUNGS = 3


@dataclass(frozen=True)
class Trend:
    """The change of the difference in nats per factor of ten in size, and the two-sided p of no change."""

    per_decade: Interval
    p: float
    per_seed: tuple[float, ...]


def trend(
    differences: Sequence[Sequence[float]],
    sizes: Sequence[float],
    *,
    level: float = 0.95,
    fewest: int = _FEWEST_RUNGS,
    pilot: Sequence[Sequence[float]] | None = None,
) -> Trend:
    """Return the trend of differences, one row per size and one column per seed, the same seeds in every row.

    Parameters
    ----------
    differences
        One row per size and one column per seed, the same seeds in every row.
    sizes
        Parameters of each size.
    level
        The confidence level of intervals, such as 0.95.
    fewest
        The fewest sizes; with 2, the trend is the change between them and says nothing about its shape.
    pilot
        Differences at other seeds in the same form, whose slopes give an estimate of the noise.
    """
    decades = np.log10(check_logarithms("sizes", sizes))
    rungs = len(set(decades.tolist()))
    if rungs < fewest:
        raise SpecError(
            f"a trend needs at least {fewest} model sizes, got {rungs}",
            hint="add a rung to the ladder; two sizes cannot show a trend apart from an outlier",
        )
    slopes = _slopes(differences, decades)
    noise = None if pilot is None else Noise.of(_slopes(pilot, decades))
    return Trend(mean_interval(slopes, level, noise), paired_t(slopes, noise), tuple(slopes))


def _slopes(differences: Sequence[Sequence[float]], decades: NDArray[np.float64]) -> list[float]:
    """Return the slope of every seed."""
    if len(differences) != decades.size:
        raise InputError(
            f"differences must have one row per size, got {len(differences)} rows for {decades.size} sizes",
            hint="give one list of differences for each size",
        )
    counts = sorted({len(row) for row in differences})
    if len(counts) > 1:
        raise InputError(
            f"a trend needs the same seeds at every size, got between {counts[0]} and {counts[-1]} of them",
            hint="keep only the seeds that every size has",
        )
    table = np.stack([check_values(row) for row in differences])  # (sizes, seeds)
    centered = decades - decades.mean()
    slopes: list[float] = (centered @ table / (centered @ centered)).tolist()
    return slopes


@dataclass(frozen=True)
class Growth:
    """A fitted exponent or rate, the factor in front of it, and the share of the logarithms' variance it explains."""

    slope: float
    factor: float
    explained: float


def power_growth(sizes: Sequence[float], values: Sequence[float]) -> Growth:
    """Return the exponent b of values = a · sizesᵇ."""
    return _line(_logarithms("sizes", sizes), _logarithms("values", values))


def exponential_growth(sizes: Sequence[float], values: Sequence[float]) -> Growth:
    """Return the rate r of values = a · e^(r sizes)."""
    return _line(check_values(sizes), _logarithms("values", values))


def _logarithms(name: str, values: Sequence[float]) -> NDArray[np.float64]:
    numbers = check_values(values)
    if numbers.min() <= 0:
        raise InputError(f"{name} down to {numbers.min():g} have no logarithm", hint="leave out what is not above 0")
    return np.log(numbers)


def _line(x: NDArray[np.float64], y: NDArray[np.float64]) -> Growth:
    if x.shape != y.shape:
        raise InputError(f"{x.size} sizes and {y.size} values", hint="give one value for each size")
    if x.min() == x.max():
        raise InputError("all sizes are the same, so nothing grows", hint="give at least two different sizes")
    from_x, from_y = x - x.mean(), y - y.mean()
    slope = float((from_x @ from_y) / (from_x @ from_x))
    spread = float(from_y @ from_y)
    left = from_y - slope * from_x
    explained = 1.0 if spread == 0 else 1.0 - float(left @ left) / spread
    return Growth(slope, float(np.exp(y.mean() - slope * x.mean())), explained)
