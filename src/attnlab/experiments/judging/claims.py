"""Published results on attention as claims, and whether a comparison reproduces them at its scale.

A claim says where a true difference lies; a comparison gives an interval for that difference.

    reproduced        the interval lies inside what is claimed
    not reproduced    the interval lies outside
    underpowered      neither: with more seeds it would be one of both

Intervals are as wide as the number of claims asks for, so that all of them hold together. A variant that diverged
cannot be given an interval: it counts as worse than any. Over several sizes the largest that has both arms decides. The
differences at the smaller ones stand beside it, and their spread is pooled with its own, unless that is significantly
larger: in the recorded pilot the smaller model was noisier. This file imports nothing heavy.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from importlib import resources
from statistics import fmean
from typing import TYPE_CHECKING, Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

from attnlab.formats import NOTHING, general

if TYPE_CHECKING:
    from attnlab.experiments.results import ArmResult, Comparison, RungResult

Standing = Literal["reproduced", "not reproduced", "underpowered"]
_FEWEST = 2  # differences that have a spread


class Claim(BaseModel):
    """One published result; see claims.toml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    statement: str
    arm: str
    against: str = "softmax"
    measure: str | None = None
    low: float = -math.inf
    high: float = math.inf
    published: str
    setting: str
    source: str

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.low < self.high or (math.isinf(self.low) and math.isinf(self.high)):
            raise ValueError(f"the claim {self.id} leaves nothing in, or nothing out")
        return self

    @property
    def range(self) -> str:
        """Return what is claimed, in a few signs."""
        unit = "" if self.measure else " %"
        if math.isinf(self.low):
            return f"below {general(self.high, sign=True)}{unit}"
        if math.isinf(self.high):
            return f"above {general(self.low, sign=True)}{unit}"
        return f"{general(self.low, sign=True)} … {general(self.high, sign=True)}{unit}"


def published_claims() -> tuple[Claim, ...]:
    """Return all claims, in the order of the file."""
    text = resources.files("attnlab.experiments.judging").joinpath("claims.toml").read_text("utf-8")
    return tuple(Claim(**card) for card in tomllib.loads(text)["claim"])


def arms_of(cards: Sequence[Claim], baseline: str) -> tuple[str, ...]:
    """Return what has to be trained to judge them, besides the baseline."""
    names = [name for card in cards for name in (card.arm, card.against)]
    return tuple(dict.fromkeys(name for name in names if name != baseline))


class Standpoint(BaseModel):
    """What a comparison says about a claim."""

    model_config = ConfigDict(frozen=True)

    claim: Claim
    standing: Standing
    mean: float | None
    low: float | None
    high: float | None
    reason: str
    rungs: tuple[tuple[str, float | None], ...] = ()  # each size with the mean there, where it has one
    trend: str | None = None  # over sizes, where the claim is about the baseline

    @property
    def found(self) -> str:
        """Return the difference with its interval, or why there is none."""
        if self.mean is None or self.low is None or self.high is None:
            return self.reason
        unit = "" if self.claim.measure else " %"
        mean, low, high = (general(value, 3, sign=True) for value in (self.mean, self.low, self.high))
        return f"{mean}{unit} ({low} … {high})"

    @property
    def row(self) -> tuple[str, ...]:
        """Return what a terminal shows."""
        return self.claim.statement, self.standing, self.found, self.claim.source

    @property
    def over_sizes(self) -> str:
        """Return the difference at each size, and the trend if one was tested."""
        unit = "" if self.claim.measure else " %"
        means = (
            f"{size}: {NOTHING if mean is None else general(mean, 3, sign=True) + unit}" for size, mean in self.rungs
        )
        return "; ".join([", ".join(means), *([] if self.trend is None else [self.trend])])


