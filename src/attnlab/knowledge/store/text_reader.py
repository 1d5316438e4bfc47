"""Reading the answer to a question out of texts, and knowing how far that can be trusted.

What a way of saying it is worth is learned from facts that are known (`habits`). It is trusted down to the precision at
which the wrong ones among all that is read stay below the risk that is named. That is an estimate, each fact being left
out when it is judged, and no guarantee: it holds for texts and questions like those of the facts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.knowledge.material.pairs import QuestionTemplate
from attnlab.knowledge.material.spelling import fold
from attnlab.knowledge.store.facts import Document
from attnlab.knowledge.store.habits import Habits, Kind, Sighting, count_kinds, usual_width
from attnlab.knowledge.store.passages import Candidate, Passage, asking_words, find_passages, known_answers, sentence_at
from attnlab.knowledge.store.store import FactStore

_TAUGHT = 1000  # facts that are learned from at most
_ENOUGH = 30  # facts with a text, below which nothing can be estimated
_DOCUMENTS = 5  # about one name
_EVEN = 0.5  # what is as likely wrong as right is never read, however seldom it occurs


@dataclass(frozen=True)
class ReadAnswer:
    """An answer that stands in a text, with the sentence, and how often readings of its kind were right."""

    answer: str
    quote: str
    source: str
    precision: float | None  # None: not measured


class TextReader:
    """Reads answers to questions of one template out of the texts of a store."""

    def __init__(self, store: FactStore, template: QuestionTemplate, risk: float = 0.05) -> None:
        self._store, self._template = store, template
        self._cue = asking_words(template.before, template.after)
        remembered = store.habits(str(template))
        if remembered is None:
            remembered = self._learn()
            store.remember_habits(str(template), remembered)
        self._habits = Habits.from_dict(remembered["habits"])
        self.estimates = [(float(precision), bool(right)) for precision, right in remembered["estimates"]]
        self.is_measured = len(self.estimates) >= _ENOUGH
        self.cut = find_cut(self.estimates, risk) if self.is_measured else 1.0

    def read(self, name: str) -> tuple[ReadAnswer, ...]:
        """What the texts say about a name: one answer, several that disagree, or none that can be trusted."""
        found: dict[str, ReadAnswer] = {}
        for document in self._documents(name):
            best = self._habits.best(self._sightings(self._habits, document, name))
            if best is None or best.precision < self.cut:
                continue
            quote = sentence_at(document.text, best.candidate.start)
            precision = best.precision if self.is_measured else None
            answer = ReadAnswer(best.candidate.text, quote, document.source, precision)
            found.setdefault(fold(answer.answer), answer)
        return tuple(found.values())

    def _documents(self, name: str) -> Sequence[Document]:
        """Those that begin with the name, if there are any; a text that only mentions it may be about somebody else."""
        found = self._store.documents_naming(name, _DOCUMENTS)
        return [one for one in found if fold(one.text[: 2 * len(name)]).startswith(fold(name))] or found

    def _learn(self) -> dict[str, Any]:
        facts = list(self._facts())
        vocabulary = Counter(answer for _, answer in facts)
        blank = Habits(vocabulary, usual_width(vocabulary))
        seen: list[tuple[list[Sighting], str]] = []
        for name, answer in facts[:: max(1, len(facts) // _TAUGHT)][:_TAUGHT]:
            documents = self._documents(name)
            sightings = [one for document in documents for one in self._sightings(blank, document, name, answer)]
            if sightings:
                seen.append((sightings, answer))
        habits = Habits(vocabulary, blank.most_words, count_kinds(seen))
        estimates = []
        for sightings, answer in seen:
            best = habits.best(sightings, less=count_kinds([(sightings, answer)]))
            if best is not None:
                estimates.append((best.precision, best.candidate.text == answer))
        return {"habits": habits.to_dict(), "estimates": estimates}

    def _facts(self) -> Iterator[tuple[str, str]]:
        for fact in self._store.facts():
            name = self._template.name(fact.question)
            if name is not None:
                yield name, fact.answer

    def _sightings(self, habits: Habits, document: Document, name: str, own: str | None = None) -> list[Sighting]:
        """What may be the answer in a text; `own` is the answer of the fact that is being left out."""
        body = re.sub(re.escape(name), lambda found: "_" * len(found.group()), document.text, flags=re.IGNORECASE)
        found = [_sighting(habits, passage, own, document) for passage in find_passages(body, name, self._cue)]
        if found:
            return found
        # Nothing says so, but perhaps only one answer is spoken of.
        known = known_answers(body, habits.vocabulary, habits.most_words)
        alone = [one for one in known if habits.is_known(one.text, own)]
        return [Sighting((("alone", _different(alone)),), tuple(alone[:1]), document)] if alone else []


def _sighting(habits: Habits, passage: Passage, own: str | None, document: Document) -> Sighting:
    shaped = [habits.shaped(one, own) for one in passage.candidates]
    shape = "".join(letter for letter, _ in shaped)
    where, link = (passage.kind, passage.rank), passage.link
    kinds: tuple[Kind, ...] = (
        (*where, link, shape),
        (*where, link, shape[:2]),
        (*where, shape[:2]),
        (*where, shape[:1]),
    )
    return Sighting(kinds, tuple(one for _, one in shaped), document)


def _different(candidates: Sequence[Candidate]) -> int:
    """How many different answers stand in a text; beyond three it does not matter."""
    return min(3, len({one.text for one in candidates}))


def find_cut(estimates: Sequence[tuple[float, bool]], risk: float) -> float:
    """The lowest precision down to which the wrong ones among what is read stay below the risk."""
    cut, wrong = 2.0, 0  # a cut above 1 lets nothing through
    ordered = sorted(estimates, reverse=True)
    for count, (precision, right) in enumerate(ordered, start=1):
        wrong += not right
        is_last = count == len(ordered) or ordered[count][0] < precision
        if is_last and wrong <= risk * count and precision > _EVEN:
            cut = precision
    return cut
