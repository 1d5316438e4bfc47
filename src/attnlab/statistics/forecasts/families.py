"""Families of curves for how an arm's difference in loss changes with model size N and training tokens D.

With the baseline's law L(N, D) = E + A · N^−α + B · D^−β and N₀ the geometric mean of the sizes:

    size            L(κN, D) − L(N, D)                       a constant factor κ in effective size
    drifting size   the same with κ = κ₀ · (N / N₀)^γ
    tokens          L(N, τD) − L(N, D)                       a constant factor τ in effective tokens
    drifting tokens the same with τ = τ₀ · (N / N₀)^γ
    onset           L(N, D − D₀) − L(N, D)                   a fixed number D₀ of lost tokens
    vanishing       a · N^−b, b > 0
    growing         a · N^b, b > 0
    constant        a, in nats

Each is fixed + factor · shape(θ), with at most one θ (γ, D₀ or b) on a grid that is refined around its best point, and
the factor by weighted least squares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlab.statistics.forecasts.loss_law import LossLaws

Array = NDArray[np.float64]

_COARSE = 13  # values of θ over its range
_REFINEMENTS = 7  # each with a third of the step
_AROUND = np.arange(-3, 4) / 3
_LEAST_TOKENS = 0.02  # share of the tokens that an onset leaves at least


@dataclass(frozen=True)
class Baseline:
    """The baseline's laws, and the units of size and tokens."""

    laws: LossLaws
    middle_size: float
    fewest_tokens: float


class Places:
    """The terms of the laws at points of size and tokens, each of shape (laws, 1, points)."""

    def __init__(self, baseline: Baseline, sizes: Array, tokens: Array) -> None:
        laws = baseline.laws
        self.relative_sizes = sizes / baseline.middle_size  # (points,)
        self.tokens = tokens  # (points,)
        self.fewest_tokens = baseline.fewest_tokens
        self.size_exponent = laws.size_exponent[:, None, None]
        self.token_exponent = laws.token_exponent[:, None, None]
        self.size_term = laws.size_coefficient[:, None, None] * sizes**-self.size_exponent
        self.token_term = laws.token_coefficient[:, None, None] * tokens**-self.token_exponent


# From θ of shape (laws, thetas, 1) to the fixed part and the shape, which broadcast to (laws, thetas, points).
Shape = Callable[[Places, Array], tuple[Array, Array]]


@dataclass(frozen=True)
class Family:
    """A family of curves: its name, number of free parameters, range of θ, sign of the factor, and shape."""

    name: str
    parameters: int
    theta: tuple[float, float]
    factor: tuple[float, float]  # bounds; (1, 1) for a family without a factor
    shape: Shape


@dataclass(frozen=True)
class FamilyFit:
    """A family fitted to several rows of differences: χ², θ and factor, each of shape (rows,)."""

    family: Family
    baseline: Baseline
    chi_square: Array
    theta: Array
    factor: Array

    def predict(self, size: float, tokens: float) -> Array:
        """Return the difference at one size and number of tokens, (rows,)."""
        at = Places(self.baseline, np.array([float(size)]), np.array([float(tokens)]))
        fixed, shape = self.family.shape(at, self.theta[:, None, None])
        return np.asarray((fixed + self.factor[:, None, None] * shape)[:, 0, 0])


def fit_family(
    family: Family, baseline: Baseline, sizes: Array, tokens: Array, differences: Array, errors: Array
) -> FamilyFit:
    """Fit one family to differences of shape (rows, points), with one law per row."""
    at, rows = Places(baseline, sizes, tokens), np.arange(len(differences))
    low, high = family.theta
    is_fixed = low == high
    thetas = np.broadcast_to(
        np.linspace(low, high, 1 if is_fixed else _COARSE), (rows.size, 1 if is_fixed else _COARSE)
    )
    step = (high - low) / (_COARSE - 1)
    for level in range(1 if is_fixed else 1 + _REFINEMENTS):
        fixed, shape = family.shape(at, thetas[:, :, None])
        left, shape = (differences[:, None, :] - fixed) / errors, shape / errors
        norms = (shape * shape).sum(axis=-1)
        factors = np.divide((left * shape).sum(axis=-1), norms, out=np.zeros_like(norms), where=norms > 0)
        factors = np.clip(factors, *family.factor)
        chi_squares = ((left - factors[:, :, None] * shape) ** 2).sum(axis=-1)
        best = chi_squares.argmin(axis=1)
        theta, factor, chi_square = (of[rows, best] for of in (thetas, factors, chi_squares))
        thetas = np.clip(theta[:, None] + step * 3.0**-level * _AROUND, low, high)
    return FamilyFit(family, baseline, chi_square, theta, factor)


def small_sample_weights(chi_squares: Array, parameters: Array, count: int) -> Array:
    """Return the weights of families by AICc = χ² + 2k + 2k(k + 1) / (n − k − 1), for n measured differences.

    n counts the seeds of all points, because the noise is known from the seeds and not from the residuals. With the
    number of points in its place, ladders of 3 or 4 rungs hardly ever recognise a difference that grows.
    """
    criterion = chi_squares + 2 * parameters + 2 * parameters * (parameters + 1) / (count - parameters - 1)
    weights = np.exp(-(criterion - criterion.min()) / 2)
    return np.asarray(weights / weights.sum())


def lack_of_fit(chi_squares: Array, parameters: Array, points: int) -> float:
    """Return √(χ² / (P − k)) of the family that fits best by this measure, at least 1: the Birge ratio."""
    return max(1.0, float(np.sqrt((chi_squares / np.maximum(points - parameters, 1)).min())))


def _size(at: Places, theta: Array) -> tuple[Array, Array]:
    return -at.size_term, at.size_term * at.relative_sizes ** (-at.size_exponent * theta)


def _tokens(at: Places, theta: Array) -> tuple[Array, Array]:
    return -at.token_term, at.token_term * at.relative_sizes ** (-at.token_exponent * theta)


def _onset(at: Places, theta: Array) -> tuple[Array, Array]:
    """Return the shape for θ = D₀ in units of the fewest tokens of a point."""
    left = np.maximum(1 - theta * at.fewest_tokens / at.tokens, _LEAST_TOKENS)
    return -at.token_term, at.token_term * left**-at.token_exponent


def _power(at: Places, theta: Array) -> tuple[Array, Array]:
    return np.zeros(1), at.relative_sizes**theta


_POSITIVE, _ANY, _NONE = (0.0, np.inf), (-np.inf, np.inf), (1.0, 1.0)

FAMILIES = (
    Family("size", 1, (0.0, 0.0), _POSITIVE, _size),
    Family("drifting size", 2, (-0.6, 0.6), _POSITIVE, _size),
    Family("tokens", 1, (0.0, 0.0), _POSITIVE, _tokens),
    Family("drifting tokens", 2, (-0.6, 0.6), _POSITIVE, _tokens),
    Family("onset", 1, (-1.8, 0.9), _NONE, _onset),  # with 0 on its grid
    Family("vanishing", 2, (-2.0, -0.05), _ANY, _power),
    Family("growing", 2, (0.05, 1.0), _ANY, _power),
    Family("constant", 1, (0.0, 0.0), _ANY, _power),
)
