"""Shares of a count, exactly: how often something happened, and between what its chance lies.

Clopper–Pearson   the chances that an equal-tailed exact binomial test does not reject     Clopper and Pearson 1934
tail              P(X ≤ s) for X binomial with n tries of a chance p, by the incomplete beta function
"""

from __future__ import annotations

from scipy import special  # type: ignore[import-untyped,unused-ignore]

from attnlab.errors import InputError
from attnlab.statistics.checking import check_share
from attnlab.statistics.differences.paired import Interval


def clopper_pearson(successes: int, count: int, level: float = 0.95) -> Interval:
    """The share of successes, and the exact interval of their chance; from 0 to 1 where nothing was tried."""
    check_share("level", level)
    _check(successes, count)
    if count == 0:
        return Interval(float("nan"), 0.0, 1.0)
    tail, failures = (1 - level) / 2, count - successes
    low = float(special.betaincinv(successes, failures + 1, tail)) if successes else 0.0
    high = float(special.betaincinv(successes + 1, failures, 1 - tail)) if failures else 1.0
    return Interval(successes / count, low, high)


def binomial_tail(successes: int, count: int, chance: float) -> float:
    """The chance of so many successes or fewer."""
    _check(successes, count)
    if not 0 <= chance <= 1:
        raise InputError(f"a chance of {chance:g} makes no sense", hint="give a chance from 0 to 1")
    return float(special.bdtr(successes, count, chance))


def _check(successes: int, count: int) -> None:
    if not 0 <= successes <= count:
        raise InputError(
            f"{successes} successes of {count} make no sense", hint="give whole numbers, the first at most the second"
        )
