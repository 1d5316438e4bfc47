"""Tests and intervals for paired differences, such as the losses of two arms at the same seeds.

With n differences of mean d, standard deviation s and standard error e = s / √n:

    paired t      t = d / e, with n − 1 degrees of freedom
    equivalence   two one-sided tests: p is that of t = (|d| − m) / e for a margin m     Schuirmann 1987
    sign flips    the share of all 2ⁿ choices of signs whose |mean| is at least |d|      Fisher 1935
    BCa           the bootstrap, corrected for bias and for skew                         Efron 1987
    Holm          the i-th smallest of k p-values times k − i + 1, made monotonic        Holm 1979

An estimate of the spread from other seeds, a `Noise` of standard deviation σ with k degrees of freedom, is pooled with
s: the variance is (k σ² + (n − 1) s²) / (k + n − 1), with k + n − 1 degrees of freedom. It is not used if s is
significantly larger than σ, because then the noise has changed.

If all differences are equal, there is no spread to estimate, and their mean is taken as exact: p is 0 for null
hypotheses that it contradicts and 1 for others.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

# Not scipy.stats, which is slow to import.
from scipy import special  # type: ignore[import-untyped,unused-ignore]

from attnlab.errors import InputError
from attnlab.statistics.checking import check_positive, check_share, check_values

_EXACT = 20  # up to this many differences, all choices of signs are enumerated
_FLIPS = 100_000  # random choices for more
_RESAMPLES = 9_999
_ROUNDING = 1e-12  # sums that are equal but for rounding count as equal
_NOISIER = 0.05  # level of the F test that rejects the known noise


@dataclass(frozen=True)
class Interval:
    """A mean with the bounds of its interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Noise:
    """The standard deviation of a difference, estimated from other seeds, and its degrees of freedom."""

    sd: float
    degrees: int

    @classmethod
    def of(cls, differences: Sequence[float]) -> Noise:
        """Return the noise of differences at seeds that are not tested themselves."""
        found = _own_estimate(differences)
        return cls(found.error * math.sqrt(found.degrees + 1), found.degrees)


@dataclass(frozen=True)
class _Estimate:
    """A mean, its standard error, and the degrees of freedom of the error."""

    mean: float
    error: float
    degrees: int


def mean_interval(values: Sequence[float], level: float = 0.95, noise: Noise | None = None) -> Interval:
    """Return the mean with its interval by Student's t.

    Parameters
    ----------
    values
        Numbers.
    level
        The confidence level of intervals, such as 0.95.
    noise
        The noise estimated from other seeds; None uses the differences alone.
    """
    check_share("level", level)
    found = _estimate(values, noise)
    half = _quantile(found.degrees, level) * found.error
    return Interval(found.mean, found.mean - half, found.mean + half)


def paired_t(differences: Sequence[float], noise: Noise | None = None) -> float:
    """Return the two-sided p of a mean of 0.

    Parameters
    ----------
    differences
        Paired differences, one for each seed.
    noise
        The noise estimated from other seeds; None uses the differences alone.
    """
    found = _estimate(differences, noise)
    if found.error == 0:
        return 1.0 if found.mean == 0 else 0.0
    return 2 * float(special.stdtr(found.degrees, -abs(found.mean) / found.error))


def equivalence(differences: Sequence[float], margin: float, noise: Noise | None = None) -> float:
    """Return the p of a mean that is at least the margin away from 0: the larger one of two one-sided tests.

    Parameters
    ----------
    differences
        Paired differences, one for each seed.
    margin
        The largest difference that does not matter.
    noise
        The noise estimated from other seeds; None uses the differences alone.
    """
    check_positive("margin", margin)
    found = _estimate(differences, noise)
    beyond = abs(found.mean) - margin
    if found.error == 0:
        return 0.0 if beyond < 0 else 1.0
    return float(special.stdtr(found.degrees, beyond / found.error))