def judge_claims(comparison: Comparison, cards: Sequence[Claim]) -> tuple[Standpoint, ...]:
    """Return what a comparison says about those claims whose arms were trained."""
    from attnlab.experiments.judging.trends import arm_trends

    told = [(card, [one for one in comparison.rungs if _tells(one, card)]) for card in cards]
    wanted = [(card, results) for card, results in told if results]
    level = 1 - comparison.plan.procedure.level / max(1, len(wanted))
    words = {one.arm: one.word for one in arm_trends(comparison)} if comparison.lower else {}
    baseline = comparison.baseline.name
    return tuple(
        _over(card, results, level, words.get(card.arm) if card.against == baseline else None)
        for card, results in wanted
    )


def _tells(result: RungResult, card: Claim) -> bool:
    """Return whether a rung has both arms of a claim, and all its tokens."""
    return not result.rung.halved and {card.arm, card.against} <= {arm.name for arm in result.arms}


def _over(card: Claim, results: Sequence[RungResult], level: float, trend: str | None) -> Standpoint:
    """Judge a claim at the largest size, with the differences at all sizes and the trend of losses over them."""
    arms = [{arm.name: arm for arm in result.arms} for result in results]
    pairs = [(found[card.arm], found[card.against]) for found in arms]
    means = tuple((result.rung.size, _mean(card, pair)) for result, pair in zip(results, pairs, strict=True))
    found = _judge(card, pairs[-1], [_differences(card, *pair) for pair in pairs[:-1]], level)
    return found.model_copy(update={"rungs": means, "trend": trend if card.measure is None else None})


def _judge(
    card: Claim, pair: tuple[ArmResult, ArmResult], smaller: Sequence[Sequence[float]], level: float
) -> Standpoint:
    """Judge a claim by a pair of arms at one size; the noise is pooled with that of smaller sizes."""
    from attnlab.statistics import Noise, mean_interval, pooled_sd

    if arm := _lost(card, pair):
        words = f"{arm.name} diverged at seed {', '.join(map(str, arm.diverged))}"
        expected = math.isinf(card.high if arm is pair[0] else card.low)
        return _standpoint(card, "reproduced" if expected else "not reproduced", None, words)
    values = _differences(card, *pair)
    if len(values) < _FEWEST:
        return _standpoint(card, "underpowered", None, f"{card.arm} or {card.against} has no {card.measure}")
    known = [group for group in smaller if len(group) >= _FEWEST]
    found = mean_interval(values, level, Noise(*pooled_sd(known)) if known else None)
    interval = (_shown(card, found.mean), _shown(card, found.low), _shown(card, found.high))
    _, low, high = interval
    if card.low < low and high < card.high:
        return _standpoint(card, "reproduced", interval, "the interval lies inside what is claimed")
    if high <= card.low or low >= card.high:
        return _standpoint(card, "not reproduced", interval, "the interval lies outside what is claimed")
    return _standpoint(card, "underpowered", interval, "the interval reaches over an end of what is claimed")


def _lost(card: Claim, pair: tuple[ArmResult, ArmResult]) -> ArmResult | None:
    """Return the arm of a claim on losses that diverged, if one did."""
    return next((arm for arm in pair if arm.diverged and card.measure is None), None)


def _differences(card: Claim, ours: ArmResult, theirs: ArmResult) -> list[float]:
    """Return the differences of a measure, or of losses in nats, at the seeds that have both."""
    if card.measure is not None:
        return ours.differences(theirs, "measures", card.measure)
    pairs = zip(ours.runs, theirs.runs, strict=True)
    return [mine.loss - other.loss for mine, other in pairs if mine.loss is not None and other.loss is not None]


def _mean(card: Claim, pair: tuple[ArmResult, ArmResult]) -> float | None:
    """Return the mean difference of a pair of arms; None where one diverged or has no such measure."""
    values = _differences(card, *pair)
    return _shown(card, fmean(values)) if values and _lost(card, pair) is None else None


def _shown(card: Claim, value: float) -> float:
    """Return a difference of a measure as it is, one of losses in per cent of perplexity."""
    return value if card.measure is not None else 100 * math.expm1(value)


def _standpoint(
    card: Claim, standing: Standing, interval: tuple[float, float, float] | None, reason: str
) -> Standpoint:
    mean, low, high = interval or (None, None, None)
    return Standpoint(claim=card, standing=standing, reason=reason, mean=mean, low=low, high=high)
