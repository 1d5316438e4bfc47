"""What the measures of confidence refuse: scores and outcomes that do not belong together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attnlab.errors import InputError

Scores = Sequence[float] | NDArray[np.float64]
Outcomes = Sequence[bool] | NDArray[np.bool_]


def check_scores(scores: Scores, what: str = "score") -> NDArray[np.float64]:
    """The scores as an array: at least one, and no NaN. An infinite score is one that nothing exceeds."""
    numbers = np.asarray(scores, dtype=np.float64)
    if numbers.ndim != 1 or numbers.size == 0:
        raise InputError(f"{what}s of shape {numbers.shape} are no list with something in it", hint="give at least one")
    if np.isnan(numbers).any():
        place = int(np.flatnonzero(np.isnan(numbers))[0])
        raise InputError(f"the {what} at place {place} is not a number", hint="leave out what has no value, and say so")
    return numbers


def check_scored(scores: Scores, correct: Outcomes) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Scores, and whether each answer was right, in the same order."""
    numbers, right = check_scores(scores), np.asarray(correct)
    if right.shape != numbers.shape:
        raise InputError(
            f"{numbers.size} scores and outcomes of shape {right.shape} do not belong together",
            hint="give one outcome for each score, in the same order",
        )
    if not np.isin(right, (0, 1)).all():
        raise InputError("outcomes that are neither true nor false", hint="say of each answer whether it was right")
    return numbers, right.astype(np.bool_)
