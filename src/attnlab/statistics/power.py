"""Power: the difference that a number of pairs can detect, and the number of pairs needed.

With n differences of standard deviation σ and a true mean δ, the paired t has the noncentrality δ √n / σ and n − 1
degrees of freedom, plus those `known` from other seeds. Two one-sided tests at a margin m both reject if
|d| < m − t s / √n, where t is the quantile of Student's t; given s, the chance of that is a difference of two normal
probabilities, and it is averaged over s.

A pilot's standard deviation is uncertain; `upper_sd` is an upper confidence bound on the true one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from scipy import special  # type: ignore[import-untyped,unused-ignore]

from attnlab.errors import InputError, SpecError
from attnlab.statistics.checking import (
    check_count,
    check_positive,
    check_sd,
    check_share,
    check_successes,
    check_values,
)

_POINTS = 4001  # of the numerical average over s
_REACH = 10  # standard deviations of s covered on either side
_MOST = 1 << 40  # seeds at which the search gives up


def detectable_difference(sd: float, count: int, alpha: float, power: float = 0.9, known: int = 0) -> float:
    """Return the true mean that a two-sided paired t detects with the given power; its wrong side does not count.

    Parameters
    ----------
    sd
        The standard deviation of a paired difference.
    count
        Number of differences.
    alpha
        The accepted probability of a false positive.
    power
        The probability with which a true difference is to be detected.
    known
        Degrees of freedom that a pilot adds to the estimate of the noise.
    """
    check_sd(sd)
    check_count(count)
    _check_test(alpha, power)
    if sd == 0:
        return 0.0
    degrees = count - 1 + known
    noncentrality = float(special.nctdtrinc(degrees, 1 - power, -special.stdtrit(degrees, alpha / 2)))
    return noncentrality * sd / math.sqrt(count)


def count_needed(sd: float, difference: float, alpha: float, power: float = 0.9, known: int = 0) -> int:
    """Return the fewest differences, and at least 2, with which a paired t detects a true mean with the given power.

    Parameters
    ----------
    sd
        The standard deviation of a paired difference.
    difference
        The true mean to detect.
    alpha
        The accepted probability of a false positive.
    power
        The probability with which a true difference is to be detected.
    known
        Degrees of freedom that a pilot adds to the estimate of the noise.
    """
    check_positive("difference", difference)
    return _fewest(lambda count: detectable_difference(sd, count, alpha, power, known) <= difference)


def equivalence_power(sd: float, count: int, margin: float, alpha: float, true: float = 0.0, known: int = 0) -> float:
    """Return the chance that two one-sided tests show a mean to lie within the margin, where it is `true`.

    Parameters
    ----------
    sd
        The standard deviation of a paired difference.
    count
        Number of differences.
    margin
        The largest difference that does not matter.
    alpha
        The accepted probability of a false positive.
    true
        The true mean.
    known
        Degrees of freedom that a pilot adds to the estimate of the noise.
    """
    check_sd(sd)
    check_count(count)
    check_positive("margin", margin)
    check_share("alpha", alpha)
    if sd == 0:
        return float(abs(true) < margin)
    degrees, root = count - 1 + known, math.sqrt(count) / sd
    quantile = -float(special.stdtrit(degrees, alpha))
    width = _REACH / math.sqrt(2 * degrees)
    # The largest s / σ with which the tests can both reject.
    highest = min(1 + width, margin * root / quantile) if quantile > 0 else 1 + width
    if highest <= max(0.0, 1 - width):
        return 0.0
    s = np.linspace(max(0.0, 1 - width), highest, _POINTS)
    upper, lower = (margin - true) * root - quantile * s, (-margin - true) * root + quantile * s
    chances = np.maximum(0.0, special.ndtr(upper) - special.ndtr(lower))
    return float(min(1.0, np.trapezoid(chances * _density(s, degrees), s)))


def equivalence_count_needed(
    sd: float, margin: float, alpha: float, power: float = 0.9, true: float = 0.0, known: int = 0
) -> int:
    """Return the fewest differences, at least 2, that show a mean to lie within the margin with that power.

    Parameters
    ----------
    sd
        The standard deviation of a paired difference.
    margin
        The largest difference that does not matter.
    alpha
        The accepted probability of a false positive.
    power
        The probability with which a true difference is to be detected.
    true
        The true mean.
    known
        Degrees of freedom that a pilot adds to the estimate of the noise.
    """
    _check_test(alpha, power)
    check_positive("margin", margin)
    if not abs(true) < margin:
        raise SpecError(
            f"a true difference of {true:g} does not lie within a margin of {margin:g}, so no number of seeds shows it",
            hint="use a wider margin",
        )
    return _fewest(lambda count: equivalence_power(sd, count, margin, alpha, true, known) >= power)


def pooled_sd(groups: Iterable[Sequence[float]]) -> tuple[float, int]:
    """Return the standard deviation within groups of different means, and its degrees of freedom."""
    squares, degrees = 0.0, 0
    for group in groups:
        numbers = check_values(group, least=1)
        squares += float(np.square(numbers - numbers.mean()).sum())
        degrees += numbers.size - 1
    if degrees == 0:
        raise InputError("no group has two values, so they have no spread", hint="give at least 2 seeds for one arm")
    return math.sqrt(squares / degrees), degrees


def upper_sd(sd: float, degrees: float, confidence: float = 0.8) -> float:
    """Return what the true standard deviation lies below with the given confidence, where `sd` was found.

    Parameters
    ----------
    sd
        The estimated standard deviation.
    degrees
        Its degrees of freedom.
    confidence
        The probability that the bound holds.
    """
    check_sd(sd)
    check_positive("number of degrees", degrees)
    check_share("confidence", confidence)
    return sd * math.sqrt(degrees / float(special.chdtri(degrees, confidence)))


def smallest_sign_flip_p(count: int) -> float:
    """Return the smallest p that flipping the signs of so many differences can reach.

    Parameters
    ----------
    count
        Number of differences.
    """
    check_count(count)
    return 2.0 ** (1 - count)


def exceeds(successes: int, trials: int, rate: float) -> float:
    """Return the one-sided p of a true rate of at most `rate`, where so many of the trials succeeded.

    Parameters
    ----------
    successes
        Number of successes.
    trials
        Number of trials.
    rate
        The rate under test.
    """
    check_share("rate", rate)
    check_successes(successes, trials, least=1)
    return float(special.betainc(successes, trials - successes + 1, rate)) if successes else 1.0


def _check_test(alpha: float, power: float) -> None:
    check_share("alpha", alpha)
    check_share("power", power)
    if power <= alpha:
        raise SpecError(f"a power of {power:g} needs no data at alpha = {alpha:g}", hint="use a power such as 0.9")


def _density(s: np.ndarray, degrees: int) -> np.ndarray:
    """Return the density of s / σ at so many degrees of freedom: of a chi, divided by the root of its degrees."""
    half = degrees / 2
    constant = math.log(2) + half * math.log(half) - float(special.gammaln(half))
    return np.asarray(np.exp(constant + special.xlogy(degrees - 1, s) - half * np.square(s)))


def _fewest(is_enough: Callable[[int], bool]) -> int:
    """Return the smallest number from 2 on that is enough, if all larger ones are."""
    high = 2
    while not is_enough(high):
        high *= 2
        if high > _MOST:
            raise SpecError("no number of seeds that could be trained would do", hint="look for a larger difference")
    low = high // 2  # not enough, or 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
