"""Selective prediction: the risk as a function of coverage, and a threshold with a risk guarantee.

Answers are sorted by confidence. After the first k of n, the coverage is k / n, and the risk is the share of errors
among those k; the area under that curve is the mean risk over k = 1 … n (Geifman et al. 2019). Answers with the same
score are not ordered: each counts with the error rate of all of them. A random score has the overall risk as its area;
the best possible score, which ranks all errors last, has the smallest area at this accuracy.

A threshold with a guarantee keeps the risk among answered questions below r with probability at least 1 − δ:
Learn-then-Test (Angelopoulos et al. 2021, arXiv 2110.01052). For a threshold t, let n be the number of calibration
pairs that are answered (score ≥ t) and e the errors among them. Given n, e is binomial with the true risk R(t), so

    p(t) = P(Bin(n, r) ≤ e)

is an exact p-value of "R(t) > r" for any distribution. Thresholds are tried from strict to loose, and the first one
whose p exceeds δ ends the search: to accept any threshold with too high a risk, the first such threshold of the
sequence must be accepted, which has a probability of at most δ. No correction for multiple tests is needed.

This requires a sequence that was fixed without using these pairs, not even their scores: `spread_thresholds` derives
one from the scores of other questions. It begins where enough pairs are expected to be answered to tolerate at least
one error: with too few, even no errors are not significant, and the search would end at the first threshold.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlab.errors import InputError, SpecError
from attnlab.statistics.checking import Outcomes, Scores, check_scored, check_scores, check_share
from attnlab.statistics.paired import Interval
from attnlab.statistics.samples import binomial_tail, percentile_interval

_POINTS = 200  # of a plotted curve
_STEPS = 20  # thresholds of a sequence
_START = 2  # times the fewest pairs that can be significant: where a sequence begins,
_SHARE = 0.2  # or at this share of the pairs, if that is more; with fewer, a single unlucky error often ends the search


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


def risk_coverage(
    scores: Scores, correct: Outcomes, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> RiskCoverage:
    """Return the curve of one score, from the surest answer to all of them.

    Parameters
    ----------
    scores
        The confidence of each answer.
    correct
        Whether each answer is right.
    level
        The confidence level of intervals, such as 0.95.
    resamples
        Bootstrap samples.
    seed
        The random seed; the same seed gives the same result.
    """
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
    low, high = np.quantile(drawn, ((1 - level) / 2, (1 + level) / 2), axis=0)
    return RiskCoverage(
        coverage=tuple(((shown + 1) / count).tolist()),
        risk=tuple(risks[shown].tolist()),
        low=tuple(low.tolist()),
        high=tuple(high.tolist()),
        area=percentile_interval(risks.mean(), areas, level),
        area_best=float(_risks(right.astype(np.float64), right).mean()),
        area_blind=float(1 - right.mean()),
        count=count,
    )


def area_difference(
    first: Scores, second: Scores, correct: Outcomes, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> Interval:
    """Return the first score's area less the second's on the same answers; below 0, the first orders them better.

    Parameters
    ----------
    first
        The first score of each answer.
    second
        The second score of each answer.
    correct
        Whether each answer is right.
    level
        The confidence level of intervals, such as 0.95.
    resamples
        Bootstrap samples.
    seed
        The random seed; the same seed gives the same result.
    """
    check_share("level", level)
    one, right = check_scored(first, correct)
    other, _ = check_scored(second, correct)
    picks = np.random.default_rng(seed).integers(one.size, size=(resamples, one.size))
    drawn = [float((_risks(one[pick], right[pick]) - _risks(other[pick], right[pick])).mean()) for pick in picks]
    return percentile_interval((_risks(one, right) - _risks(other, right)).mean(), drawn, level)


def _risks(scores: NDArray[np.float64], right: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the risk after each number of answers, the surest first, ties shared out evenly."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    sizes = np.diff(np.r_[starts, ordered.size])
    wrong = np.add.reduceat(1.0 - right[order], starts) / sizes
    risks: NDArray[np.float64] = np.cumsum(np.repeat(wrong, sizes)) / np.arange(1, ordered.size + 1)
    return risks


@dataclass(frozen=True)
class Tried:
    """One threshold that was tried."""

    threshold: float
    answered: int
    errors: int
    p_value: float


@dataclass(frozen=True)
class RiskControl:
    """The loosest threshold that was accepted, if any, and all that were tried."""

    risk: float
    delta: float
    count: int
    accepted: Tried | None
    steps: tuple[Tried, ...]

    @property
    def threshold(self) -> float | None:
        """The accepted threshold: answer if the score reaches it; None: never answer."""
        return None if self.accepted is None else self.accepted.threshold

    @property
    def answered(self) -> int:
        return 0 if self.accepted is None else self.accepted.answered

    @property
    def errors(self) -> int:
        return 0 if self.accepted is None else self.accepted.errors


def control_risk(
    scores: Scores, correct: Outcomes, thresholds: Sequence[float], risk: float = 0.05, delta: float = 0.1
) -> RiskControl:
    """Return the loosest of the thresholds for which P(errors among the answered > risk) ≤ delta.

    Parameters
    ----------
    scores
        The confidence of each answer.
    correct
        Whether each answer is right.
    thresholds
        Thresholds from strict to loose.
    risk
        The accepted share of wrong answers among those given.
    delta
        The probability with which the guarantee may fail.
    """
    _check_request(risk, delta)
    numbers, right = check_scored(scores, correct)
    sequence = check_scores(thresholds, "threshold").tolist()
    if any(later >= earlier for earlier, later in itertools.pairwise(sequence)):
        raise InputError("thresholds that do not fall", hint="order them from strict to loose, each once")
    steps: list[Tried] = []
    accepted = None
    for threshold in sequence:
        answered = numbers >= threshold
        count, errors = int(answered.sum()), int((answered & ~right).sum())
        steps.append(Tried(threshold, count, errors, binomial_tail(errors, count, risk)))
        if steps[-1].p_value > delta:
            break
        accepted = steps[-1]
    return RiskControl(risk, delta, numbers.size, accepted, tuple(steps))


def fewest_needed(risk: float, delta: float) -> int:
    """Return the fewest pairs that show a risk below `risk` if all of them are answered rightly: (1 − r)ⁿ ≤ δ.

    Parameters
    ----------
    risk
        The accepted share of wrong answers among those given.
    delta
        The probability with which the guarantee may fail.
    """
    _check_request(risk, delta)
    return math.ceil(math.log(delta) / math.log1p(-risk))


def spread_thresholds(
    others: Scores, count: int, risk: float = 0.05, delta: float = 0.1, steps: int = _STEPS
) -> tuple[float, ...]:
    """Return thresholds for `count` calibration pairs, from the scores of others, evenly by the share answered.

    Parameters
    ----------
    others
        Scores of answers that are not calibration pairs.
    count
        Number of calibration pairs.
    risk
        The accepted share of wrong answers among those given.
    delta
        The probability with which the guarantee may fail.
    steps
        How many thresholds.
    """
    numbers = check_scores(others)
    if count < 1 or steps < 1:
        raise SpecError(f"{steps} thresholds for {count} pairs make no sense", hint="use at least one of each")
    fewest = fewest_needed(risk, delta)
    first = max(_SHARE * count, min(_START * fewest, (fewest + count) / 2))  # the latter if there are few pairs
    begin = min(1.0, first / count)
    shares = np.linspace(begin, 1.0, steps)
    found = np.quantile(numbers, 1 - shares, method="lower")
    return tuple(float(value) for value in np.unique(found)[::-1])


def _check_request(risk: float, delta: float) -> None:
    for name, value, usual in (("risk", risk, 0.05), ("delta", delta, 0.1)):
        if not 0 < value < 1:  # also for NaN
            raise SpecError(f"a {name} of {value:g} is not between 0 and 1", hint=f"use a {name} such as {usual}")
