"""Answer from memory if the model is confident enough, else from the fact store, else say "I do not know".

with Asker.open(Path("runs/…"), Path("facts.sqlite"), risk=0.05) as asker:
    reply = asker.ask("Where was Bera Dolock born?")
    print(reply.answer, reply.origin)          # recalled, looked up or unknown
    if reply.origin == "unknown":
        asker.keep(reply.question, "Wickholm", who="Ada", source="her passport")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from attnlab.errors import InputError
from attnlab.knowledge.answers.guarantee import (
    Guarantee,
    ScoreName,
    find_guarantee,
    samples_for,
    score_of,
    set_guarantee,
)
from attnlab.knowledge.answers.model import KnowledgeModel, ModelAnswer
from attnlab.knowledge.store.lookup import Evidence, LookUp
from attnlab.knowledge.store.schema import Added
from attnlab.knowledge.store.store import FactStore
from attnlab.knowledge.text import fold, key, tidy
from attnlab.runs.ledger import DEFAULT_ROOT

DEFAULT_STORE = DEFAULT_ROOT / "facts.sqlite"

Origin = Literal["recalled", "looked up", "unknown"]


@dataclass(frozen=True)
class Reply:
    """The reply to a question: its origin, the evidence for it, and warnings about it."""

    question: str
    origin: Origin
    answer: str | None
    confidence: float  # in what the model would say, by the score that the threshold applies to
    threshold: float | None
    said: str  # what the model would say, whether it is confident or not
    evidence: tuple[Evidence, ...] = ()  # what was looked up; several if sources disagree
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        shown = {"model_says" if name == "said" else name: value for name, value in vars(self).items()}
        return {**shown, "evidence": [one.to_dict() for one in self.evidence], "notes": list(self.notes)}


class Asker:
    """A model with its guarantee, and a fact store for look-ups and for new facts."""

    def __init__(self, model: KnowledgeModel, guarantee: Guarantee, store: FactStore | None = None) -> None:
        self.model, self.guarantee, self.store = model, guarantee, store
        self._look_up = None if store is None else LookUp(store, model.template, guarantee.risk)
        names = (model.template.name(pair.question) for pair in model.pairs("train"))
        self._taught = {name: fold(name) for name in names if name is not None}

    @classmethod
    def open(
        cls,
        run: Path,
        facts: Path | None = DEFAULT_STORE,
        *,
        risk: float | None = None,
        delta: float | None = None,
        score: ScoreName | None = None,
    ) -> Self:
        """Open a run and a store, which need not exist. Without a risk, the threshold is the one that was last set."""
        model = KnowledgeModel.open(run)
        guarantee = agree(model, risk, delta, score)
        return cls(model, guarantee, None if facts is None else FactStore(facts))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.store is not None:
            self.store.close()

    def ask(self, question: str) -> Reply:
        return self.ask_all([question])[0]

    def ask_all(self, questions: Sequence[str]) -> list[Reply]:
        """Return a reply to each question, in order."""
        tidied = [tidy(question, "question") for question in questions]
        for place, question in enumerate(tidied):
            if not question:
                raise InputError(f"question {place + 1} is empty", hint="ask something")
        spelled = [self._spelled(question) for question in tidied]
        answers = self.model.answer(spelled, samples_for(self.guarantee.score))
        return [self._reply(answer, asked) for answer, asked in zip(answers, tidied, strict=True)]

    def keep(self, question: str, answer: str, *, who: str, source: str) -> Added:
        """Keep what a person answered, to be looked up and learned; beside what it contradicts, if it does."""
        if self.store is None:
            raise InputError("there is no fact store to keep it in", hint="give `facts=…`")
        return self.store.add(question, answer, who=who, source=source)

    def _spelled(self, question: str) -> str:
        """Return the question with its name as the model knows it, where accents and case alone differ."""
        name = self.model.template.name(question)
        if name is None or self._knows(name):
            return question
        taught = {one for one, folded in self._taught.items() if folded == fold(name)}
        found = taught or self.model.spellings(name)
        return self.model.template.ask(found.pop()) if len(found) == 1 else question

    def _knows(self, name: str) -> bool:
        return name in self._taught or self.model.exposure(name) > 0

    def _reply(self, answer: ModelAnswer, asked: str) -> Reply:
        evidence = () if self._look_up is None else self._look_up.find(answer.question)
        read_as = (f"the question was read as “{answer.question}”",) if answer.question != asked else ()
        doubts = self._doubts(answer)
        known = dict.fromkeys(key(one.answer) for one in evidence)
        if self.guarantee.allows(answer) and not doubts:
            against = [one for one in evidence if key(one.answer) != key(answer.text)]
            notes = tuple(f"the store says {one.answer} ({_basis(one)})" for one in against)
            return self._made("recalled", answer.text, answer, evidence, (*read_as, *notes))
        doubts = (*read_as, *doubts)
        if len(known) == 1:
            return self._made("looked up", evidence[0].answer, answer, evidence, doubts)
        if known:
            doubts = (*doubts, f"sources disagree: {'; '.join(f'{one.answer} ({_basis(one)})' for one in evidence)}")
        return self._made("unknown", None, answer, evidence, doubts)

    def _doubts(self, answer: ModelAnswer) -> tuple[str, ...]:
        """Return the reasons not to trust an answer from memory, however confident the model is."""
        if answer.problem is not None:
            return (answer.problem,)
        name = self.model.template.name(answer.question)
        if name is None:
            return (f"the model was taught questions like “{self.model.template}”, and this is another kind",)
        if not self._knows(name):
            return (f"the model has never read about {name}: whatever it says is made up",)
        return ()

    def _made(
        self,
        origin: Origin,
        said: str | None,
        answer: ModelAnswer,
        evidence: tuple[Evidence, ...],
        notes: tuple[str, ...],
    ) -> Reply:
        confidence = score_of(answer, self.guarantee.score)
        return Reply(answer.question, origin, said, confidence, self.guarantee.threshold, answer.text, evidence, notes)


def agree(
    model: KnowledgeModel, risk: float | None = None, delta: float | None = None, score: ScoreName | None = None
) -> Guarantee:
    """Return the run's guarantee; set it again if other terms are named or there is no valid one."""
    asked = {"risk": risk, "delta": delta, "score": score}
    terms: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    found = find_guarantee(model)
    if found is not None:
        kept = {name: getattr(found, name) for name in asked}
        if {**kept, **terms} == kept:
            return found
        terms = {**kept, **terms}
    return set_guarantee(model, **terms)


def _basis(one: Evidence) -> str:
    """Return the source of a piece of evidence and, if known, who gave it."""
    who = f", {one.who}" if one.who else ""
    return f"{one.source}{who}"
