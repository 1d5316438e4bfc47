"""A claim about a ratio, and its verdict. A bar is a claim that is measured for some of the variants.

A claim is met if everything that it concerns meets it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from attnlab.attention import AttentionSpec, Variant
from attnlab.bench.kernels.cases import Size
from attnlab.bench.kernels.yardsticks import Setting
from attnlab.bench.results.timing import Ratio
from attnlab.processes.machine import Machine

Verdict = Literal["met", "missed", "reported", "not measured"]


@dataclass(frozen=True)
class Claim:
    """A ratio is at most, or at least, the limit. Without a limit it is only reported.

    `what` and `how` may name lengths, such as {long}, which are filled in when it is judged.
    """

    name: str
    what: str
    how: str
    limit: float | None
    at_least: bool = field(default=False, kw_only=True)

    def is_met_by(self, value: float) -> bool | None:
        if self.limit is None:
            return None
        return value >= self.limit if self.at_least else value <= self.limit

    def strain(self, value: float) -> float:
        """How much of what the limit allows is used up: above 1, the claim is missed."""
        if self.limit is None:
            return 0.0
        return self.limit / value if self.at_least else value / self.limit


@dataclass(frozen=True)
class Bar(Claim):
    """A claim about the variants that it concerns; the lengths are those of the setting."""

    concerns: Callable[[AttentionSpec], bool]
    measure: Callable[[Variant, Setting], Ratio]
    needs_peer: bool = False


@dataclass(frozen=True)
class Figure:
    """What one variant, or whatever else the claim is about, reached."""

    variant: str
    ratio: Ratio
    met: bool | None
    strain: float


@dataclass(frozen=True)
class Outcome:
    """A claim with its figures, the worst first."""

    name: str
    what: str
    how: str
    limit: float | None
    at_least: bool
    verdict: Verdict
    figures: tuple[Figure, ...]


class Judged(Protocol):
    """Whatever holds verdicts."""

    @property
    def bars(self) -> tuple[Outcome, ...]: ...


@dataclass(frozen=True)
class BarsBench:
    """All bars that one run measured, and on what."""

    machine: Machine
    size: Size
    rounds: int
    bars: tuple[Outcome, ...]

    @property
    def all_met(self) -> bool:
        return all_met(self)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {"benchmark": "attention bars", "all_met": self.all_met, **asdict(self)}


def all_met(judged: Judged) -> bool:
    """Whether nothing was missed, and nothing was left unmeasured."""
    return all(outcome.verdict in ("met", "reported") for outcome in judged.bars)


def judge(bar: Bar, ratios: Mapping[str, Ratio], setting: Setting) -> Outcome:
    """The verdict on what the variants reached."""
    return judge_claim(bar, ratios, setting.lengths)


def judge_claim(claim: Claim, ratios: Mapping[str, Ratio], lengths: Mapping[str, int] | None = None) -> Outcome:
    """The verdict on ratios by the name of what reached them."""
    figures = [
        Figure(name, ratio, claim.is_met_by(ratio.median), claim.strain(ratio.median)) for name, ratio in ratios.items()
    ]
    figures.sort(key=lambda figure: -figure.strain)
    verdict: Verdict = "met" if all(figure.met for figure in figures) else "missed"
    if claim.limit is None:
        verdict = "reported"
    if not figures:
        verdict = "not measured"
    what, how = (text.format_map(lengths or {}) for text in (claim.what, claim.how))
    return Outcome(claim.name, what, how, claim.limit, claim.at_least, verdict, tuple(figures))
