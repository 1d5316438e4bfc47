"""Estimates from samples, exact intervals of shares, and tests whether samples come from a distribution.

mean x̄              s / √n
variance s²          √((m₄ − s⁴ (n − 3)/(n − 1)) / n), with m₄ the fourth central moment
share h/n            √(p (1 − p) / n), with p the true share where it is known, as in testing one
Clopper–Pearson      the chances that an equal-tailed exact binomial test does not reject     Clopper and Pearson 1934
binomial tail        P(X ≤ s) for X binomial with n trials of probability p, by the incomplete beta function

The logit-normal distribution is that of σ(z) = 1 / (1 + e^−z) for a normal z, the weight of a softmax over two scores
whose difference is normal:

    F(w) = Φ((logit w − μ) / σ),   f(w) = φ((logit w − μ) / σ) / (σ w (1 − w)),   logit w = log(w / (1 − w))

Its moments have no closed form; they are integrals over z, for which the trapezoid rule is exact up to rounding.

Kolmogorov's distance is the largest distance between the empirical distribution of samples and a continuous one:

    D = sup |F_n(x) − F(x)|,   P(D > t / √n) → 2 Σ (−1)^(j−1) e^(−2 j² t²)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special  # type: ignore[import-untyped,unused-ignore]

from attnlab.errors import InputError, SpecError
from attnlab.statistics.checking import check_count, check_samples, check_share, check_successes
from attnlab.statistics.paired import Interval

_ROUNDING = 1e-9  # relative tolerance for a number without spread
_REACH, _POINTS = 10.0, 20_001  # of integrals over z: standard deviations on either side, and grid points


@dataclass(frozen=True)
class Estimate:
    """A number estimated from `count` samples, and its standard error."""

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
    """Return a share of successes; with an expected share, the standard error is that of the expectation.

    Parameters
    ----------
    hits
        Number of successes.
    count
        Number of trials.
    expected
        The expected share, if there is one.
    """
    check_successes(hits, count, least=1)
    share = hits / count
    truth = share if expected is None else expected
    if not 0 <= truth <= 1:
        raise InputError(f"the expected share must be between 0 and 1, got {truth:g}", hint="use 0 … 1")
    return Estimate(share, math.sqrt(truth * (1 - truth) / count), count)


def clopper_pearson(successes: int, count: int, level: float = 0.95) -> Interval:
    """Return the share of successes, and the exact interval of their chance; from 0 to 1 where nothing was tried.

    Parameters
    ----------
    successes
        Number of successes.
    count
        Number of trials.
    level
        The confidence level of intervals, such as 0.95.
    """
    check_share("level", level)
    check_successes(successes, count)
    if count == 0:
        return Interval(float("nan"), 0.0, 1.0)
    tail, failures = (1 - level) / 2, count - successes
    low = float(special.betaincinv(successes, failures + 1, tail)) if successes else 0.0
    high = float(special.betaincinv(successes + 1, failures, 1 - tail)) if failures else 1.0
    return Interval(successes / count, low, high)


def percentile_interval(mean: float, draws: Sequence[float] | NDArray[np.float64], level: float) -> Interval:
    """Return a number with the equal-tailed interval of its bootstrap draws."""
    low, high = np.quantile(draws, ((1 - level) / 2, (1 + level) / 2))
    return Interval(float(mean), float(low), float(high))


def binomial_tail(successes: int, count: int, chance: float) -> float:
    """Return the chance of so many successes or fewer.

    Parameters
    ----------
    successes
        Number of successes.
    count
        Number of trials.
    chance
        The probability of each success.
    """
    check_successes(successes, count)
    if not 0 <= chance <= 1:
        raise InputError(f"a chance of {chance:g} makes no sense", hint="give a chance from 0 to 1")
    return float(special.bdtr(successes, count, chance))


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
        return float(np.trapezoid((shares - self.mean) ** 2 * weights, z))  # avoids the cancellation of E[x²] − E[x]²

    def _grid(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        z = np.linspace(-_REACH, _REACH, _POINTS)
        shares = special.expit(self.location + self.scale * z)
        return np.asarray(shares), np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi), z


def kolmogorov_distance(samples: Any, cumulative: Callable[[NDArray[np.float64]], Any]) -> float:
    """Return the largest distance between the share of samples up to x and its derived chance.

    Parameters
    ----------
    samples
        Numbers.
    cumulative
        The theoretical distribution function.
    """
    values = np.sort(check_samples(samples))
    chances = np.asarray(cumulative(values), dtype=np.float64)
    after = np.arange(1, values.size + 1) / values.size
    return float(max(np.abs(after - chances).max(), np.abs(after - 1 / values.size - chances).max()))


def kolmogorov_limit(count: int, alpha: float) -> float:
    """Return the distance that so many samples of the derived distribution exceed with the chance `alpha`.

    Parameters
    ----------
    count
        Number of samples.
    alpha
        The probability.
    """
    check_count(count)
    check_share("alpha", alpha)
    return float(special.kolmogi(alpha)) / math.sqrt(count)
