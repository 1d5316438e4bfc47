"""How texts of one kind say the answer to one kind of question, counted on facts that are known.

For each kind of passage (`passages`), with its link and with which of its candidates are known answers of other facts
(K), begin with one (B), or are not (U, or W where it has more words than answers have), it is counted which candidate
was right and how often. A kind that was seldom seen is judged by a wider one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from attnlab.knowledge.store.facts import Document
from attnlab.knowledge.store.passages import JOINT, Candidate

_FEWEST = 10  # times that a kind must have been seen to be judged by itself
_PLAIN = (("cue", 0, "in"), ("cue", 0, "at"))  # what is read where there was nothing to learn from

Kind = tuple[str | int, ...]
Counts = Mapping[Kind, tuple[int, Mapping[int, int]]]  # how often a kind was seen, and how often each place was right


@dataclass(frozen=True)
class Sighting:
    """A passage that may hold the answer, with its kinds from the narrowest to the widest."""

    kinds: tuple[Kind, ...]
    candidates: tuple[Candidate, ...]
    document: Document


@dataclass(frozen=True)
class Found:
    """The candidate that is most likely to be right, and how often its kind was."""

    precision: float
    candidate: Candidate
    document: Document


@dataclass(frozen=True)
class Habits:
    """The counts, and which answers are known."""

    vocabulary: Counter[str] = field(default_factory=Counter)
    most_words: int = 3  # of an answer
    counts: Counts = field(default_factory=dict)

    def is_known(self, answer: str, own: str | None = None) -> bool:
        """Whether it answers some fact, other than the one whose answer is `own`."""
        return self.vocabulary[answer] - (answer == own) > 0

    def shaped(self, candidate: Candidate, own: str | None) -> tuple[str, Candidate]:
        """What a candidate looks like: known, known as far as it begins (and then cut there), unknown, or too wide."""
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

    def best(self, sightings: Iterable[Sighting], less: Counts | None = None) -> Found | None:
        """The candidate of the passage whose kind was right most often; `less` is what is not to be counted."""
        best = None
        for sighting in sightings:
            precision, place = self._judge(sighting, less or {})
            if precision > 0 and (best is None or precision > best.precision):
                best = Found(precision, sighting.candidates[place], sighting.document)
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
            # One more than was seen, as if the next one were wrong: few sightings say less than many.
            return rights.get(place, 0) / (count - less_count + 1), min(place, len(sighting.candidates) - 1)
        return 0.0, 0

    def to_dict(self) -> dict[str, Any]:
        counts = [[list(kind), count, sorted(places.items())] for kind, (count, places) in self.counts.items()]
        return {"vocabulary": dict(self.vocabulary), "most_words": self.most_words, "counts": counts}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Habits:
        counts = {tuple(kind): (count, dict(places)) for kind, count, places in data["counts"]}
        return cls(Counter(data["vocabulary"]), data["most_words"], counts)


def usual_width(vocabulary: Counter[str]) -> int:
    """So many words have all answers but one in a hundred at most."""
    widths = sorted(len(answer.split()) for answer in vocabulary.elements())
    return widths[min(len(widths) - 1, int(0.99 * len(widths)))] if widths else Habits().most_words


def count_kinds(seen: Iterable[tuple[Iterable[Sighting], str]]) -> Counts:
    """How often each kind was seen, and which place was right, over facts with what their texts show."""
    counts: Counter[Kind] = Counter()
    right: defaultdict[Kind, Counter[int]] = defaultdict(Counter)
    for sightings, answer in seen:
        for kind, place in _marks(sightings, answer):
            counts[kind] += 1
            if place is not None:
                right[kind][place] += 1
    return {kind: (count, dict(right[kind])) for kind, count in counts.items()}


def _marks(sightings: Iterable[Sighting], answer: str) -> Iterator[tuple[Kind, int | None]]:
    for sighting in sightings:
        place = next((place for place, one in enumerate(sighting.candidates) if one.text == answer), None)
        for kind in dict.fromkeys(sighting.kinds):
            yield kind, place
