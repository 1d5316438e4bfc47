"""The logit-normal distribution, and whether samples come from a distribution.

σ(z) = 1 / (1 + e^−z) for a normal z is the weight of a softmax over two scores whose difference is normal:

    F(w) = Φ((logit w − μ) / σ),   f(w) = φ((logit w − μ) / σ) / (σ w (1 − w)),   logit w = log(w / (1 − w))

Its moments have no closed form; they are integrals over z, of which the trapezoid rule is exact to rounding.

Kolmogorov's distance is the largest between the cumulative shares of samples and of a continuous distribution:

    D = sup |F_n(x) − F(x)|,   P(D > t / √n) → 2 Σ (−1)^(j−1) e^(−2 j² t²)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special  # type: ignore[import-untyped,unused-ignore]

from attnlab.errors import SpecError
from attnlab.statistics.checking import check_count, check_samples, check_share

_REACH = 10.0  # standard deviations of z to either side
_POINTS = 20_001


@dataclass(frozen=True)
class LogitNormal:
    """σ(z) for z ~ N(location, scale²)."""

    location: float
    scale: float

    def __post_init__(self) -> None:
        if not (self.scale > 0 and math.isfinite(self.scale) and math.isfinite(self.location)):
            raise SpecError(
                f"a location of {self.location:g} and a scale of {self.scale:g} make no distribution",
                hint="use a finite location and a scale above 0",
            )

    def cumulative(self, share: Any) -> NDArray[np.float64]:
        """Return the chance of at most this share."""
        shares = np.asarray(share, dtype=np.float64)
        return np.asarray(special.ndtr((special.logit(shares) - self.location) / self.scale))

    def density(self, edges: Any) -> NDArray[np.float64]:
        """Return the mean density between one edge and the next, as a histogram has it."""
        places = np.asarray(edges, dtype=np.float64)
        return np.asarray(np.diff(self.cumulative(places)) / np.diff(places))

    @property
    def mean(self) -> float:
        shares, weights, z = self._grid()
        return float(np.trapezoid(shares * weights, z))

    @property
    def variance(self) -> float:
        shares, weights, z = self._grid()
        return float(np.trapezoid((shares - self.mean) ** 2 * weights, z))  # without taking large from large

    def _grid(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        z = np.linspace(-_REACH, _REACH, _POINTS)
        shares = special.expit(self.location + self.scale * z)
        return np.asarray(shares), np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi), z


def kolmogorov_distance(samples: Any, cumulative: Callable[[NDArray[np.float64]], Any]) -> float:
    """Return the largest distance between the share of samples up to x and its derived chance."""
    values = np.sort(check_samples(samples))
    chances = np.asarray(cumulative(values), dtype=np.float64)
    after = np.arange(1, values.size + 1) / values.size
    return float(max(np.abs(after - chances).max(), np.abs(after - 1 / values.size - chances).max()))


def kolmogorov_limit(count: int, alpha: float) -> float:
    """Return the distance that so many samples of the derived distribution exceed with the chance `alpha`."""
    check_count(count)
    check_share("alpha", alpha)
    return float(special.kolmogi(alpha)) / math.sqrt(count)
