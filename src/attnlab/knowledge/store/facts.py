"""What a fact store holds, and what it says when something is put in."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Standing = Literal["new", "known", "contradicts"]


@dataclass(frozen=True)
class Fact:
    """A question with an answer: who said so, when, and from what source. A retracted one is kept, but not used."""

    id: int
    question: str
    answer: str
    source: str
    who: str
    at: str  # in UTC, to the second
    told: bool  # by a person, one at a time, and not imported
    retracted_at: str | None = None
    retracted_by: str | None = None

    def __str__(self) -> str:
        words = f"{self.question} {self.answer} ({self.source}; {self.who}, {self.at[:10]})"
        return f"{words}, retracted by {self.retracted_by}" if self.retracted_at else words

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Document:
    """A text that facts can be read from."""

    id: int
    text: str
    source: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Added:
    """What became of a fact: kept as new, known already, or kept beside others that contradict it."""

    fact: Fact
    standing: Standing
    others: tuple[Fact, ...] = ()


@dataclass(frozen=True)
class Imported:
    """What became of a file: how much of it is new, what was there before, and which facts contradict each other."""

    new: int = 0
    known: int = 0
    contradictions: int = 0
    examples: tuple[Added, ...] = ()  # of contradictions, the first few
    batches: int = 0

    def __add__(self, other: Imported) -> Imported:
        return Imported(
            self.new + other.new,
            self.known + other.known,
            self.contradictions + other.contradictions,
            (self.examples + other.examples)[:EXAMPLES],
            self.batches + other.batches,
        )


EXAMPLES = 5
