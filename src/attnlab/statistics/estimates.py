"""Numbers estimated from samples, with their standard errors, and exact intervals of shares.

mean x̄              s / √n
variance s²          √((m₄ − s⁴ (n − 3)/(n − 1)) / n), with m₄ the fourth central moment
share h/n            √(p (1 − p) / n), with p the true share where it is known, as in testing one
Clopper–Pearson      the chances that an equal-tailed exact binomial test does not reject     Clopper and Pearson 1934
binomial tail        P(X ≤ s) for X binomial with n tries of a chance p, by the incomplete beta function
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special  # type: ignore[import-untyped,unused-ignore]

from attnlab.errors import InputError
from attnlab.statistics.checking import check_samples, check_share, check_successes
from attnlab.statistics.paired import Interval

_ROUNDING = 1e-9  # of a number without spread, relative


@dataclass(frozen=True)
class Estimate:
    """A number that was estimated from `count` samples, and its standard error."""

    value: float
    error: float
    count: int

    def errors_from(self, truth: float) -> float:
        """Return how many standard errors it is away from `truth`; what has no spread must agree to rounding."""
        gap = abs(self.value - truth)
        if self.error > 0:
            return gap / self.error
        if not math.isfinite(gap):
            return math.inf
        return 0.0 if gap <= _ROUNDING * max(1.0, abs(truth)) else math.inf


def estimate_mean(samples: Any) -> Estimate:
    """Return the mean of independent samples."""
    values = check_samples(samples, least=4)
    return Estimate(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(values.size), values.size)


def estimate_variance(samples: Any) -> Estimate:
    """Return the variance of independent samples of any distribution that has a fourth moment."""
    values = check_samples(samples, least=4)
    count = values.size
    variance = float(values.var(ddof=1))
    fourth = float(np.mean((values - values.mean()) ** 4))
    spread = max(0.0, fourth - variance**2 * (count - 3) / (count - 1))
    return Estimate(variance, math.sqrt(spread / count), count)


def estimate_share(hits: int, count: int, expected: float | None = None) -> Estimate:
    """Return a share of successes; with an expected share, the standard error is that of the expectation."""
    check_successes(hits, count, least=1)
    share = hits / count
    truth = share if expected is None else expected
    if not 0 <= truth <= 1:
        raise InputError(f"an expected share of {truth:g} is none", hint="use 0 … 1")
    return Estimate(share, math.sqrt(truth * (1 - truth) / count), count)


def clopper_pearson(successes: int, count: int, level: float = 0.95) -> Interval:
    """Return the share of successes, and the exact interval of their chance; from 0 to 1 where nothing was tried."""
    check_share("level", level)
    check_successes(successes, count)
    if count == 0:
        return Interval(float("nan"), 0.0, 1.0)
    tail, failures = (1 - level) / 2, count - successes
    low = float(special.betaincinv(successes, failures + 1, tail)) if successes else 0.0
    high = float(special.betaincinv(successes + 1, failures, 1 - tail)) if failures else 1.0
    return Interval(successes / count, low, high)


def binomial_tail(successes: int, count: int, chance: float) -> float:
    """Return the chance of so many successes or fewer."""
    check_successes(successes, count)
    if not 0 <= chance <= 1:
        raise InputError(f"a chance of {chance:g} makes no sense", hint="give a chance from 0 to 1")
    return float(special.bdtr(successes, count, chance))
