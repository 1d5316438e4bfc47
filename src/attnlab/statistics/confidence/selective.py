"""Answering only where one is sure: the risk among the answered, against the share that is answered.

Answers are taken from the surest on. After k of n the coverage is k / n, and the risk is the share of errors among
those k; the area under that curve is the mean risk over k = 1 … n (Geifman et al. 2019). Answers with the same score
come in no order: each counts with the error rate of all that share it. A score that knows nothing has the overall risk
as its area; the best possible one, which puts all errors last, has the area that accuracy alone allows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlab.statistics.checking import check_share
from attnlab.statistics.confidence.scored import Outcomes, Scores, check_scored
from attnlab.statistics.differences.paired import Interval

_POINTS = 200  # of a curve that is drawn


@dataclass(frozen=True)
class RiskCoverage:
    """The curve with its pointwise bootstrap band, and the area under it."""

    coverage: tuple[float, ...]
    risk: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    area: Interval
    area_best: float
    area_blind: float
    count: int

    def at(self, coverage: float) -> float:
        """The risk when this share is answered."""
        return float(np.interp(coverage, self.coverage, self.risk))


def risk_coverage(
    scores: Scores, correct: Outcomes, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> RiskCoverage:
    """The curve of one score, from the surest answer to all of them."""
    check_share("level", level)
    numbers, right = check_scored(scores, correct)
    risks, count = _risks(numbers, right), numbers.size
    shown = np.unique(np.linspace(1, count, min(_POINTS, count)).round().astype(int)) - 1
    picks = np.random.default_rng(seed).integers(count, size=(resamples, count))
    drawn = np.empty((resamples, shown.size))
    areas = np.empty(resamples)
    for row, pick in enumerate(picks):
        curve = _risks(numbers[pick], right[pick])
        drawn[row], areas[row] = curve[shown], curve.mean()
    tails = ((1 - level) / 2, (1 + level) / 2)
    low, high = np.quantile(drawn, tails, axis=0)
    return RiskCoverage(
        coverage=tuple(((shown + 1) / count).tolist()),
        risk=tuple(risks[shown].tolist()),
        low=tuple(low.tolist()),
        high=tuple(high.tolist()),
        area=Interval(float(risks.mean()), *(float(end) for end in np.quantile(areas, tails))),
        area_best=float(_risks(right.astype(np.float64), right).mean()),
        area_blind=float(1 - right.mean()),
        count=count,
    )


def area_difference(
    first: Scores, second: Scores, correct: Outcomes, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> Interval:
    """The first score's area less the second's on the same answers: below 0, the first one orders them better."""
    check_share("level", level)
    one, right = check_scored(first, correct)
    other, _ = check_scored(second, correct)
    picks = np.random.default_rng(seed).integers(one.size, size=(resamples, one.size))
    drawn = [float((_risks(one[pick], right[pick]) - _risks(other[pick], right[pick])).mean()) for pick in picks]
    low, high = np.quantile(drawn, ((1 - level) / 2, (1 + level) / 2))
    return Interval(float((_risks(one, right) - _risks(other, right)).mean()), float(low), float(high))


def _risks(scores: NDArray[np.float64], right: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The risk after each number of answers, the surest first, ties shared out evenly."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    sizes = np.diff(np.r_[starts, ordered.size])
    wrong = np.add.reduceat(1.0 - right[order], starts) / sizes
    risks: NDArray[np.float64] = np.cumsum(np.repeat(wrong, sizes)) / np.arange(1, ordered.size + 1)
    return risks
