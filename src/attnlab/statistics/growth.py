"""How fast something grows with its size.

y = a · xᵇ            b is the slope of log y over log x, fitted by least squares
y = a · e^(rx)        r is the slope of log y over x
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlab.errors import InputError
from attnlab.statistics.checking import check_values


@dataclass(frozen=True)
class Growth:
    """A fitted exponent or rate, the factor in front of it, and the share of the logarithms' variance it explains."""

    slope: float
    factor: float
    explained: float


def power_growth(sizes: Sequence[float], values: Sequence[float]) -> Growth:
    """The exponent b of values = a · sizesᵇ."""
    x, y = _positive("sizes", sizes), _positive("values", values)
    return _line(np.log(x), np.log(y))


def exponential_growth(sizes: Sequence[float], values: Sequence[float]) -> Growth:
    """The rate r of values = a · e^(r sizes)."""
    return _line(check_values(sizes), np.log(_positive("values", values)))


def _positive(name: str, values: Sequence[float]) -> NDArray[np.float64]:
    numbers = check_values(values)
    if numbers.min() <= 0:
        raise InputError(f"{name} down to {numbers.min():g} have no logarithm", hint="leave out what is not above 0")
    return numbers


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
