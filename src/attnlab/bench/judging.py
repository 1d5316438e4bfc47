"""A bar: a claim that is measured as a ratio for some of the variants, and judged.

It is met if every variant that it concerns meets it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from attnlab.attention import AttentionSpec, Variant
from attnlab.bench.cases import Size
from attnlab.training.machine import Machine
from attnlab.bench.timing import Ratio
from attnlab.bench.yardsticks import Setting

Verdict = Literal["met", "missed", "reported", "not measured"]


@dataclass(frozen=True)
class Bar:
    """A claim: for the variants that it concerns, a ratio is at most, or at least, the limit.

    `what` and `how` may name lengths of the setting, such as {long}. Without a limit the ratio is only reported.
    """

    name: str
    what: str
    how: str
    limit: float | None
    concerns: Callable[[AttentionSpec], bool]
    measure: Callable[[Variant, Setting], Ratio]
    at_least: bool = False
    needs_peer: bool = False

    def is_met_by(self, value: float) -> bool | None:
        if self.limit is None:
            return None
        return value >= self.limit if self.at_least else value <= self.limit

    def strain(self, value: float) -> float:
        """How much of what the limit allows is used up: above 1, the bar is missed."""
        if self.limit is None:
            return 0.0
        return self.limit / value if self.at_least else value / self.limit


@dataclass(frozen=True)
class Figure:
    """What one variant reached."""

    variant: str
    ratio: Ratio
    met: bool | None
    strain: float


@dataclass(frozen=True)
class Outcome:
    """A bar with its figures, the worst first."""

    name: str
    what: str
    how: str
    limit: float | None
    at_least: bool
    verdict: Verdict
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class BarsBench:
    """All bars that one run measured, and on what."""

    machine: Machine
    size: Size
    rounds: int
    bars: tuple[Outcome, ...]

    @property
    def all_met(self) -> bool:
        return all(outcome.verdict in ("met", "reported") for outcome in self.bars)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {"benchmark": "attention bars", "all_met": self.all_met, **asdict(self)}


def judge(bar: Bar, ratios: Mapping[str, Ratio], setting: Setting) -> Outcome:
    """The verdict on what the variants reached."""
    figures = [
        Figure(name, ratio, bar.is_met_by(ratio.median), bar.strain(ratio.median)) for name, ratio in ratios.items()
    ]
    figures.sort(key=lambda figure: -figure.strain)
    verdict: Verdict = "met" if all(figure.met for figure in figures) else "missed"
    if bar.limit is None:
        verdict = "reported"
    if not figures:
        verdict = "not measured"
    what, how = (text.format_map(setting.lengths) for text in (bar.what, bar.how))
    return Outcome(bar.name, what, how, bar.limit, bar.at_least, verdict, tuple(figures))
