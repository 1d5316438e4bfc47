"""What three scores of confidence are worth: are they calibrated, do they put errors last, do they know nobody's name?

probability         of the whole answer
length normalised   the geometric mean over its tokens
agreement           the share of drawn answers that are the same

A name of nobody is put together from the names of the pairs, the first part of one with the rest of another, and stands
nowhere in the text: whatever is answered about it is invented. Scores are compared on the same questions, at a level
that holds for all three comparisons together; without a clear interval none of them is called better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from attnlab.corpora.randomness import Stream
from attnlab.knowledge.answers.answering import Answer, KnowledgeModel
from attnlab.knowledge.answers.guarantee import SCORES, ScoreName, score_of
from attnlab.statistics import (
    Interval,
    Reliability,
    RiskCoverage,
    area_difference,
    auroc,
    auroc_difference,
    reliability,
    risk_coverage,
)

NOBODIES = 250
_TRIES = 40  # for each name
_TOGETHER = 1 - 0.05 / 3  # the level of three comparisons that hold together with 95 %


@dataclass(frozen=True)
class ScoreFindings:
    """One score on the held-out questions, and against names of nobody."""

    score: ScoreName
    reliability: Reliability
    risk_coverage: RiskCoverage
    auroc: Interval | None  # None: there were no names of nobody


@dataclass(frozen=True)
class Contest:
    """Two scores on the same questions: how much the first is ahead, in area and in telling nobodies apart."""

    first: ScoreName
    second: ScoreName
    area: Interval  # below 0: the first one puts errors further back
    auroc: Interval | None  # above 0: the first one tells nobodies apart better

    @property
    def sentence(self) -> str:
        """Who is better at putting errors last, if anybody is."""
        one, other = name_of(self.first), name_of(self.second)
        if self.area.high < 0:
            return f"{one} puts errors further back than {other}"
        if self.area.low > 0:
            return f"{other} puts errors further back than {one}"
        return f"between {one} and {other} the interval decides nothing"

    @property
    def separation(self) -> str | None:
        """Who is better at telling nobodies apart, if anybody is."""
        if self.auroc is None:
            return None
        one, other, found = name_of(self.first), name_of(self.second), self.auroc
        numbers = f"(difference {signed(found, 3)})"
        if found.low > 0 or found.high < 0:
            better, worse = (one, other) if found.low > 0 else (other, one)
            return f"{better} tells nobodies apart better than {worse} {numbers}"
        return f"between {one} and {other} the interval decides nothing {numbers}"


def signed(found: Interval, decimals: int) -> str:
    """A difference with its interval, and with a real minus."""
    mean, low, high = (f"{value:+.{decimals}f}" for value in (found.mean, found.low, found.high))
    return f"{mean}, {low} … {high}".replace("-", "−")


def name_of(score: ScoreName) -> str:
    return score.replace("_", " ")


def measure_scores(
    answers: Sequence[Answer], right: Sequence[bool], seen: Sequence[bool], nobodies: Sequence[Answer]
) -> tuple[tuple[ScoreFindings, ...], tuple[Contest, ...]]:
    """Each score by itself, and each pair of them. `seen` says which questions are about somebody in the text."""
    usable = [score for score in SCORES if all(getattr(answer, score) is not None for answer in answers)]
    values = {score: [score_of(answer, score) for answer in answers] for score in usable}
    sides = {
        score: (
            [value for value, is_seen in zip(values[score], seen, strict=True) if is_seen],
            [score_of(answer, score) for answer in nobodies],
        )
        for score in usable
    }
    comparable = bool(nobodies) and any(seen)
    found = tuple(
        ScoreFindings(
            score,
            reliability(values[score], right),
            risk_coverage(values[score], right),
            auroc(*sides[score]) if comparable else None,
        )
        for score in usable
    )
    contests = tuple(
        Contest(
            first,
            second,
            area_difference(values[first], values[second], right, _TOGETHER),
            auroc_difference(sides[first], sides[second], _TOGETHER) if comparable else None,
        )
        for first, second in combinations(usable, 2)
    )
    return found, contests


def invent_names(model: KnowledgeModel, count: int = NOBODIES, seed: int = 0) -> list[str]:
    """Names that nobody in the text has, made of parts of names that somebody has; fewer where there are few parts."""
    uses = ("train", "heldout", "calibration")
    names = [model.template.name(pair.question) for use in uses for pair in model.pairs(use)]
    split = [name.split(maxsplit=1) for name in dict.fromkeys(names) if name is not None and " " in name]
    if len(split) < 2:
        return []
    known, stream = set(names), Stream("names of nobody", seed, len(split))
    found: dict[str, None] = {}
    for _ in range(_TRIES * count):
        name = f"{stream.choice(split)[0]} {stream.choice(split)[1]}"
        if name not in known and name not in found and model.exposure(name) == 0:
            found[name] = None
            if len(found) == count:
                break
    return list(found)


def plain(found: ScoreFindings) -> dict[str, Any]:
    """As JSON can hold it, without the points of the curve."""
    return {
        "score": found.score,
        "ece": asdict(found.reliability.ece),
        "ece_of_a_calibrated_model": found.reliability.expected,
        "area_under_risk_coverage": asdict(found.risk_coverage.area),
        "area_of_the_best_possible": found.risk_coverage.area_best,
        "area_of_one_that_knows_nothing": found.risk_coverage.area_blind,
        "auroc_seen_or_nobody": None if found.auroc is None else asdict(found.auroc),
    }
