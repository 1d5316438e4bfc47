"""What a study found, as numbers: differences and trends, effective size and tokens, forecast, and its back-test.

A forecast reaches as far as it was back-tested: one rung ahead, with the ladders of the study itself and with those
recorded of twelve variants. Beyond that it is an extrapolation and no finding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from attnlab.experiments.judging.trends import ArmTrend, arm_trends
from attnlab.experiments.scale.study import CorpusStudy, ScaleStudy
from attnlab.statistics import Backtest, Forecast, LossLaw, backtest, fit_ladder

# By which intervals are multiplied, because back-tested ones were that much too narrow (docs/log.md).
WIDENING = 1.0
_FEWEST_RUNGS = 3  # for a forecast; a back-test needs one more


@dataclass(frozen=True)
class RateDependence:
    """How far an arm's difference moves with the learning rates on the largest rung that was searched."""

    size: str
    at_best: float  # nats: the difference of the means at the chosen rates
    at_baseline_rate: float | None  # with the baseline's rate for both; None if it was not tried
    most: float  # the largest move when either rate changes by a factor of two


@dataclass(frozen=True)
class ArmFinding:
    """One arm on one corpus."""

    trend: ArmTrend
    forecast: Forecast | None  # at the target; None with fewer than three rungs or where a seed diverged
    next_rung: Forecast | None  # one rung ahead, within the back-tested distance
    law: LossLaw | None
    rates: RateDependence | None

    @property
    def name(self) -> str:
        return self.trend.arm


@dataclass(frozen=True)
class CorpusFindings:
    """All arms on one corpus, with the back-test of their own forecasts."""

    study: CorpusStudy
    arms: tuple[ArmFinding, ...]
    backtest: Backtest | None  # None with fewer than four rungs
    tested_distance: float  # ln of the factor in size that was back-tested; 0 if none was
    widening: float  # of the intervals of forecasts

    def is_extrapolation(self, forecast: Forecast) -> bool:
        """Return whether a forecast reaches further than forecasts were tested."""
        return forecast.distance > self.tested_distance + 1e-9


def findings(study: ScaleStudy) -> tuple[CorpusFindings, ...]:
    """Return what was found on every corpus."""
    return tuple(_corpus(one, study.target) for one in study.corpora)


def _corpus(study: CorpusStudy, target: int) -> CorpusFindings:
    trends = arm_trends(study.comparison)
    ladders = [ladder for one in trends if (ladder := one.ladder()) is not None]
    tested = [ladder for ladder in ladders if len(set(ladder.sizes.tolist())) > _FEWEST_RUNGS]
    found = backtest(tested) if tested else None
    distance = max((arm.forecast.distance for arm in found.arms), default=0.0) if found is not None else 0.0
    widening = max(WIDENING, found.widening if found is not None else 1.0)
    arms = tuple(_arm(one, study, target, widening) for one in trends)
    return CorpusFindings(study, arms, found, distance, widening)


def _arm(trend: ArmTrend, study: CorpusStudy, target: int, widening: float) -> ArmFinding:
    dependence = _rate_dependence(trend.arm, study)
    ladder = trend.ladder()
    if ladder is None or len(set(ladder.sizes.tolist())) < _FEWEST_RUNGS:
        return ArmFinding(trend, None, None, None, dependence)
    fit = fit_ladder(ladder)
    sizes = sorted(set(ladder.sizes.tolist()))
    ahead = sizes[-1] ** 2 / sizes[-2]  # as far above the largest rung as the back-test predicts above the one below
    return ArmFinding(
        trend,
        fit.forecast(float(target), widening=widening),
        fit.forecast(ahead, widening=widening),
        fit.law,
        dependence,
    )


def _rate_dependence(arm: str, study: CorpusStudy) -> RateDependence | None:
    """Compare the searched losses of an arm and of the baseline on the largest rung that has both."""
    baseline = study.comparison.baseline.name
    points = {(one.size, one.arm): one for one in study.rates.points if one.trials}
    both = [one for one in points.values() if one.arm == arm and (one.size, baseline) in points]
    if not both:
        return None
    ours = max(both, key=lambda one: one.parameters)
    theirs = points[ours.size, baseline]
    mine = {trial.learning_rate: trial.loss for trial in ours.trials if trial.loss is not None}
    other = {trial.learning_rate: trial.loss for trial in theirs.trials if trial.loss is not None}
    if ours.rate not in mine or theirs.rate not in other:
        return None
    best = mine[ours.rate] - other[theirs.rate]
    moves = [abs(loss - mine[ours.rate]) for rate, loss in mine.items() if _within_two(rate, ours.rate)]
    moves += [abs(loss - other[theirs.rate]) for rate, loss in other.items() if _within_two(rate, theirs.rate)]
    same = mine.get(theirs.rate)
    return RateDependence(ours.size, best, None if same is None else same - other[theirs.rate], max(moves, default=0.0))


def _within_two(rate: float, chosen: float) -> bool:
    return rate != chosen and abs(math.log2(rate / chosen)) < 1.01
