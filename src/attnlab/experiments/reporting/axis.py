"""An axis for differences of loss: straight, or bent where some go far beyond the margin, so that small ones show too.

A bent place is asinh(d / 2m) for a difference d and a margin m: straight near zero, logarithmic far from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from attnlab.experiments.judging.judgement import Judgement
from attnlab.experiments.reporting.formats import signed

_PLACES = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000)  # per cent of perplexity, for ticks
_WIDE = 12  # margins beyond which an axis is bent
_TICKS = 6  # at most, or they run into each other on a telephone


@dataclass(frozen=True)
class DifferenceAxis:
    """From `low` to `high` in nats."""

    low: float
    high: float
    margin: float

    @classmethod
    def of(cls, judgements: Iterable[Judgement], margin: float) -> DifferenceAxis:
        """An axis on which everything about these judgements, and the margin, has its place."""
        found = [value for one in judgements for value in (*one.differences, one.low, one.high) if value is not None]
        values = [value for value in found if math.isfinite(value)]
        return cls(min([-2 * margin, *values]), max([2 * margin, *values]), margin)

    @property
    def bent(self) -> bool:
        return max(-self.low, self.high) > _WIDE * self.margin

    def place(self, difference: float) -> float:
        return math.asinh(difference / (2 * self.margin)) if self.bent else difference

    def range(self) -> list[float]:
        """Where the axis begins and ends, with some room."""
        low, high = self.place(self.low), self.place(self.high)
        return [low - 0.05 * (high - low), high + 0.05 * (high - low)]

    def ticks(self) -> list[tuple[float, str]]:
        """Places with what is written there, in per cent of perplexity."""
        begin, end = self.range()
        kept: dict[float, float] = {}
        for percent in (0.0, *(sign * place for place in self._candidates() for sign in (-1, 1))):
            if percent <= -100:
                continue
            place = self.place(math.log1p(percent / 100))
            if begin <= place <= end and all(abs(place - other) >= (end - begin) / _TICKS for other in kept):
                kept[place] = percent
        return [(place, _text(percent)) for place, percent in sorted(kept.items())]

    def _candidates(self) -> list[float]:
        """Powers of ten first; where the axis is straight, multiples of a step that leaves room between them."""
        if self.bent:
            return sorted(_PLACES, key=lambda place: (not math.log10(place).is_integer(), place))
        width = 100 * (self.high - self.low)
        step = next(place for place in _PLACES if place * _TICKS > 1.2 * width)
        return [step * number for number in range(1, _TICKS + 1)]


def _text(percent: float) -> str:
    return "0" if percent == 0 else f"{signed(percent, 0 if float(percent).is_integer() else 1)} %"
