"""Back-test forecasts: hide the largest rung of every ladder, forecast it, and compare with the observed difference.

The observed mean has noise of its own. An interval for it reaches √(h² + o²) from the forecast, where h is the
forecast's distance to its bound and o is half the t-interval of the observed mean.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attnlab.errors import InputError
from attnlab.statistics.checking import check_share
from attnlab.statistics.estimates import clopper_pearson
from attnlab.statistics.forecasts.forecast import Forecast, forecast
from attnlab.statistics.forecasts.ladders import Ladder
from attnlab.statistics.paired import Interval, mean_interval

_FEWEST_RUNGS = 4  # one is hidden


@dataclass(frozen=True)
class BacktestArm:
    """One arm's forecast of its largest rung, the observed difference, and the intervals for the observed mean."""

    name: str
    forecast: Forecast
    observed: Interval
    interval: Interval
    naive: Interval
    needed: float

    @property
    def is_covered(self) -> bool:
        return _holds(self.interval, self.observed.mean)

    @property
    def is_naive_covered(self) -> bool:
        return _holds(self.naive, self.observed.mean)


@dataclass(frozen=True)
class Backtest:
    """How well forecasts and the naive rule predict the largest rung, each share with its Clopper–Pearson interval.

    `sign` is the share of arms whose sign is right. `ranking` is the share of pairs of arms in the right order; the
    pairs share arms, so its interval is too narrow. `widening` is the factor that brings the coverage of the forecasts
    to their level, at least 1.
    """

    arms: tuple[BacktestArm, ...]
    level: float
    coverage: Interval
    naive_coverage: Interval
    sign: Interval
    naive_sign: Interval
    ranking: Interval
    naive_ranking: Interval
    widening: float


def backtest(ladders: Sequence[Ladder], *, level: float = 0.9, resamples: int = 400, seed: int = 0) -> Backtest:
    """Forecast the largest rung of every ladder, one per arm and at least 4 sizes each, from the rungs below it."""
    check_share("level", level)
    if not ladders:
        raise InputError("a back-test needs at least one ladder, got none", hint="give one ladder per arm")
    arms = tuple(_backtest_arm(ladder, level, resamples, seed) for ladder in ladders)
    pairs = [
        (one, other)
        for one, other in itertools.combinations(arms, 2)
        if one.forecast.target_size == other.forecast.target_size
    ]
    return Backtest(
        arms=arms,
        level=level,
        coverage=_share(arm.is_covered for arm in arms),
        naive_coverage=_share(arm.is_naive_covered for arm in arms),
        sign=_share(arm.forecast.mean * arm.observed.mean > 0 for arm in arms),
        naive_sign=_share(arm.naive.mean * arm.observed.mean > 0 for arm in arms),
        ranking=_share(
            (one.forecast.mean - other.forecast.mean) * (one.observed.mean - other.observed.mean) > 0
            for one, other in pairs
        ),
        naive_ranking=_share(
            (one.naive.mean - other.naive.mean) * (one.observed.mean - other.observed.mean) > 0 for one, other in pairs
        ),
        widening=_widening([arm.needed for arm in arms], level),
    )


def _backtest_arm(ladder: Ladder, level: float, resamples: int, seed: int) -> BacktestArm:
    ladder.check_rungs(_FEWEST_RUNGS)
    hidden = ladder.largest
    made = forecast(ladder.below_largest(), hidden.size, hidden.tokens, level=level, resamples=resamples, seed=seed)
    observed = mean_interval(hidden.differences.tolist(), level)
    noise = observed.high - observed.mean
    error = observed.mean - made.mean
    half = made.high - made.mean if error > 0 else made.mean - made.low
    beyond = math.sqrt(max(0.0, error**2 - noise**2))
    needed = beyond / half if half > 0 else math.inf if beyond > 0 else 0.0
    return BacktestArm(
        name=ladder.name,
        forecast=made,
        observed=observed,
        interval=_with_noise(Interval(made.mean, made.low, made.high), noise),
        naive=_with_noise(made.naive, noise),
        needed=needed,
    )


def _with_noise(interval: Interval, noise: float) -> Interval:
    """Return the interval with noise added to each of its sides in quadrature."""
    mean = interval.mean
    return Interval(mean, mean - math.hypot(mean - interval.low, noise), mean + math.hypot(interval.high - mean, noise))


def _holds(interval: Interval, value: float) -> bool:
    return interval.low <= value <= interval.high


def _share(outcomes: Iterable[bool]) -> Interval:
    listed = list(outcomes)
    return clopper_pearson(sum(listed), len(listed))


def _widening(needed: Sequence[float], level: float) -> float:
    """Return the quantile of the needed widenings that covers one more arm like these with the level's probability.

    With n arms it is the ⌈level · (n + 1)⌉-th smallest (split conformal prediction), or the largest of too few arms.
    """
    place = min(len(needed), math.ceil(level * (len(needed) + 1)))
    return max(1.0, sorted(needed)[place - 1])
