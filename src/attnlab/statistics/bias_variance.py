"""The error of a learner, decomposed into noise, bias and variance.

For predictions f_r by learners that differ in their training set or their seed, and targets y_s that differ in their
noise, with means f̄ and ȳ over the draws at each point:

    mean (y_s − f_r)²  =  mean (y_s − ȳ)²  +  (ȳ − f̄)²  +  mean (f_r − f̄)²        over r, s and the points
    error              =  noise            +  bias²      +  variance

    mean −log p_r(y)   =  −log p̄(y)        +  mean KL(p̄ ‖ p_r)                     p̄ ∝ exp(mean log p_r)
    loss               =  bias             +  variance

The first is from Geman, Bienenstock and Doursat 1992, the second from Heskes 1998. Both hold for finite samples up to
rounding, not only in expectation. If there is one target for each point, its noise is part of the bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Not scipy.stats, which is slow to import.
from scipy import special  # type: ignore[import-untyped,unused-ignore]

from attnlab.errors import InputError

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class ErrorSplit:
    """The error and its parts, each computed independently."""

    error: float
    noise: float
    bias: float  # squared, if the error is a squared error
    variance: float

    @property
    def rest(self) -> float:
        """Return what the parts leave of the error: nothing but rounding."""
        return self.error - (self.noise + self.bias + self.variance)


def split_squared_error(predictions: ArrayLike, targets: ArrayLike) -> ErrorSplit:
    """Split the mean squared error of predictions (learners, …) of targets (draws, …), over all pairs and points."""
    f, y = _table("predictions", predictions), _table("targets", targets)
    if f.shape[1:] != y.shape[1:]:
        raise InputError(
            f"predictions are of {f.shape[1:]} points and targets of {y.shape[1:]}",
            hint="give both the same shape after the first axis, which counts learners and draws",
        )
    middle, truth = f.mean(0), y.mean(0)
    return ErrorSplit(
        error=float(np.mean([np.square(draw - f).mean() for draw in y])),
        noise=float(np.square(y - truth).mean()),
        bias=float(np.square(truth - middle).mean()),
        variance=float(np.square(f - middle).mean()),
    )


def split_log_loss(log_probabilities: ArrayLike, targets: Sequence[int] | NDArray[np.integer]) -> ErrorSplit:
    """Split the mean −log p of the targets, in nats, into bias and variance over learners.

    Parameters
    ----------
    log_probabilities
        (learners, points, choices).
    targets
        (points,), the correct choice at each point.
    """
    logs = _table("log-probabilities", log_probabilities)
    chosen = np.asarray(targets)
    if logs.ndim != 3 or chosen.shape != logs.shape[1:2]:
        raise InputError(
            f"log-probabilities of shape {logs.shape} and targets of shape {chosen.shape} do not fit",
            hint="give (learners, points, choices) and one target for each point",
        )
    if not np.issubdtype(chosen.dtype, np.integer) or chosen.min() < 0 or chosen.max() >= logs.shape[2]:
        raise InputError(f"targets are not choices from 0 to {logs.shape[2] - 1}", hint="give the number of a choice")
    if not np.allclose(special.logsumexp(logs, axis=-1), 0, atol=1e-4):
        raise InputError("some probabilities do not add up to 1", hint="take a log-softmax first")
    middle = logs.mean(0)  # (points, choices)
    middle = middle - special.logsumexp(middle, axis=-1, keepdims=True)
    divergence = (np.exp(middle) * (middle - logs)).sum(-1)  # (learners, points)
    points = np.arange(len(chosen))
    return ErrorSplit(
        error=float(-logs[:, points, chosen].mean()),
        noise=0.0,
        bias=float(-middle[points, chosen].mean()),
        variance=float(divergence.mean()),
    )


def polynomial_smoother(points: ArrayLike, degree: int) -> Numbers:
    """Return the matrix H (points, points) that turns observations into the least-squares polynomial's values.

    For observations t + noise of variance σ² at n fixed points, the expected bias² is mean ((I − H) t)² and the
    expected variance σ² tr(H) / n = σ² (degree + 1) / n.
    """
    x = _table("points", points)
    if x.ndim != 1:
        raise InputError(f"points of shape {x.shape} are no list", hint="give one number for each point")
    distinct = len(np.unique(x))
    if type(degree) is not int or not 0 <= degree < distinct:
        raise InputError(
            f"{distinct} distinct points do not determine a polynomial of degree {degree!r}",
            hint=f"use a degree from 0 to {distinct - 1}",
        )
    low, high = x.min(), x.max()
    unit = 2 * (x - low) / (high - low) - 1 if high > low else np.zeros_like(x)
    basis, _ = np.linalg.qr(np.polynomial.legendre.legvander(unit, degree))  # (points, degree + 1)
    return np.asarray(basis @ basis.T, dtype=np.float64)


def _table(name: str, values: ArrayLike) -> Numbers:
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim == 0 or numbers.size == 0:
        raise InputError(f"{name} of shape {numbers.shape} are empty", hint="give at least one draw of one point")
    if not np.isfinite(numbers).all():
        raise InputError(
            f"{name} are not all finite numbers", hint="leave out what diverged, for it has no mean to differ from"
        )
    return numbers
