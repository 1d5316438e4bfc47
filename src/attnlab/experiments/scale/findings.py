"""What a study found: differences and trends, effective size and tokens, forecast, and its back-test.

A forecast reaches as far as it was back-tested: one rung ahead, with the ladders of the study itself. Beyond that it is
an extrapolation and not a finding. Intervals are widened by the back-test of thirteen variants, or by the study's own
where that asks for more.

The sentences and rows are the same for the terminal, the page and JSON.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from attnlab.experiments.judging.trends import ArmTrend, arm_trends
from attnlab.experiments.numbers import percent, percent_range, percent_text
from attnlab.experiments.reporting.wording import scope
from attnlab.experiments.scale.study import CorpusStudy, ScaleStudy, StudyPlan
from attnlab.formats import NOTHING, and_list, count, fixed
from attnlab.formats import percent as share
from attnlab.statistics import Backtest, Forecast, Interval, LossLaw, backtest, fit_ladder

# The factor by which the back-test of thirteen variants widens intervals (docs/study-claims.md).
WIDENING = 2.1841
_FEWEST_RUNGS = 3  # for a forecast; a back-test needs one more
BACKTEST_HEADINGS = ("largest rung hidden and predicted", "forecast", "“what holds at the\nlargest rung holds above”")
EFFECT_HEADINGS = (
    "variant",
    "effective\nsize",
    "effective\ntokens",
    "one rung ahead\n(90 % interval)",
    "at the target\n(extrapolation)",
    "a factor 2 in a rate\nmoves it by up to",
)


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


def headline(study: ScaleStudy, found: CorpusFindings) -> str:
    """Return the verdicts on one corpus at the largest rung of each arm, with their scope."""
    comparison = found.study.comparison
    groups: dict[str, list[str]] = {}
    for arm in found.arms:
        largest = arm.trend.largest
        groups.setdefault(f"{largest.judgement.verdict} at {scope(largest.rung)}", []).append(arm.name)
    said = "; ".join(f"{and_list(names)} {'is' if len(names) == 1 else 'are'} {what}" for what, names in groups.items())
    runs = f"context {comparison.plan.context_length}, {study.request.seeds} paired seeds"
    held_out = ", held out from every decision" if found.study.held_out else ""
    return f"On {found.study.corpus}{held_out} ({runs}), against {comparison.baseline.name}: {said}."


def forecast_words(found: CorpusFindings, target: int) -> str:
    """Return how far the forecasts were tested, and what they are called beyond that."""
    return tested_words(None if found.backtest is None else found.tested_distance, target)


def tested_words(distance: float | None, target: int) -> str:
    """Return the same for a back-test over a `distance`, ln of the factor in size; None if there was none."""
    size = count(target)
    if distance is None:
        return (
            f"With fewer than four rungs no forecast was back-tested here: what is drawn towards {size} parameters is "
            "an extrapolation, not a finding."
        )
    return (
        f"Forecasts were back-tested over a factor of {math.exp(distance):.1f} in size. What is drawn further, up to "
        f"{size} non-embedding parameters, is an extrapolation, not a finding."
    )


def backtest_rows(found: Backtest) -> list[tuple[str, str, str]]:
    """Return coverage and decision accuracy of the forecasts beside the naive rule."""
    return [
        (f"coverage of the {share(found.level)} interval", _share(found.coverage), _share(found.naive_coverage)),
        ("sign of the difference right", _share(found.sign), _share(found.naive_sign)),
        ("order of two variants right", _share(found.ranking), _share(found.naive_ranking)),
    ]


def effect_rows(found: CorpusFindings) -> list[tuple[str, ...]]:
    """Return effective size and tokens, forecasts and the dependence on the rate, a row for each arm."""
    return [_effect_row(arm, found) for arm in found.arms]


def _effect_row(arm: ArmFinding, found: CorpusFindings) -> tuple[str, ...]:
    at = arm.forecast
    moved = NOTHING if arm.rates is None else f"{fixed(percent(arm.rates.most), 1)} % at {arm.rates.size}"
    if at is None:
        return (arm.name, *[NOTHING] * 4, moved)
    far = _range(at) if found.is_extrapolation(at) else f"{_range(at)} (back-tested)"
    near = NOTHING if arm.next_rung is None else _range(arm.next_rung)
    return arm.name, _factor(at.effective_size), _factor(at.effective_tokens), near, far, moved


def plan_rows(plan: StudyPlan) -> list[tuple[str, str]]:
    """Return what a study trains and how long it takes."""
    request = plan.request
    rows = [
        ("variants", f"{', '.join(request.variants)}; against {request.baseline}"),
        ("corpora", ", ".join(f"{name} (held out)" if name == request.held_out else name for name in request.corpora)),
        ("seeds", f"{request.seeds} of each arm on each rung, {request.rate_seeds} others for learning rates"),
    ]
    for rung in plan.rungs:
        name = f"{rung.size}, half the tokens" if rung.halved else rung.size
        rows.append(
            (
                "rung",
                f"{name}: {rung.parameters:,} parameters ({rung.non_embedding:,} without embeddings), "
                f"{count(rung.tokens)} tokens, {len(rung.arms)} arms, {count(rung.flops[0])}FLOP and about "
                f"{rung.seconds[0]:.0f} s a run",
            )
        )
    rows.append(("rates", f"{plan.rate_hours:.2f} hours of search on {plan.processes} processes"))
    rows.append(("time", f"{plan.hours:.2f} hours in all"))
    if plan.reductions:
        rows.append(("reduced", f"to fit {plan.asked.hours:g} hours: {'; '.join(plan.reductions)}"))
    return rows


def _range(found: Forecast) -> str:
    return f"{percent_text(found.mean)} ({percent_range(found.low, found.high)})"


def _factor(found: Interval) -> str:
    low, mean, high = (_number(value) for value in (found.low, found.mean, found.high))
    return f"{mean} × ({low} … {high})"


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "∞"
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _share(found: Interval) -> str:
    return f"{share(found.mean)} ({100 * found.low:.0f}–{100 * found.high:.0f})"
