"""Numbers estimated from samples, with their standard errors.

mean x̄              s / √n
variance s²          √((m₄ − s⁴ (n − 3)/(n − 1)) / n), with m₄ the fourth central moment
share h/n            √(p (1 − p) / n), with p the true share where it is known, as in testing one
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.errors import InputError
from attnlab.statistics.checking import check_values

_ROUNDING = 1e-9  # of a number without spread, relative


@dataclass(frozen=True)
class Estimate:
    """A number that was estimated from `count` samples, and its standard error."""

    value: float
    error: float
    count: int

    def errors_from(self, truth: float) -> float:
        """How many standard errors it is away from `truth`; what has no spread must agree to rounding."""
        gap = abs(self.value - truth)
        if self.error > 0:
            return gap / self.error
        if not math.isfinite(gap):
            return math.inf
        return 0.0 if gap <= _ROUNDING * max(1.0, abs(truth)) else math.inf


def estimate_mean(samples: Any) -> Estimate:
    """The mean of independent samples."""
    values = _values(samples)
    return Estimate(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(values.size), values.size)


def estimate_variance(samples: Any) -> Estimate:
    """The variance of independent samples of any distribution that has a fourth moment."""
    values = _values(samples)
    count = values.size
    variance = float(values.var(ddof=1))
    fourth = float(np.mean((values - values.mean()) ** 4))
    spread = max(0.0, fourth - variance**2 * (count - 3) / (count - 1))
    return Estimate(variance, math.sqrt(spread / count), count)


def estimate_share(hits: int, count: int, expected: float | None = None) -> Estimate:
    """How often something happened; with the share that is expected, its standard error is that of the expectation."""
    if not (0 <= hits <= count and count > 0):
        raise InputError(f"{hits} of {count} is no count", hint="count 0 … as many as there were trials")
    share = hits / count
    truth = share if expected is None else expected
    if not 0 <= truth <= 1:
        raise InputError(f"an expected share of {truth:g} is none", hint="use 0 … 1")
    return Estimate(share, math.sqrt(truth * (1 - truth) / count), count)


def _values(samples: Any) -> NDArray[np.float64]:
    if hasattr(samples, "detach"):
        samples = samples.detach().cpu()
    return check_values(np.asarray(samples, dtype=np.float64).reshape(-1), least=4)  # type: ignore[arg-type]
