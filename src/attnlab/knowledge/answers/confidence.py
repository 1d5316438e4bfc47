"""How good three confidence scores are: calibration, ranking of errors, and detection of unseen entities.

probability         of the whole answer
length normalised   the geometric mean over its tokens
agreement           the share of drawn answers that are the same

An unseen entity is a name put together from the names of the pairs, the first part of one with the rest of another,
that stands nowhere in the text: whatever is answered about it is invented. Scores are compared on the same questions,
at a level that holds for all three comparisons together; without a clear interval none of them is called better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations

from attnlab.corpora.randomness import Stream
from attnlab.formats import interval, signed
from attnlab.knowledge.answers.guarantee import SCORES, ScoreName, score_of
from attnlab.knowledge.answers.model import KnowledgeModel, ModelAnswer
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

UNSEEN = 250  # names
_TRIES = 40  # for each name
_TOGETHER = 1 - 0.05 / 3  # the level of three comparisons that hold together with 95 %


@dataclass(frozen=True)
class ScoreFindings:
    """One score on the held-out questions, and against unseen entities."""

    score: ScoreName
    reliability: Reliability
    risk_coverage: RiskCoverage
    auroc: Interval | None  # None: there were no unseen entities

    def to_dict(self) -> dict[str, object]:
        """Return it without the points of the curve."""
        return {
            "score": self.score,
            "ece": asdict(self.reliability.ece),
            "ece_of_a_calibrated_model": self.reliability.expected,
            "area_under_risk_coverage": asdict(self.risk_coverage.area),
            "area_of_the_best_possible": self.risk_coverage.area_best,
            "area_of_one_that_knows_nothing": self.risk_coverage.area_blind,
            "auroc_seen_or_nobody": None if self.auroc is None else asdict(self.auroc),
        }


@dataclass(frozen=True)
class ScoreComparison:
    """Two scores on the same questions: how much the first is ahead, in area and in AUROC of unseen entities."""

    first: ScoreName
    second: ScoreName
    area: Interval  # below 0: the first one ranks errors lower
    auroc: Interval | None  # above 0: the first one detects unseen entities better

    @property
    def sentence(self) -> str:
        """Say which one ranks errors lower, if either does."""
        one, other = name_of(self.first), name_of(self.second)
        if self.area.high < 0:
            return f"{one} ranks errors lower than {other}"
        if self.area.low > 0:
            return f"{other} ranks errors lower than {one}"
        return f"between {one} and {other} the interval decides nothing"

    @property
    def separation(self) -> str | None:
        """Say which one detects unseen entities better, if either does."""
        if self.auroc is None:
            return None
        one, other, found = name_of(self.first), name_of(self.second), self.auroc
        numbers = f"(difference {difference_text(found)})"
        if found.low > 0 or found.high < 0:
            better, worse = (one, other) if found.low > 0 else (other, one)
            return f"{better} detects unseen entities better than {worse} {numbers}"
        return f"between {one} and {other} the interval decides nothing {numbers}"


def difference_text(found: Interval, decimals: int = 3) -> str:
    """Return a difference with its interval."""
    return f"{signed(found.mean, decimals)}, {interval(found.low, found.high, decimals)}"


def name_of(score: ScoreName) -> str:
    return score.replace("_", " ")


def measure_scores(
    answers: Sequence[ModelAnswer], right: Sequence[bool], seen: Sequence[bool], unseen: Sequence[ModelAnswer]
) -> tuple[tuple[ScoreFindings, ...], tuple[ScoreComparison, ...]]:
    """Return each score by itself, and each pair of them. `seen`: which questions are about people in the text."""
    usable = [score for score in SCORES if all(getattr(answer, score) is not None for answer in answers)]
    values = {score: [score_of(answer, score) for answer in answers] for score in usable}
    groups = {
        score: (
            [value for value, is_seen in zip(values[score], seen, strict=True) if is_seen],
            [score_of(answer, score) for answer in unseen],
        )
        for score in usable
    }
    comparable = bool(unseen) and any(seen)
    found = tuple(
        ScoreFindings(
            score,
            reliability(values[score], right),
            risk_coverage(values[score], right),
            auroc(*groups[score]) if comparable else None,
        )
        for score in usable
    )
    contests = tuple(
        ScoreComparison(
            first,
            second,
            area_difference(values[first], values[second], right, _TOGETHER),
            auroc_difference(groups[first], groups[second], _TOGETHER) if comparable else None,
        )
        for first, second in combinations(usable, 2)
    )
    return found, contests


def invent_names(model: KnowledgeModel, count: int = UNSEEN, seed: int = 0) -> list[str]:
    """Return names that are nowhere in the text, made of parts of names that are; fewer where there are few parts."""
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
