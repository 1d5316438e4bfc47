"""The quality of a confidence score: its calibration, and how well it separates two groups.

Calibration: are answers with confidence c correct in a share c of all cases?

    ECE = Σ_b n_b / n · |accuracy of bin b − mean confidence of bin b|      Naeini et al. 2015

The bins have equal width, and the last one includes 1. The ECE is never below 0 and so biased upwards on few answers,
even for a perfectly calibrated model; `expected` is the mean ECE of such a model with the same confidences.

Separation: the probability that one of the first group scores higher than one of the second.

    AUROC      θ = mean over pairs of [x > y] + ½ [x = y]
    its error  from the placements of each x among the y and of each y among the x      DeLong et al. 1988
    interval   on the scale of log θ / (1 − θ), so that it never leaves 0 … 1

If θ is 0 or 1, the placements have no spread. The bound is then the exact one for min(m, n) independent pairs, all in
the right order: (α/2)^(1/min(m, n)). It is conservative, and never gives an interval of width 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special  # type: ignore[import-untyped,unused-ignore]

from attnlab.errors import InputError, SpecError
from attnlab.statistics.checking import Outcomes, Scores, check_scored, check_scores, check_share
from attnlab.statistics.paired import Interval
from attnlab.statistics.samples import clopper_pearson, percentile_interval

_RESAMPLES = 1000


@dataclass(frozen=True)
class ReliabilityBin:
    """The answers whose confidence lies between two bounds; an empty bin has no accuracy."""

    low: float
    high: float
    count: int
    confidence: float | None
    accuracy: Interval | None


@dataclass(frozen=True)
class Reliability:
    """Accuracy by confidence, and the expected calibration error with its bootstrap interval."""

    bins: tuple[ReliabilityBin, ...]
    ece: Interval
    expected: float  # the mean error of a perfectly calibrated model on as many answers
    confidence: float
    accuracy: float


def reliability(
    confidences: Scores, correct: Outcomes, bins: int = 10, level: float = 0.95, seed: int = 0
) -> Reliability:
    """Return how far confidence and accuracy lie apart, bin by bin and on the whole.

    Parameters
    ----------
    confidences
        The confidence of each answer, from 0 to 1.
    correct
        Whether each answer is right.
    bins
        Bins of equal width.
    level
        The confidence level of intervals, such as 0.95.
    seed
        The random seed; the same seed gives the same result.
    """
    check_share("level", level)
    said, right = check_scored(confidences, correct)
    if ((said < 0) | (said > 1)).any():
        raise InputError("confidences outside 0 … 1", hint="give probabilities")
    if bins < 1:
        raise SpecError(f"{bins} bins hold nothing", hint="use 10")
    place = np.minimum((said * bins).astype(int), bins - 1)
    found = []
    for number in range(bins):
        inside = place == number
        count = int(inside.sum())
        mean = float(said[inside].mean()) if count else None
        accuracy = clopper_pearson(int(right[inside].sum()), count, level) if count else None
        found.append(ReliabilityBin(number / bins, (number + 1) / bins, count, mean, accuracy))
    rng = np.random.default_rng(seed)
    picks = rng.integers(said.size, size=(_RESAMPLES, said.size))
    drawn = [_error(place[pick], said[pick], right[pick], bins) for pick in picks]
    perfect = [_error(place, said, rng.random(said.size) < said, bins) for _ in range(_RESAMPLES)]
    ece = percentile_interval(_error(place, said, right, bins), drawn, level)
    return Reliability(tuple(found), ece, float(np.mean(perfect)), float(said.mean()), float(right.mean()))


def _error(place: NDArray[np.int_], said: NDArray[np.float64], right: NDArray[np.bool_], bins: int) -> float:
    gaps = np.bincount(place, weights=right.astype(np.float64) - said, minlength=bins)
    return float(np.abs(gaps).sum()) / said.size


@dataclass(frozen=True)
class _Placements:
    """The rank of each score within the other group, as a share of that group."""

    of_positives: NDArray[np.float64]
    of_negatives: NDArray[np.float64]

    @property
    def area(self) -> float:
        return float(self.of_positives.mean())


def auroc(positives: Scores, negatives: Scores, level: float = 0.95) -> Interval:
    """Return the chance that a positive scores higher than a negative, ties counted half, with its interval.

    Parameters
    ----------
    positives
        Scores of positives.
    negatives
        Scores of negatives.
    level
        The confidence level of intervals, such as 0.95.
    """
    check_share("level", level)
    places = _place(positives, negatives)
    area, reach = places.area, _reach(level)
    if area in (0.0, 1.0):
        bound = ((1 - level) / 2) ** (1 / min(places.of_positives.size, places.of_negatives.size))
        return Interval(area, bound, 1.0) if area == 1.0 else Interval(area, 0.0, 1 - bound)
    error = math.sqrt(_covariance(places, places))
    centre, half = float(special.logit(area)), reach * error / (area * (1 - area))
    return Interval(area, float(special.expit(centre - half)), float(special.expit(centre + half)))


def auroc_difference(first: tuple[Scores, Scores], second: tuple[Scores, Scores], level: float = 0.95) -> Interval:
    """Return how much better the first score separates the same positives and negatives than the second does.

    Parameters
    ----------
    first
        The first score of positives and of negatives.
    second
        The second score of the same.
    level
        The confidence level of intervals, such as 0.95.
    """
    check_share("level", level)
    one, other = _place(*first), _place(*second)
    if one.of_positives.size != other.of_positives.size or one.of_negatives.size != other.of_negatives.size:
        raise InputError(
            "the two scores are not of the same positives and negatives", hint="give both scores for each, in one order"
        )
    variance = _covariance(one, one) + _covariance(other, other) - 2 * _covariance(one, other)
    half, difference = _reach(level) * math.sqrt(max(0.0, variance)), one.area - other.area
    return Interval(difference, difference - half, difference + half)


def _place(positives: Scores, negatives: Scores) -> _Placements:
    x, y = check_scores(positives), check_scores(negatives)
    return _Placements(_share_below(x, y), 1 - _share_below(y, x))


def _share_below(values: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each value the share of the others that lie below it; those equal to it count half."""
    ordered = np.sort(others)
    below, upto = np.searchsorted(ordered, values, "left"), np.searchsorted(ordered, values, "right")
    return (below + upto) / (2 * others.size)


def _covariance(one: _Placements, other: _Placements) -> float:
    """Return the covariance of two areas over the same positives and negatives."""
    total = 0.0
    for a, b in ((one.of_positives, other.of_positives), (one.of_negatives, other.of_negatives)):
        if a.size > 1:
            total += float(((a - a.mean()) * (b - b.mean())).sum()) / (a.size - 1) / a.size
    return total


def _reach(level: float) -> float:
    """Return how many standard errors an interval reaches to either side."""
    return -float(special.ndtri((1 - level) / 2))
