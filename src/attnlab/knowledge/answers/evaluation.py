"""What a model knows: exact match with its interval, two baselines, and accuracy by exposure.

found = evaluate(model, model.pairs("heldout"))
found.accuracy          Interval: the share of questions that are answered exactly, and 95 % Clopper–Pearson
found.commonest         the same for always saying the answer that is commonest in the training split
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attnlab.errors import InputError
from attnlab.knowledge.answers.model import KnowledgeModel, ModelAnswer
from attnlab.knowledge.material.pairs import Pair, commonest_answer, sort_out, write_lines
from attnlab.statistics import Interval, clopper_pearson

# Documents that name a person, from … to.
EXPOSURES = ((0, 0), (1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, None))
_COLUMNS = ("question", "expected", "answer", "right", "probability", "length_normalised", "agreement", "documents")


@dataclass(frozen=True)
class Proportion:
    """So many of so many, with the 95 % interval of the share."""

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
    """The answers to some questions, and how right they are."""

    pairs: tuple[Pair, ...]
    answers: tuple[ModelAnswer, ...]
    exposures: tuple[int | None, ...]  # documents that name whom each asks about; None if the question does not say
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
        """What always saying the commonest answer of the training split gets."""
        if self.commonest_answer is None:
            return None
        return Proportion(sum(pair.answer == self.commonest_answer for pair in self.pairs), len(self.pairs))

    @property
    def by_exposure(self) -> dict[str, Proportion]:
        """The exact matches among those whom so many documents name."""
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
        """As JSON can hold it."""
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
    """Ask a model the questions of some pairs."""
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
