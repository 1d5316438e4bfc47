"""What the tests of this room refuse, each with what to do about it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attnlab.errors import InputError, SpecError


def check_values(values: Sequence[float], least: int = 2) -> NDArray[np.float64]:
    """The values as an array, if there are enough of them and all are finite."""
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


_USUAL = {"level": "0.95", "alpha": "0.05", "power": "0.9", "confidence": "0.8", "rate": "0.05"}
