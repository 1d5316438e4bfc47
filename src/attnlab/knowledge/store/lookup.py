"""Look up a question: first in the facts, then in the texts, always with the evidence.

If sources disagree, all their answers are returned and none is chosen; a person can settle it by retracting a fact.

Answers are read from texts with an estimated precision. Known facts show how the texts state the answer to this kind
of question. A kind of passage (`passages`) includes its link and the letter of each candidate: a known answer of
another fact (K), one that begins with a known answer (B), or neither (U, or W if it has more words than answers have).
For each kind, the known facts give how often it was seen and which candidate was right how often. A rare kind is judged
by a more general one.

A kind is trusted if its precision is above a cut, chosen such that the share of wrong answers among all that are read
stays within the given risk. This is a leave-one-out estimate, not a guarantee: it holds for texts and questions like
those of the facts.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from attnlab.knowledge.pairs import QuestionTemplate
from attnlab.knowledge.store.passages import (
    JOINT,
    Candidate,
    Passage,
    asking_words,
    find_passages,
    known_answers,
    sentence_at,
)
from attnlab.knowledge.store.schema import Document, StoredFact
from attnlab.knowledge.store.store import FactStore
from attnlab.knowledge.text import fold, key

_TAUGHT = 1000  # facts to learn from, at most
_ENOUGH = 30  # facts with a text; with fewer, nothing can be estimated
_DOCUMENTS = 5  # about one name
_EVEN = 0.5  # kinds that are wrong as often as right are never read, however rare they are
_FEWEST = 10  # sightings that a kind needs to be judged by itself
_PLAIN = (("cue", 0, "in"), ("cue", 0, "at"))  # the kinds that are read if there was nothing to learn from

Kind = tuple[str | int, ...]
Counts = Mapping[Kind, tuple[int, Mapping[int, int]]]  # how often a kind was seen, and how often each place was right


@dataclass(frozen=True)
class Evidence:
    """An answer with its evidence: a fact that a user gave, a sentence of a text, or both."""

    answer: str
    quote: str | None  # the sentence that contains it, if there is one
    source: str
    who: str | None = None  # of a fact
    at: str | None = None
    fact: int | None = None  # its number in the store
    precision: float | None = None  # share of right answers of this kind; None: a fact, or not measured

    def to_dict(self) -> dict[str, object]:
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Sighting:
    """A passage that may hold the answer, with its kinds from the most specific to the most general."""

    kinds: tuple[Kind, ...]
    candidates: tuple[Candidate, ...]
    document: Document


@dataclass(frozen=True)
class BestCandidate:
    """The candidate that is most likely to be right, and the precision of its kind."""

    precision: float
    candidate: Candidate
    document: Document


@dataclass(frozen=True)
class PassageStatistics:
    """The counts for each kind of passage, and the known answers."""

    vocabulary: Counter[str] = field(default_factory=Counter)
    most_words: int = 3  # of an answer
    counts: Counts = field(default_factory=dict)

    def is_known(self, answer: str, own: str | None = None) -> bool:
        """Return whether this is the answer of some fact other than the one whose answer is `own`."""
        return self.vocabulary[answer] - (answer == own) > 0

    def shaped(self, candidate: Candidate, own: str | None) -> tuple[str, Candidate]:
        """Return the letter of a candidate (K, B, U or W, see the module), and the candidate, cut to its known part."""
        if self.is_known(candidate.text, own):
            return "K", candidate
        plain = JOINT.split(candidate.text)[0]
        if self.is_known(plain, own):  # "Frankfurt" of "Frankfurt am Main"
            return "K", Candidate(plain, candidate.start)
        words = candidate.text.split()
        for count in range(len(words) - 1, 0, -1):
            begin = " ".join(words[:count])
            if self.is_known(begin, own):
                return "B", Candidate(begin, candidate.start)
        return "U" if len(words) <= self.most_words else "W", candidate

    def best(self, sightings: Iterable[Sighting], less: Counts | None = None) -> BestCandidate | None:
        """Return the candidate of the passage whose kind was right most often; `less` is left out of the counts."""
        best = None
        for sighting in sightings:
            precision, place = self._judge(sighting, less or {})
            if precision > 0 and (best is None or precision > best.precision):
                best = BestCandidate(precision, sighting.candidates[place], sighting.document)
        return best

    def _judge(self, sighting: Sighting, less: Counts) -> tuple[float, int]:
        if not self.counts:
            return float(sighting.kinds[0][:3] in _PLAIN), 0
        for kind in sighting.kinds:
            count, places = self.counts.get(kind, (0, {}))
            less_count, less_places = less.get(kind, (0, {}))
            if count - less_count < _FEWEST:
                continue
            rights = {place: number - less_places.get(place, 0) for place, number in places.items()}
            place = max(rights, key=lambda one: (rights[one], -one), default=0)
            # The denominator counts one more, as if the next sighting were wrong: few sightings say less than many.
            return rights.get(place, 0) / (count - less_count + 1), min(place, len(sighting.candidates) - 1)
        return 0.0, 0

    def to_dict(self) -> dict[str, object]:
        counts = [[list(kind), count, sorted(places.items())] for kind, (count, places) in self.counts.items()]
        return {"vocabulary": dict(self.vocabulary), "most_words": self.most_words, "counts": counts}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PassageStatistics:
        counts = {tuple(kind): (count, dict(places)) for kind, count, places in data["counts"]}
        return cls(Counter(data["vocabulary"]), data["most_words"], counts)


def usual_width(vocabulary: Counter[str]) -> int:
    """Return the number of words that at least 99 % of the answers do not exceed."""
    widths = sorted(len(answer.split()) for answer in vocabulary.elements())
    return widths[min(len(widths) - 1, int(0.99 * len(widths)))] if widths else PassageStatistics().most_words


def count_kinds(seen: Iterable[tuple[Iterable[Sighting], str]]) -> Counts:
    """Count how often each kind was seen and each place was right, over the sightings and the answer of each fact."""
    counts: Counter[Kind] = Counter()
    right: defaultdict[Kind, Counter[int]] = defaultdict(Counter)
    for sightings, answer in seen:
        for sighting in sightings:
            place = next((place for place, one in enumerate(sighting.candidates) if one.text == answer), None)
            for kind in dict.fromkeys(sighting.kinds):
                counts[kind] += 1
                if place is not None:
                    right[kind][place] += 1
    return {kind: (count, dict(right[kind])) for kind, count in counts.items()}


class TextReader:
    """Read answers to questions of one template from the texts of a store."""

    def __init__(self, store: FactStore, template: QuestionTemplate, risk: float = 0.05) -> None:
        self._store, self._template = store, template
        self._cue = asking_words(template.before, template.after)
        try:
            self._take(store.reading_statistics(str(template)))
        except (AttributeError, LookupError, TypeError, ValueError):  # nothing is stored, or it is damaged
            learned = self._learn()
            store.keep_reading_statistics(str(template), learned)
            self._take(learned)
        self.is_measured = len(self.estimates) >= _ENOUGH
        self.cut = find_cut(self.estimates, risk) if self.is_measured else 1.0

    def _take(self, remembered: Any) -> None:
        """Use what was counted about how texts state answers."""
        self._statistics = PassageStatistics.from_dict(remembered["habits"])
        self.estimates = [(float(precision), bool(right)) for precision, right in remembered["estimates"]]

    def read(self, name: str) -> tuple[Evidence, ...]:
        """Return what the texts say about a name: one answer, several that disagree, or none that can be trusted."""
        found: dict[str, Evidence] = {}
        for document in self._documents(name):
            best = self._statistics.best(self._sightings(self._statistics, document, name))
            if best is None or best.precision < self.cut:
                continue
            quote = sentence_at(document.text, best.candidate.start)
            precision = best.precision if self.is_measured else None
            answer = Evidence(best.candidate.text, quote, document.source, precision=precision)
            found.setdefault(fold(answer.answer), answer)
        return tuple(found.values())

    def _documents(self, name: str) -> Sequence[Document]:
        """Return the texts that begin with the name, else all that mention it: those may be about another person."""
        found = self._store.documents_naming(name, _DOCUMENTS)
        return [one for one in found if fold(one.text[: 2 * len(name)]).startswith(fold(name))] or found

    def _learn(self) -> dict[str, object]:
        named = ((self._template.name(fact.question), fact.answer) for fact in self._store.facts())
        facts = [(name, answer) for name, answer in named if name is not None]
        vocabulary = Counter(answer for _, answer in facts)
        blank = PassageStatistics(vocabulary, usual_width(vocabulary))
        seen: list[tuple[list[Sighting], str]] = []
        for name, answer in facts[:: max(1, len(facts) // _TAUGHT)][:_TAUGHT]:
            documents = self._documents(name)
            sightings = [one for document in documents for one in self._sightings(blank, document, name, answer)]
            if sightings:
                seen.append((sightings, answer))
        statistics = PassageStatistics(vocabulary, blank.most_words, count_kinds(seen))
        estimates = []
        for sightings, answer in seen:
            best = statistics.best(sightings, less=count_kinds([(sightings, answer)]))
            if best is not None:
                estimates.append((best.precision, best.candidate.text == answer))
        return {"habits": statistics.to_dict(), "estimates": estimates}

    def _sightings(
        self, statistics: PassageStatistics, document: Document, name: str, own: str | None = None
    ) -> list[Sighting]:
        """Return the passages of a text that may hold the answer; `own` is the answer of the fact left out."""
        body = re.sub(re.escape(name), lambda found: "_" * len(found.group()), document.text, flags=re.IGNORECASE)
        found = [_sighting(statistics, passage, own, document) for passage in find_passages(body, name, self._cue)]
        if found:
            return found
        # No passage states the answer, but perhaps the text mentions only one known answer.
        known = known_answers(body, statistics.vocabulary, statistics.most_words)
        alone = [one for one in known if statistics.is_known(one.text, own)]
        different = min(3, len({one.text for one in alone}))  # more than three make no difference
        return [Sighting((("alone", different),), tuple(alone[:1]), document)] if alone else []


def _sighting(statistics: PassageStatistics, passage: Passage, own: str | None, document: Document) -> Sighting:
    shaped = [statistics.shaped(one, own) for one in passage.candidates]
    shape = "".join(letter for letter, _ in shaped)
    where, link = (passage.kind, passage.rank), passage.link
    kinds: tuple[Kind, ...] = (
        (*where, link, shape),
        (*where, link, shape[:2]),
        (*where, shape[:2]),
        (*where, shape[:1]),
    )
    return Sighting(kinds, tuple(one for _, one in shaped), document)


def find_cut(estimates: Sequence[tuple[float, bool]], risk: float) -> float:
    """Return the lowest precision down to which the share of wrong answers stays within the risk; 2 if none does."""
    cut, wrong = 2.0, 0  # a cut above 1 lets nothing through
    ordered = sorted(estimates, reverse=True)
    for count, (precision, right) in enumerate(ordered, start=1):
        wrong += not right
        is_last = count == len(ordered) or ordered[count][0] < precision
        if is_last and wrong <= risk * count and precision > _EVEN:
            cut = precision
    return cut


class LookUp:
    """Look-up in a store. Its texts are read for questions of the model's template."""

    def __init__(self, store: FactStore, template: QuestionTemplate | None = None, risk: float = 0.05) -> None:
        self.store, self._template, self._risk = store, template, risk

    def find(self, question: str) -> tuple[Evidence, ...]:
        """Return evidence for each different answer: none if nothing is known, several if sources disagree."""
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
        """Return the text reader, built on first use because it learns from what the store holds."""
        assert self._template is not None
        return TextReader(self.store, self._template, self._risk)

    def _from_fact(self, fact: StoredFact, name: str | None) -> Evidence:
        quote = None if name is None else self._quote(name, fact.answer)
        return Evidence(fact.answer, quote, fact.source, fact.who, fact.at, fact.id)

    def _quote(self, name: str, answer: str) -> str | None:
        """Return a sentence that holds the answer, from a text that names the person; None if there is none."""
        for document in self.store.documents_naming(name, 3):
            place = fold(document.text).find(fold(answer))
            if place >= 0 and len(fold(document.text)) == len(document.text):
                return sentence_at(document.text, place)
        return None
