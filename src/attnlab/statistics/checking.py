"""Argument checks shared by several files; each error has a hint."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.errors import InputError, SpecError

Scores = Sequence[float] | NDArray[np.float64]
Outcomes = Sequence[bool] | NDArray[np.bool_]

_USUAL = {
    "level": "0.95",
    "alpha": "0.05",
    "power": "0.9",
    "confidence": "0.8",
    "rate": "0.05",
    "risk": "0.05",
    "delta": "0.1",
}


def check_values(values: Sequence[float] | NDArray[np.float64], least: int = 2) -> NDArray[np.float64]:
    """Return the values as an array, if there are enough of them and all are finite."""
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1:
        raise InputError(f"values of shape {numbers.shape} are no list", hint="give one number for each seed")
    if numbers.size < least:
        raise InputError(
            f"too few values to know their spread: {numbers.size}, where at least {least} are needed",
            hint="give one number for each of several seeds",
        )
    if not np.isfinite(numbers).all():
        places = ", ".join(str(place) for place in np.flatnonzero(~np.isfinite(numbers))[:5])
        raise InputError(
            f"values that are not finite numbers, at place {places}",
            hint="leave out what has no value, such as a run that diverged, and say so",
        )
    return numbers


def check_samples(samples: Any, least: int = 2) -> NDArray[np.float64]:
    """Return the values of a tensor or an array of any shape as a list of numbers."""
    if hasattr(samples, "detach"):
        samples = samples.detach().cpu()
    return check_values(np.asarray(samples, dtype=np.float64).reshape(-1), least)


def check_logarithms(name: str, values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values as an array if all are finite and above 0."""
    numbers = check_values(list(values), least=1)
    if numbers.min() <= 0:
        raise InputError(f"{name} must be above 0, got {numbers.min():g}", hint="leave out points without training")
    return numbers


def check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise SpecError(f"{name} = {value:g} is not between 0 and 1", hint=f"use a {name} such as {_USUAL[name]}")


def check_positive(name: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise SpecError(f"a {name} of {value:g} makes no sense", hint=f"use a {name} above 0")


def check_sd(sd: float) -> None:
    if not (sd >= 0 and math.isfinite(sd)):
        raise SpecError(f"a standard deviation of {sd:g} makes no sense", hint="use 0 or more")


def check_count(count: int) -> None:
    if count < 2:
        raise SpecError(f"too few values to know their spread: {count}", hint="use at least 2")


def check_scores(scores: Scores, what: str = "score") -> NDArray[np.float64]:
    """Return the scores as an array: at least one, and no NaN. An infinite score is one that nothing exceeds."""
    numbers = np.asarray(scores, dtype=np.float64)
    if numbers.ndim != 1 or numbers.size == 0:
        raise InputError(f"{what}s of shape {numbers.shape} are no list with something in it", hint="give at least one")
    if np.isnan(numbers).any():
        place = int(np.flatnonzero(np.isnan(numbers))[0])
        raise InputError(f"the {what} at place {place} is not a number", hint="leave out what has no value, and say so")
    return numbers


def check_scored(scores: Scores, correct: Outcomes) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the scores, and whether each answer was right, in the same order."""
    numbers, right = check_scores(scores), np.asarray(correct)
    if right.shape != numbers.shape:
        raise InputError(
            f"{numbers.size} scores and outcomes of shape {right.shape} do not belong together",
            hint="give one outcome for each score, in the same order",
        )
    if not np.isin(right, (0, 1)).all():
        raise InputError("outcomes that are neither true nor false", hint="say of each answer whether it was right")
    return numbers, right.astype(np.bool_)


def check_successes(successes: int, count: int, least: int = 0) -> None:
    """Refuse a number of successes that is negative, or larger than the number of trials."""
    if not (0 <= successes <= count and count >= least):
        raise InputError(f"{successes} of {count} is no count", hint="count 0 … as many as there were trials")
