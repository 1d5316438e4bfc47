"""The distribution of σ(z) = 1 / (1 + e^−z) for a normal z: of a softmax over two scores whose difference is normal.

    F(w) = Φ((logit w − μ) / σ),   f(w) = φ((logit w − μ) / σ) / (σ w (1 − w)),   logit w = log(w / (1 − w))

Its moments have no closed form; they are integrals over z, of which the trapezoid rule is exact to rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special  # type: ignore[import-untyped,unused-ignore]

from attnlab.errors import SpecError

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
        """The chance of at most this share."""
        shares = np.asarray(share, dtype=np.float64)
        return np.asarray(special.ndtr((special.logit(shares) - self.location) / self.scale))

    def density(self, edges: Any) -> NDArray[np.float64]:
        """The mean density between one edge and the next, as a histogram has it."""
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
