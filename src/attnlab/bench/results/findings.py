"""What a race found out, in the form that a terminal, a page and JSON share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from attnlab.bench.results.judging import Outcome, all_met
from attnlab.processes.machine import Machine


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


@dataclass(frozen=True)
class Figures(Findings):
    """A few figures by their names, each from one run."""

    figures: dict[str, float]
    words: ClassVar[str] = "Each figure from this one run."

    def tables(self) -> list[FoundTable]:
        rows = [(name, f"{value:.3g}") for name, value in self.figures.items()]
        return [FoundTable(self.title, self.words, ("", "figure"), rows)]
