"""Look-up of a question: first among the facts, then in the texts, always with what it rests on.

Where sources disagree nothing is chosen: all that is said comes back, and it is left to a person to retract a fact.
"""

from __future__ import annotations

from functools import cached_property

from attnlab.knowledge.material.pairs import QuestionTemplate
from attnlab.knowledge.material.text import fold, key
from attnlab.knowledge.store.passages import sentence_at
from attnlab.knowledge.store.schema import StoredFact
from attnlab.knowledge.store.store import FactStore
from attnlab.knowledge.store.text_reader import Evidence, TextReader


class LookUp:
    """A store to look things up in. The kind of question that its texts are read for is that of the model."""

    def __init__(self, store: FactStore, template: QuestionTemplate | None = None, risk: float = 0.05) -> None:
        self.store, self._template, self._risk = store, template, risk

    def find(self, question: str) -> tuple[Evidence, ...]:
        """One piece of evidence for each different answer: none if nothing is known, several if sources disagree."""
        facts = self.store.answers(question)
        name = self._template.name(question) if self._template is not None else None
        if facts:
            found: dict[str, StoredFact] = {}
            for fact in facts:
                found.setdefault(key(fact.answer), fact)
            return tuple(self._from_fact(fact, name) for fact in found.values())
        return () if name is None else self._reader.read(name)

    @cached_property
    def _reader(self) -> TextReader:
        """Made when it is needed first, because it learns from what the store holds."""
        assert self._template is not None
        return TextReader(self.store, self._template, self._risk)

    def _from_fact(self, fact: StoredFact, name: str | None) -> Evidence:
        quote = None if name is None else self._quote(name, fact.answer)
        return Evidence(fact.answer, quote, fact.source, fact.who, fact.at, fact.id)

    def _quote(self, name: str, answer: str) -> str | None:
        """A sentence in a text about the name that holds the answer."""
        for document in self.store.documents_naming(name, 3):
            place = fold(document.text).find(fold(answer))
            if place >= 0 and len(fold(document.text)) == len(document.text):
                return sentence_at(document.text, place)
        return None
