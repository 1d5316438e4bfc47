"""Differences over the rungs of a comparison: the paired difference at each size, its trend, and whether it settled.

The trend of an arm is one slope per seed over log₁₀ of the size, tested over seeds and corrected over the arms by
Holm's method, apart from the verdicts at single sizes. A difference has settled on a rung if twice the tokens move it
by no more than the interval of its mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from attnlab.experiments.judging.collecting import losses_of
from attnlab.experiments.judging.judgement import Judgement, percent
from attnlab.experiments.planning.plan import Pilot
from attnlab.experiments.results import ArmResult, Comparison
from attnlab.statistics import Interval, Ladder, LadderPoint, Trend, holm, mean_interval, trend

FEWEST_RUNGS = 2  # two show a change between sizes, and nothing about its shape
TrendWord = Literal["rises", "falls", "no trend shown", "too few rungs", "a seed diverged"]


@dataclass(frozen=True)
class RungDifference:
    """An arm's paired difference on one rung, with the judgement there and the losses that it is made of."""

    rung: str
    size: str
    parameters: int  # of the baseline, embeddings included
    non_embedding: int
    tokens: int
    halved: bool
    judgement: Judgement
    baseline: tuple[float, ...]  # final losses by seed, where both finished
    arm: tuple[float, ...]


@dataclass(frozen=True)
class Settling:
    """How far twice the tokens moved an arm's difference on one rung."""

    rung: str
    before: Interval  # of the difference with half the tokens
    after: Interval
    change: Interval  # paired by seed

    @property
    def settled(self) -> bool:
        """Whether the mean moved by no more than the half-width of its interval."""
        return abs(self.change.mean) <= (self.after.high - self.after.low) / 2


@dataclass(frozen=True)
class ArmTrend:
    """One arm over all rungs that it was trained on, ascending; halved ones before the whole of the same size."""

    arm: str
    rungs: tuple[RungDifference, ...]
    trend: Trend | None  # None with a single rung, or where a seed diverged
    p_holm: float | None
    word: TrendWord
    settling: tuple[Settling, ...]

    @property
    def whole(self) -> tuple[RungDifference, ...]:
        """Return the rungs with all their tokens."""
        return tuple(rung for rung in self.rungs if not rung.halved)

    @property
    def largest(self) -> RungDifference:
        return self.whole[-1]

    def ladder(self) -> Ladder | None:
        """Return the losses for a forecast, by non-embedding parameters; None where a seed diverged."""
        if any(rung.judgement.mean is None for rung in self.rungs):
            return None
        return Ladder(
            tuple(
                LadderPoint(
                    float(rung.non_embedding), float(rung.tokens), rung.baseline, rung.arm, rung.judgement.seeds
                )
                for rung in self.rungs
            ),
            self.arm,
        )


def arm_trends(comparison: Comparison) -> tuple[ArmTrend, ...]:
    """Return the trends of all variants, in the plan's order."""
    level = 1 - comparison.plan.request.alpha
    found = [(name, _rungs(comparison, name)) for name in comparison.plan.variants]
    pilot = comparison.plan.pilot.apart_from(comparison.seeds)
    trends = [_trend(name, rungs, level, pilot) for name, rungs in found]
    corrected = iter(holm([one.p for one in trends if one is not None]) if any(trends) else [])
    results = []
    for (name, rungs), one in zip(found, trends, strict=True):
        p = next(corrected) if one is not None else None
        results.append(ArmTrend(name, rungs, one, p, _word(one, p, 1 - level, rungs), _settling(rungs, level)))
    return tuple(results)


def _rungs(comparison: Comparison, name: str) -> tuple[RungDifference, ...]:
    plan = comparison.plan
    found = []
    for result in comparison.lower:
        judged = next((one for one in result.judgements if one.arm == name), None)
        if judged is not None:
            rung = result.rung
            facts = rung.name, rung.size, rung.parameters, rung.non_embedding, rung.tokens, rung.halved
            found.append(_difference(facts, judged, result.arms))
    judged = next((one for one in comparison.judgements if one.arm == name), None)
    if judged is not None:
        size = plan.request.size
        facts = size, size, plan.baseline.parameters, plan.non_embedding, plan.tokens, False
        found.append(_difference(facts, judged, comparison.arms))
    return tuple(found)


def _difference(
    facts: tuple[str, str, int, int, int, bool], judged: Judgement, arms: Sequence[ArmResult]
) -> RungDifference:
    losses = losses_of(arms)
    baseline, ours = losses[arms[0].name], losses[judged.arm]
    return RungDifference(
        *facts,
        judged,
        tuple(loss for seed in judged.seeds if (loss := baseline[seed]) is not None),
        tuple(loss for seed in judged.seeds if (loss := ours[seed]) is not None),
    )


def _trend(name: str, rungs: Sequence[RungDifference], level: float, pilot: Pilot) -> Trend | None:
    """Return the trend over the rungs with all their tokens; the pilot's slopes tell of its noise, if it has them."""
    whole = [rung for rung in rungs if not rung.halved]
    if len(whole) < FEWEST_RUNGS or any(rung.judgement.mean is None for rung in whole):
        return None
    differences = [rung.judgement.differences for rung in whole]
    other = [pilot.differences.get(rung.size, {}).get(name, ()) for rung in whole]
    known = len({len(values) for values in other}) == 1 and len(other[0]) > 1
    return trend(
        differences,
        [float(rung.non_embedding) for rung in whole],
        level=level,
        fewest=FEWEST_RUNGS,
        pilot=other if known else None,
    )


def _word(found: Trend | None, p: float | None, alpha: float, rungs: Sequence[RungDifference]) -> TrendWord:
    if found is None or p is None:
        return "a seed diverged" if any(rung.judgement.mean is None for rung in rungs) else "too few rungs"
    if p > alpha:
        return "no trend shown"
    return "rises" if found.per_decade.mean > 0 else "falls"


def _settling(rungs: Sequence[RungDifference], level: float) -> tuple[Settling, ...]:
    found = []
    for half in (rung for rung in rungs if rung.halved):
        whole = next((rung for rung in rungs if rung.size == half.size and not rung.halved), None)
        if whole is None or half.judgement.mean is None or whole.judgement.mean is None:
            continue
        before, after = half.judgement.differences, whole.judgement.differences
        moved = [new - old for new, old in zip(after, before, strict=True)]
        found.append(
            Settling(half.size, mean_interval(before, level), mean_interval(after, level), mean_interval(moved, level))
        )
    return tuple(found)


def as_percent(interval: Interval) -> Interval:
    """Return an interval of nats in per cent of perplexity."""
    return Interval(percent(interval.mean), percent(interval.low), percent(interval.high))
