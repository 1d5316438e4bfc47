"""Published results, judged at the scale of a comparison.

A claim says where a true difference lies; a comparison gives an interval for that difference.

    reproduced        the interval lies inside what is claimed
    not reproduced    the interval lies outside
    underpowered      neither: with more seeds it would be one of both

Intervals are as wide as the number of claims asks for, so that all of them hold together. A variant that diverged
cannot be given an interval: it counts as worse than any.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from attnlab.experiments.judging.claims import Claim
from attnlab.experiments.results import ArmResult, Comparison
from attnlab.statistics import Interval, mean_interval

Standing = Literal["reproduced", "not reproduced", "underpowered"]


class Standpoint(BaseModel):
    """What a comparison says about a claim."""

    model_config = ConfigDict(frozen=True)

    claim: Claim
    standing: Standing
    mean: float | None
    low: float | None
    high: float | None
    reason: str

    @property
    def found(self) -> str:
        """The difference with its interval, or why there is none."""
        if self.mean is None or self.low is None or self.high is None:
            return self.reason
        unit = "" if self.claim.measure else " %"
        return f"{self.mean:+.3g}{unit} ({self.low:+.3g} … {self.high:+.3g})".replace("-", "−")


def judge_claims(comparison: Comparison, cards: Sequence[Claim]) -> tuple[Standpoint, ...]:
    """Those claims whose arms were trained."""
    known = {arm.name: arm for arm in comparison.arms}
    wanted = [card for card in cards if {card.arm, card.against} <= known.keys()]
    level = 1 - comparison.plan.procedure.alpha / comparison.plan.procedure.looks / max(1, len(wanted))
    return tuple(_judge(card, known, level) for card in wanted)


def _judge(card: Claim, arms: Mapping[str, ArmResult], level: float) -> Standpoint:
    ours, theirs = arms[card.arm], arms[card.against]
    for arm, expected in ((ours, math.isinf(card.high)), (theirs, math.isinf(card.low))):
        lost = [cell.seed for cell in arm.cells if cell.outcome == "diverged"]
        if lost and card.measure is None:
            words = f"{arm.name} diverged at seed {', '.join(map(str, lost))}"
            return _standpoint(card, "reproduced" if expected else "not reproduced", None, words)
    interval = _difference(card, ours, theirs, level)
    if interval is None:
        return _standpoint(card, "underpowered", None, f"{card.arm} or {card.against} has no {card.measure}")
    if card.low < interval.low and interval.high < card.high:
        return _standpoint(card, "reproduced", interval, "the interval lies inside what is claimed")
    if interval.high <= card.low or interval.low >= card.high:
        return _standpoint(card, "not reproduced", interval, "the interval lies outside what is claimed")
    return _standpoint(card, "underpowered", interval, "the interval reaches over an end of what is claimed")


def _difference(card: Claim, ours: ArmResult, theirs: ArmResult, level: float) -> Interval | None:
    """Of a measure as it is; of losses in per cent of perplexity."""
    values: list[float] = []
    for mine, other in zip(ours.cells, theirs.cells, strict=True):
        if card.measure is None:
            assert mine.loss is not None
            assert other.loss is not None
            values.append(mine.loss - other.loss)
        elif card.measure in mine.measures and card.measure in other.measures:
            values.append(mine.measures[card.measure] - other.measures[card.measure])
    if len(values) < 2:
        return None
    found = mean_interval(values, level)
    if card.measure is not None:
        return found
    return Interval(*(100 * math.expm1(value) for value in (found.mean, found.low, found.high)))


def _standpoint(card: Claim, standing: Standing, interval: Interval | None, reason: str) -> Standpoint:
    ends: dict[str, Any] = {"mean": None, "low": None, "high": None}
    if interval is not None:
        ends = {"mean": interval.mean, "low": interval.low, "high": interval.high}
    return Standpoint(claim=card, standing=standing, reason=reason, **ends)
