"""Ladders: the losses of an arm and of its baseline at several model sizes, with paired seeds.

Seeds are resampled as units: in one resample, a seed has the same weight at every point that contains it, for the
baseline and for the arm. The weights are those of the Bayesian bootstrap (Rubin 1981), which never leave a point
without a seed. With n seeds, the variance of the means is too small by the factor (n − 1) / (n + 1); this is corrected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attnlab.errors import InputError, SpecError
from attnlab.statistics.checking import check_positive, check_values
from attnlab.statistics.forecasts.loss_law import SMALLEST_ERROR

Array = NDArray[np.float64]

_FEWEST_RUNGS = 3
_POOLED_DEGREES = 4.0  # of freedom that the spread of all points adds to the spread of one point


@dataclass(frozen=True)
class LadderPoint:
    """The final validation losses in nats of both groups at one model size and number of training tokens.

    Index k of `baseline` and of `arm` is the same seed. `seeds` names the seeds, so that points with different seeds
    can be resampled together; without it, index k is seed k.
    """

    size: float
    tokens: float
    baseline: tuple[float, ...]
    arm: tuple[float, ...]
    seeds: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_positive("size", self.size)
        check_positive("number of tokens", self.tokens)
        for name, losses in (("baseline", self.baseline), ("arm", self.arm)):
            if len(losses) < 2:
                raise InputError(
                    f"the {name} needs at least 2 seeds at size {self.size:g}, got {len(losses)}",
                    hint="train every point with several seeds",
                )
            check_values(losses)
        if len(self.baseline) != len(self.arm):
            raise InputError(
                f"the losses are paired by seed, got {len(self.baseline)} of the baseline and {len(self.arm)} of the "
                f"arm at size {self.size:g}",
                hint="keep only the seeds that both groups have",
            )
        if not self.seeds:
            object.__setattr__(self, "seeds", tuple(range(len(self.arm))))
        if len(self.seeds) != len(self.arm) or len(set(self.seeds)) != len(self.seeds):
            raise InputError(
                f"seeds must name each of {len(self.arm)} losses once at size {self.size:g}, got {self.seeds}",
                hint="give one seed per loss, or leave seeds out",
            )

    @cached_property
    def differences(self) -> Array:
        """Return arm − baseline per seed."""
        return np.subtract(self.arm, self.baseline)


@dataclass(frozen=True)
class Ladder:
    """The points of one arm. Points may repeat a size with another number of tokens, but not both."""

    points: tuple[LadderPoint, ...]
    name: str = ""

    def __post_init__(self) -> None:
        places = [(point.size, point.tokens) for point in self.points]
        if not places:
            raise InputError("a ladder needs points, got none", hint=f"train at least {_FEWEST_RUNGS} model sizes")
        for place in places:
            if places.count(place) > 1:
                raise InputError(
                    f"size {place[0]:g} with {place[1]:g} tokens occurs twice",
                    hint="put all seeds of one size and number of tokens into one point",
                )

    @cached_property
    def sizes(self) -> Array:
        """Return the size of every point, (points,)."""
        return np.array([point.size for point in self.points], dtype=np.float64)

    @cached_property
    def tokens(self) -> Array:
        """Return the training tokens of every point, (points,)."""
        return np.array([point.tokens for point in self.points], dtype=np.float64)

    @property
    def largest(self) -> LadderPoint:
        """Return the point of the largest size, and of those the one with the most tokens."""
        return max(self.points, key=lambda point: (point.size, point.tokens))

    def below_largest(self) -> Ladder:
        """Return the ladder without the points of the largest size."""
        largest = self.largest.size
        return Ladder(tuple(point for point in self.points if point.size < largest), self.name)

    def check_rungs(self, least: int = _FEWEST_RUNGS) -> None:
        """Raise an error for fewer distinct sizes than are needed."""
        rungs = len({point.size for point in self.points})
        if rungs < least:
            raise SpecError(
                f"a forecast needs at least {least} model sizes, got {rungs}",
                hint="add a smaller or a larger rung to the ladder",
            )


@dataclass(frozen=True)
class Resamples:
    """Means over seeds, (1 + resamples, points); the first row holds the means of the data themselves."""

    baseline: Array
    differences: Array
    baseline_errors: Array  # standard errors, (points,)
    difference_errors: Array  # (points,)


def resample(ladder: Ladder, count: int, seed: int) -> Resamples:
    """Return the mean losses of the baseline and the mean differences of all points, for `count` resamples of seeds."""
    if count < 1:
        raise SpecError(f"resamples must be at least 1, got {count}", hint="use a few hundred")
    names = sorted({name for point in ladder.points for name in point.seeds})
    draws = np.random.default_rng(seed).exponential(size=(count, len(names)))  # normalised, they are Dirichlet
    baselines, differences = [], []
    for point in ladder.points:
        weights = draws[:, [names.index(name) for name in point.seeds]]
        weights /= weights.sum(axis=1, keepdims=True)
        baselines.append(_means(np.asarray(point.baseline), weights))
        differences.append(_means(point.differences, weights))
    return Resamples(
        np.stack(baselines, axis=1),
        np.stack(differences, axis=1),
        _standard_errors([np.asarray(point.baseline) for point in ladder.points]),
        _standard_errors([point.differences for point in ladder.points]),
    )


def _means(values: Array, weights: Array) -> Array:
    """Return the mean, and after it the weighted means with the spread that a mean of so many values has."""
    count, mean = values.size, values.mean()
    return np.append(mean, mean + ((count + 1) / (count - 1)) ** 0.5 * (weights @ (values - mean)))


def _standard_errors(groups: Sequence[Array]) -> Array:
    """Return the standard error of each group's mean, with variances drawn towards that of all groups."""
    variances = np.array([group.var(ddof=1) for group in groups])
    counts = np.array([group.size for group in groups])
    degrees = counts - 1
    pooled = (degrees * variances).sum() / degrees.sum()
    moderated = (degrees * variances + _POOLED_DEGREES * pooled) / (degrees + _POOLED_DEGREES)
    return np.asarray(np.maximum(np.sqrt(moderated / counts), SMALLEST_ERROR))
