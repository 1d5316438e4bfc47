"""A bar: the limit that attnlab claims a ratio keeps, and the verdict on what was measured.

A bar is met if everything that it concerns keeps the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from attnlab.bench.results.timing import Ratio

Verdict = Literal["met", "missed", "reported", "not measured"]


@dataclass(frozen=True)
class Bar:
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
        """Return the share of the limit that is used up: above 1, the bar is missed."""
        if self.limit is None:
            return 0.0
        return self.limit / value if self.at_least else value / self.limit

    def judge(self, ratios: Mapping[str, Ratio], lengths: Mapping[str, int] | None = None) -> JudgedBar:
        """Return the verdict on ratios, by the name of what reached them; without any, it was not measured."""
        figures = [
            JudgedFigure(name, ratio, self.is_met_by(ratio.median), self.strain(ratio.median))
            for name, ratio in ratios.items()
        ]
        figures.sort(key=lambda figure: -figure.strain)
        verdict: Verdict = "met" if all(figure.met for figure in figures) else "missed"
        if not figures:
            verdict = "not measured"
        elif self.limit is None:
            verdict = "reported"
        what, how = (text.format_map(lengths or {}) for text in (self.what, self.how))
        return JudgedBar(self.name, what, how, self.limit, self.at_least, verdict, tuple(figures))


@dataclass(frozen=True)
class JudgedFigure:
    """The ratio that one variant, or another thing that the bar is about, reached."""

    variant: str
    ratio: Ratio
    met: bool | None
    strain: float


@dataclass(frozen=True)
class JudgedBar:
    """A bar with its figures, the worst first."""

    name: str
    what: str
    how: str
    limit: float | None
    at_least: bool
    verdict: Verdict
    figures: tuple[JudgedFigure, ...]


def judge_values(subject: str, values: Mapping[Bar, Ratio | float | None]) -> tuple[JudgedBar, ...]:
    """Judge one value for each bar; None was not measured."""
    found = []
    for bar, value in values.items():
        ratio = value if value is None or isinstance(value, Ratio) else Ratio.exact(value)
        found.append(bar.judge({} if ratio is None else {subject: ratio}))
    return tuple(found)
