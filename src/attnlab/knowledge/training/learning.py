"""Teach a model new facts: finetune it on those that people added to the store, and measure the gain and the loss.

New pairs are mixed with all that was learned before (`stages.learn`), in a new run beside the old one. The gain is
measured on the new pairs; the loss on the training pairs (does the model still answer as it was taught?) and on the
held-out pairs (does it still know what it has read?).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnlab.errors import InputError
from attnlab.formats import percent, signed
from attnlab.knowledge.answers.evaluation import Proportion
from attnlab.knowledge.answers.model import KnowledgeModel
from attnlab.knowledge.pairs import Contradiction, Pair
from attnlab.knowledge.store.schema import StoredFact
from attnlab.knowledge.store.store import FactStore
from attnlab.knowledge.text import key
from attnlab.knowledge.training.stages import learn as learn_pairs
from attnlab.training import Reporter

HEADINGS = ("questions", "of", "right before", "right after", "change")
_MOST = 2000  # old pairs that are asked again


@dataclass(frozen=True)
class BeforeAfter:
    """The number of right answers to the same questions, before and after."""

    before: Proportion
    after: Proportion

    @property
    def change(self) -> float:
        """Return the change in percentage points."""
        return 100 * (self.after.correct - self.before.correct) / max(1, self.before.total)

    def row(self, label: str) -> list[str]:
        """Return a row of a table: how many questions, how many right before and after, and the change."""
        shares = (percent(score.share.mean, 1) for score in (self.before, self.after))
        return [label, str(self.before.total), *shares, f"{signed(self.change, 1)} points"]

    def to_dict(self) -> dict[str, object]:
        return {"before": self.before.plain(), "after": self.after.plain(), "change_in_points": self.change}


@dataclass(frozen=True)
class LearningResult:
    """The result of learning: the new run, what it gained, what it lost, and which facts were left out."""

    run: Path
    parent: Path
    pairs: tuple[Pair, ...]
    contradictions: tuple[Contradiction, ...]
    gained: BeforeAfter
    taught: BeforeAfter  # on the training pairs
    heldout: BeforeAfter | None

    def to_dict(self) -> dict[str, object]:
        return {
            "run": str(self.run),
            "parent": str(self.parent),
            "new_pairs": len(self.pairs),
            "contradicting_questions_left_out": [vars(one) for one in self.contradictions],
            "new": self.gained.to_dict(),
            "taught_before": self.taught.to_dict(),
            "held_out": None if self.heldout is None else self.heldout.to_dict(),
            "guarantee": "void until it is set again",
        }


def to_learn(model: KnowledgeModel, facts: Iterable[StoredFact]) -> tuple[list[Pair], list[Contradiction]]:
    """Return the pairs that a model was not taught yet, and the questions with several answers, which are left out."""
    answers: dict[str, dict[str, StoredFact]] = {}
    for fact in facts:
        answers.setdefault(key(fact.question), {})[key(fact.answer)] = fact
    taught = {(key(pair.question), key(pair.answer)) for pair in model.pairs("train")}
    new, against = [], []
    for question, found in answers.items():
        first = next(iter(found.values()))
        if len(found) > 1:
            against.append(Contradiction(first.question, tuple(fact.answer for fact in found.values())))
        elif (question, key(first.answer)) not in taught:
            new.append(Pair(first.question, first.answer))
    return new, against


def learn_kept(
    run: Path, store: FactStore, *, every: bool = False, epochs: int | None = None, reporter: Reporter | None = None
) -> LearningResult:
    """Teach a run the facts that people added to the store (`every`: all facts), and measure what it gained and lost.

    Parameters
    ----------
    run
        The folder of the run.
    store
        The fact store.
    every
        Whether to teach all facts, not only those that people added one by one.
    epochs
        Passes over the pairs; None takes the recipe's own.
    reporter
        Called with the progress; None reports nothing.
    """
    model = KnowledgeModel.open(run)
    pairs, against = to_learn(model, store.facts(told=not every))
    if not pairs:
        raise InputError(
            f"{store.path} holds nothing that {run} has not learned"
            + (f", but for {len(against)} questions with several answers" if against else ""),
            hint="tell the store new facts, or use `every=True` to learn also what was imported",
        )
    found = learn_pairs(run, pairs, epochs=epochs, reporter=reporter)
    return measure(model, KnowledgeModel.open(found), pairs, against)


def measure(
    before: KnowledgeModel, after: KnowledgeModel, pairs: Sequence[Pair], against: Sequence[Contradiction] = ()
) -> LearningResult:
    """Ask both models the new questions and the old ones."""
    asked = {key(pair.question) for pair in pairs}
    old = [pair for pair in before.pairs("train") if key(pair.question) not in asked][:_MOST]
    heldout = [pair for pair in before.pairs("heldout") if key(pair.question) not in asked]
    return LearningResult(
        after.path,
        before.path,
        tuple(pairs),
        tuple(against),
        _compare(before, after, pairs),
        _compare(before, after, old),
        _compare(before, after, heldout) if heldout else None,
    )


def _compare(before: KnowledgeModel, after: KnowledgeModel, pairs: Sequence[Pair]) -> BeforeAfter:
    questions = [pair.question for pair in pairs]
    scores = []
    for model in (before, after):
        answers = model.answer(questions)
        right = sum(answer.text == pair.answer for answer, pair in zip(answers, pairs, strict=True))
        scores.append(Proportion(right, len(pairs)))
    return BeforeAfter(*scores)