def sign_flip(differences: Sequence[float], seed: int = 0) -> float:
    """Return the two-sided p of differences that are as likely to be negative as positive; drawn for more than 20.

    The sums are built up one difference at a time, without a table of all signs.

    Parameters
    ----------
    differences
        Paired differences, one for each seed.
    seed
        The random seed; the same seed gives the same result.
    """
    numbers = check_values(differences)
    tolerance = _ROUNDING * float(np.abs(numbers).sum())
    sums = numbers[:1]  # its sign is fixed: flipping all signs leaves every |sum| unchanged
    if numbers.size <= _EXACT:
        for number in numbers[1:]:
            sums = np.concatenate((sums + number, sums - number))
        return float(np.mean(np.abs(sums) >= abs(float(sums[0])) - tolerance))
    rng = np.random.default_rng(seed)
    for number in numbers[1:]:
        sums = sums + np.where(rng.integers(2, size=_FLIPS) == 0, number, -number)
    far = np.count_nonzero(np.abs(sums) >= abs(float(numbers.sum())) - tolerance)
    return (int(far) + 1) / (_FLIPS + 1)


def bca_interval(differences: Sequence[float], level: float = 0.95, seed: int = 0) -> tuple[float, float] | None:
    """Return the bootstrap interval (BCa) of the mean.

    Parameters
    ----------
    differences
        Paired differences, one for each seed.
    level
        The confidence level of intervals, such as 0.95.
    seed
        The random seed; the same seed gives the same result.

    Returns
    -------
    tuple[float, float] | None
        None if resampling gives no interval, as without any spread.
    """
    check_share("level", level)
    numbers = check_values(differences)
    if numbers.min() == numbers.max():
        return None
    from scipy import stats  # type: ignore[import-untyped,unused-ignore]

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        interval = stats.bootstrap(
            (numbers,),
            np.mean,
            confidence_level=level,
            n_resamples=_RESAMPLES,
            method="BCa",
            rng=np.random.default_rng(seed),
        ).confidence_interval
    low, high = float(interval.low), float(interval.high)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values, corrected for their number, in the order in which they were given.

    Parameters
    ----------
    p_values
        The p-values of one family of tests.
    """
    if not all(0 <= p <= 1 for p in p_values):  # also for NaN
        raise InputError(f"p-values outside 0 … 1: {list(p_values)}", hint="use p = 1 for what could not be tested")
    adjusted, reached = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        reached = max(reached, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = float(reached)
    return adjusted


def is_noisier(groups: Sequence[Sequence[float]], known: Sequence[Noise]) -> bool:
    """Return whether differences are noisier than what is known of each group says, by an F test of all together.

    Parameters
    ----------
    groups
        Paired differences of each arm.
    known
        What is known of the noise of each.
    """
    here = [Noise.of(group) for group in groups]
    (variance, degrees), (expected, others) = (_pooled(noises) for noises in (here, known))
    if variance <= expected:
        return False
    return expected == 0 or bool(special.fdtrc(degrees, others, variance / expected) < _NOISIER)


def degrees_of_freedom(differences: Sequence[float], noise: Noise | None = None) -> int:
    """Return the degrees of freedom of the tests of these differences.

    Parameters
    ----------
    differences
        Paired differences, one for each seed.
    noise
        The noise estimated from other seeds; None uses the differences alone.
    """
    return _estimate(differences, noise).degrees


def _estimate(values: Sequence[float], noise: Noise | None = None) -> _Estimate:
    own = _own_estimate(values)
    if noise is None or is_noisier([values], [noise]):
        return own
    variance, degrees = _pooled([Noise.of(values), noise])
    return _Estimate(own.mean, math.sqrt(variance / len(values)), degrees)


def _pooled(noises: Sequence[Noise]) -> tuple[float, int]:
    """Return the mean variance, and all degrees of freedom."""
    degrees = sum(noise.degrees for noise in noises)
    return math.fsum(noise.degrees * noise.sd**2 for noise in noises) / degrees, degrees


def _own_estimate(values: Sequence[float]) -> _Estimate:
    numbers: list[float] = check_values(values).tolist()  # for so few values, faster than an array
    count, low, high = len(numbers), min(numbers), max(numbers)
    if low == high:  # exact, whereas a mean would be rounded
        return _Estimate(low, 0.0, count - 1)
    scale = max(-low, high)
    units = [number / scale for number in numbers]  # their squares neither underflow nor overflow
    mean = math.fsum(units) / count
    squares = math.fsum((unit - mean) ** 2 for unit in units)
    return _Estimate(mean * scale, math.sqrt(squares / (count - 1) / count) * scale, count - 1)


@lru_cache(maxsize=1024)
def _quantile(degrees: int, level: float) -> float:
    """Return how many standard errors an interval reaches to either side."""
    return -float(special.stdtrit(degrees, (1 - level) / 2))
