"""Differences over the rungs of a comparison: the paired difference at each size, its trend, and whether it settled.

The trend of an arm is one slope per seed over log₁₀ of the size, tested over seeds and corrected over the arms by
Holm's method, apart from the verdicts at single sizes. A difference has settled on a rung if twice the tokens move it
by no more than the interval of its mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from attnlab.experiments.judging.judgement import Judgement
from attnlab.experiments.planning.plan import Pilot, Rung
from attnlab.experiments.results import Comparison
from attnlab.statistics import Interval, Ladder, LadderPoint, Trend, holm, mean_interval, trend

FEWEST_RUNGS = 2  # two show a change between sizes, and nothing about its shape
TrendWord = Literal["rises", "falls", "no trend shown", "too few rungs", "a seed diverged"]


@dataclass(frozen=True)
class RungDifference:
    """An arm's paired difference on one rung, with the judgement there and the losses that it is made of."""

    rung: Rung
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
        """Return whether the mean moved by no more than the half-width of its interval."""
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
        return tuple(one for one in self.rungs if not one.rung.halved)

    @property
    def largest(self) -> RungDifference:
        return self.whole[-1]

    def ladder(self) -> Ladder | None:
        """Return the losses for a forecast, by non-embedding parameters; None where a seed diverged."""
        if any(one.judgement.mean is None for one in self.rungs):
            return None
        points = (
            LadderPoint(
                float(one.rung.non_embedding), float(one.rung.tokens), one.baseline, one.arm, one.judgement.seeds
            )
            for one in self.rungs
        )
        return Ladder(tuple(points), self.arm)


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
    found = []
    for result in comparison.rungs:
        judged = next((one for one in result.judgements if one.arm == name), None)
        if judged is not None:
            losses = {arm.name: arm.losses for arm in result.arms}
            baseline, ours = (
                tuple(loss for seed in judged.seeds if (loss := losses[arm][seed]) is not None)
                for arm in (result.arms[0].name, name)
            )
            found.append(RungDifference(result.rung, judged, baseline, ours))
    return tuple(found)


def _trend(name: str, rungs: Sequence[RungDifference], level: float, pilot: Pilot) -> Trend | None:
    """Return the trend over the rungs with all their tokens; the pilot's slopes tell of its noise, if it has them."""
    whole = [one for one in rungs if not one.rung.halved]
    if len(whole) < FEWEST_RUNGS or any(one.judgement.mean is None for one in whole):
        return None
    other = [pilot.differences.get(one.rung.size, {}).get(name, ()) for one in whole]
    known = len({len(values) for values in other}) == 1 and len(other[0]) > 1
    return trend(
        [one.judgement.differences for one in whole],
        [float(one.rung.non_embedding) for one in whole],
        level=level,
        fewest=FEWEST_RUNGS,
        pilot=other if known else None,
    )


def _word(found: Trend | None, p: float | None, alpha: float, rungs: Sequence[RungDifference]) -> TrendWord:
    if found is None or p is None:
        return "a seed diverged" if any(one.judgement.mean is None for one in rungs) else "too few rungs"
    if p > alpha:
        return "no trend shown"
    return "rises" if found.per_decade.mean > 0 else "falls"


def _settling(rungs: Sequence[RungDifference], level: float) -> tuple[Settling, ...]:
    found = []
    wholes = {one.rung.size: one.judgement for one in rungs if not one.rung.halved}
    for half in (one for one in rungs if one.rung.halved):
        whole = wholes.get(half.rung.size)
        if whole is None or half.judgement.mean is None or whole.mean is None:
            continue
        before, after = half.judgement.differences, whole.differences
        moved = [new - old for new, old in zip(after, before, strict=True)]
        found.append(Settling(half.rung.size, *(mean_interval(values, level) for values in (before, after, moved))))
    return tuple(found)
