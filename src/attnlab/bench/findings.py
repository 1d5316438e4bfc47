"""What a race found out, in the form that a terminal, a page and JSON share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from attnlab.bench.judging import Outcome, all_met
from attnlab.training.machine import Machine


@dataclass(frozen=True)
class FoundTable:
    """A table under its title, and how to read it."""

    title: str
    words: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: Sequence[int] = (0,)


@dataclass(frozen=True)
class Findings(ABC):
    """What one run measured, on what, what it left out, and the verdicts."""

    benchmark: ClassVar[str]
    title: ClassVar[str]
    lead: ClassVar[str]

    machine: Machine
    rounds: int
    notes: tuple[str, ...]  # on what was not measured
    bars: tuple[Outcome, ...]

    @abstractmethod
    def tables(self) -> list[FoundTable]:
        """Everything that was measured."""

    @property
    def all_met(self) -> bool:
        return all_met(self)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {"benchmark": self.benchmark, "all_met": self.all_met, **asdict(self)}
