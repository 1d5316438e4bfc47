"""A study as sentences and rows: the same for the terminal, the page and JSON."""

from __future__ import annotations

import math

from attnlab.experiments.numbers import percent, percent_text
from attnlab.experiments.reporting.wording import scope
from attnlab.experiments.scale.findings import ArmFinding, CorpusFindings
from attnlab.experiments.scale.planning import StudyPlan
from attnlab.experiments.scale.study import ScaleStudy
from attnlab.formats import NOTHING, and_list, count, fixed
from attnlab.formats import percent as share
from attnlab.statistics import Backtest, Forecast, Interval

EFFECT_HEADINGS = (
    "variant",
    "effective\nsize",
    "effective\ntokens",
    "one rung ahead\n(90 % interval)",
    "at the target\n(extrapolation)",
    "a factor 2 in a rate\nmoves it by up to",
)


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
    size = count(target)
    if found.backtest is None:
        return (
            f"With fewer than four rungs no forecast was back-tested here: what is drawn towards {size} parameters is "
            "an extrapolation, not a finding."
        )
    factor = math.exp(found.tested_distance)
    return (
        f"Forecasts were back-tested over a factor of {factor:.1f} in size. What is drawn further, up to {size} "
        "non-embedding parameters, is an extrapolation, not a finding."
    )


def backtest_rows(found: Backtest) -> list[tuple[str, str, str]]:
    """Return coverage and decision accuracy of the forecasts beside the naive rule."""
    return [
        (f"coverage of the {share(found.level)} interval", _share(found.coverage), _share(found.naive_coverage)),
        ("sign of the difference right", _share(found.sign), _share(found.naive_sign)),
        ("order of two variants right", _share(found.ranking), _share(found.naive_ranking)),
    ]


BACKTEST_HEADINGS = ("largest rung hidden and predicted", "forecast", "“what holds at the\nlargest rung holds above”")


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
    return f"{percent_text(found.mean)} ({percent_text(found.low)} … {percent_text(found.high)})"


def _factor(found: Interval) -> str:
    low, mean, high = (_number(value) for value in (found.low, found.mean, found.high))
    return f"{mean} × ({low} … {high})"


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "∞"
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _share(found: Interval) -> str:
    return f"{share(found.mean)} ({100 * found.low:.0f}–{100 * found.high:.0f})"
