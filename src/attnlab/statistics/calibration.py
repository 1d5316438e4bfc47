"""Calibration: does what is said with confidence c come true in c of all cases?

    ECE = Σ_b n_b / n · |accuracy of bin b − mean confidence of bin b|      Naeini et al. 2015

The bins are of equal width, and the last one holds 1. The measure is never below 0 and so too high on few answers, even
for a perfectly calibrated model; `expected` is what such a model would show with these confidences, for comparison.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlab.errors import InputError, SpecError
from attnlab.statistics.checking import Outcomes, Scores, check_scored, check_share
from attnlab.statistics.estimates import clopper_pearson
from attnlab.statistics.paired import Interval

_RESAMPLES = 1000


@dataclass(frozen=True)
class ReliabilityBin:
    """The answers whose confidence lies between two bounds; without any, there is no accuracy."""

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
    expected: float  # the error that a perfectly calibrated model shows on so few answers, on average
    confidence: float
    accuracy: float


def reliability(
    confidences: Scores, correct: Outcomes, bins: int = 10, level: float = 0.95, seed: int = 0
) -> Reliability:
    """Return how far confidence and accuracy lie apart, bin by bin and on the whole."""
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
    low, high = np.quantile(drawn, ((1 - level) / 2, (1 + level) / 2))
    ece = Interval(_error(place, said, right, bins), float(low), float(high))
    return Reliability(tuple(found), ece, float(np.mean(perfect)), float(said.mean()), float(right.mean()))


def _error(place: NDArray[np.int_], said: NDArray[np.float64], right: NDArray[np.bool_], bins: int) -> float:
    gaps = np.bincount(place, weights=right.astype(np.float64) - said, minlength=bins)
    return float(np.abs(gaps).sum()) / said.size
