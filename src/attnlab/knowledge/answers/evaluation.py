"""What a model knows, and how good its confidence scores are: calibration, ranking of errors, detection of the unseen.

found = evaluate(model, model.pairs("heldout"))
found.accuracy          Interval: the share of questions that are answered exactly, and 95 % Clopper–Pearson
found.commonest         the same for the baseline that always gives the commonest answer of the training split

The scores:

probability         of the whole answer
length normalised   the geometric mean over its tokens
agreement           the share of sampled answers that are the same

An unseen entity is a name that combines the first part of one name of the pairs with the rest of another and appears
nowhere in the text: any answer about it is made up. Scores are compared on the same questions, at a confidence level
corrected for the three comparisons; a score is called better only if its interval excludes zero.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

from attnlab.corpora.randomness import Stream
from attnlab.errors import InputError
from attnlab.formats import interval, signed
from attnlab.knowledge.answers.guarantee import SCORES, ScoreName, score_of
from attnlab.knowledge.answers.model import KnowledgeModel, ModelAnswer
from attnlab.knowledge.pairs import Pair, commonest_answer, sort_out, write_lines
from attnlab.statistics import (
    Interval,
    Reliability,
    RiskCoverage,
    area_difference,
    auroc,
    auroc_difference,
    clopper_pearson,
    reliability,
    risk_coverage,
)

# Numbers of documents that name a person, from … to.
EXPOSURES = ((0, 0), (1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, None))
_COLUMNS = ("question", "expected", "answer", "right", "probability", "length_normalised", "agreement", "documents")
UNSEEN = 250  # names
_TRIES = 40  # for each name
_TOGETHER = 1 - 0.05 / 3  # the level of each of three comparisons for a joint level of 95 % (Bonferroni)


@dataclass(frozen=True)
class Proportion:
    """A count of successes out of a total, with the 95 % interval of the share."""

    correct: int
    total: int

    @property
    def share(self) -> Interval:
        return clopper_pearson(self.correct, self.total)

    def plain(self) -> dict[str, float]:
        share = self.share
        return {"correct": self.correct, "total": self.total, "share": share.mean, "low": share.low, "high": share.high}


@dataclass(frozen=True)
class Evaluation:
    """The answers of a model to a list of questions, and their accuracy."""

    pairs: tuple[Pair, ...]
    answers: tuple[ModelAnswer, ...]
    exposures: tuple[int | None, ...]  # documents that name the person asked about; None: unknown
    commonest_answer: str | None  # of the training split
    contradictions: int
    seconds: float

    @property
    def right(self) -> list[bool]:
        return [
            answer.problem is None and answer.text == pair.answer
            for pair, answer in zip(self.pairs, self.answers, strict=True)
        ]

    @property
    def exact_match(self) -> Proportion:
        return Proportion(sum(self.right), len(self.pairs))

    @property
    def accuracy(self) -> Interval:
        return self.exact_match.share

    @property
    def commonest(self) -> Proportion | None:
        """Return the exact matches of the baseline that always gives the commonest answer of the training split."""
        if self.commonest_answer is None:
            return None
        return Proportion(sum(pair.answer == self.commonest_answer for pair in self.pairs), len(self.pairs))

    @property
    def by_exposure(self) -> dict[str, Proportion]:
        """Return the exact matches by how many documents name the person asked about."""
        found = {}
        for low, high in EXPOSURES:
            inside = [
                right
                for right, exposure in zip(self.right, self.exposures, strict=True)
                if exposure is not None and low <= exposure <= (exposure if high is None else high)
            ]
            if inside:
                found[exposure_words(low, high)] = Proportion(sum(inside), len(inside))
        return found

    def plain(self, *, answers: bool = True) -> dict[str, object]:
        """Return the evaluation as values that JSON can hold; `answers` adds each answer."""
        result: dict[str, object] = {
            "exact_match": self.exact_match.plain(),
            "always_commonest": None if self.commonest is None else self.commonest.plain(),
            "commonest_answer": self.commonest_answer,
            "by_exposure": {words: score.plain() for words, score in self.by_exposure.items()},
            "contradicting_questions_left_out": self.contradictions,
            "questions_that_do_not_fit": sum(not answer.fits for answer in self.answers),
            "seconds": round(self.seconds, 3),
        }
        if answers:
            result["answers"] = [
                {"right": right, "expected": pair.answer, **vars(answer)}
                for right, pair, answer in zip(self.right, self.pairs, self.answers, strict=True)
            ]
        return result


def evaluate(model: KnowledgeModel, pairs: Sequence[Pair], samples: int = 0, seed: int = 0) -> Evaluation:
    """Ask a model the questions of the pairs.

    Parameters
    ----------
    model
        The model.
    pairs
        Question–answer pairs.
    samples
        Answers that are sampled for each question; none by default.
    seed
        The seed of the random numbers; the same seed gives the same result.
    """
    known = sort_out(pairs)
    if not known.pairs:
        raise InputError("there is nothing to ask", hint="give pairs with one answer to each question")
    begin = time.perf_counter()
    answers = model.answer([pair.question for pair in known.pairs], samples, seed)
    seconds = time.perf_counter() - begin
    names = [model.template.name(pair.question) for pair in known.pairs]
    train = model.pairs("train")
    return Evaluation(
        known.pairs,
        tuple(answers),
        tuple(None if name is None else model.exposure(name) for name in names),
        commonest_answer(train) if train else None,
        len(known.contradictions),
        seconds,
    )


def exposure_words(low: int, high: int | None) -> str:
    return str(low) if low == high else f"{low}+" if high is None else f"{low}–{high}"


def write_predictions(path: Path, found: Evaluation) -> None:
    """Write one line for each question, with tabs between the columns, as any program reads it."""
    lines = ["\t".join(_COLUMNS)]
    for pair, answer, right, exposure in zip(found.pairs, found.answers, found.right, found.exposures, strict=True):
        agreement = "" if answer.agreement is None else f"{answer.agreement:.3g}"
        numbers = [f"{answer.probability:.6g}", f"{answer.length_normalised:.6g}", agreement]
        named = "" if exposure is None else str(exposure)
        lines.append("\t".join([pair.question, pair.answer, answer.text, str(int(right)), *numbers, named]))
    write_lines(path, lines)


@dataclass(frozen=True)
class ScoreFindings:
    """One score on the held-out questions, and for telling them from questions about unseen entities."""

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
    """Two scores on the same questions: the first minus the second, in area and in AUROC of unseen entities."""

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
