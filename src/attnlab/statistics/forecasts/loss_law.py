"""The scaling law of the loss.

    L(N, D) = E + A · N^−α + B · D^−β     Hoffmann et al. 2022, arXiv 2203.15556

N is the number of parameters, D the number of training tokens, L the loss in nats. The fit is weighted least squares:
α and β on a grid that is refined around its best point, and for each pair of exponents E, A, B ≥ 0 by non-negative
linear least squares, solved exactly by trying every set of coefficients that may be positive.

Few points do not identify five numbers, and with tokens proportional to size, N^−α and D^−β are almost collinear. Weak
priors determine the rest; each counts like one more measurement:

    exponents   normal around the published values, within bounds
    split       A · N^−α − B · D^−β is 0 at the geometric mean of the points, within the range of the losses
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlab.errors import InputError, SpecError
from attnlab.statistics.checking import check_logarithms, check_positive, check_values

Array = NDArray[np.float64]

SMALLEST_ERROR = 1e-5  # nats: the smallest error assumed, whatever the spread over seeds
_BOUNDS = (0.1, 1.0)  # of both exponents
_PUBLISHED = (0.34, 0.28)  # α and β of Hoffmann et al. 2022
_PRIOR_SD = 0.15  # of both exponents
_COARSE = 10  # exponents between the bounds
_REFINEMENTS = 14  # each halves the step
_SUBSETS = [np.array(chosen) for chosen in itertools.product((True, False), repeat=3) if any(chosen)]
_FEWEST = 3  # distinct points
_RIDGE = 1e-13  # of the normal equations, which are singular where all sizes or all tokens are equal


@dataclass(frozen=True)
class LossLaw:
    """The law L(N, D) = irreducible + size_coefficient · N^−size_exponent + token_coefficient · D^−token_exponent."""

    irreducible: float
    size_coefficient: float
    size_exponent: float
    token_coefficient: float
    token_exponent: float

    def loss(self, size: float, tokens: float) -> float:
        """Return the loss in nats of a model of `size` parameters after `tokens` tokens."""
        check_positive("size", size)
        check_positive("number of tokens", tokens)
        size_term = self.size_coefficient * size**-self.size_exponent
        return float(self.irreducible + size_term + self.token_coefficient * tokens**-self.token_exponent)


@dataclass(frozen=True)
class LossLaws:
    """Several laws as arrays of shape (laws,), for calculations over resamples."""

    irreducible: Array
    size_coefficient: Array
    size_exponent: Array
    token_coefficient: Array
    token_exponent: Array

    def law(self, index: int) -> LossLaw:
        """Return one of the laws."""
        return LossLaw(*(float(values[index]) for values in vars(self).values()))

    def reducible(self, size: float, tokens: float) -> Array:
        """Return the part of the loss that more parameters and tokens would remove, (laws,)."""
        return self.size_coefficient * size**-self.size_exponent + self.token_coefficient * tokens**-self.token_exponent


def fit_loss_law(
    sizes: Sequence[float], tokens: Sequence[float], losses: Sequence[float], errors: Sequence[float]
) -> LossLaw:
    """Return the law that fits the losses at (sizes, tokens) best, each weighted by its standard error.

    Parameters
    ----------
    sizes
        Parameters of each run.
    tokens
        Training tokens of each.
    losses
        Final loss of each.
    errors
        Standard error of each loss.
    """
    return fit_loss_laws(sizes, tokens, np.asarray(losses, dtype=np.float64)[None], errors).law(0)


def fit_loss_laws(
    sizes: Sequence[float] | Array, tokens: Sequence[float] | Array, losses: Array, errors: Sequence[float] | Array
) -> LossLaws:
    """Return one law per row of `losses`, which has shape (laws, points).

    The exponents of the first row are refined; those of the others are chosen from the coarse grid and the refined
    ones, so that equal rows have equal laws.
    """
    problem = _Problem.of(sizes, tokens, losses, errors)
    best_size, best_token = _refined_exponents(problem)
    coarse = np.linspace(*_BOUNDS, _COARSE)
    size_grid, token_grid = np.append(coarse, best_size), np.append(coarse, best_token)
    alpha, beta = (grid.ravel() for grid in np.meshgrid(size_grid, token_grid, indexing="ij"))
    chi_squares, coefficients = problem.solve(alpha, beta, problem.losses)
    best = chi_squares.argmin(axis=1)
    best[0] = alpha.size - 1  # the refined exponents of both
    irreducible, at_size, at_tokens = coefficients[np.arange(best.size), best].T
    return LossLaws(
        irreducible,
        at_size * problem.middle_size ** alpha[best],
        alpha[best],
        at_tokens * problem.middle_tokens ** beta[best],
        beta[best],
    )


@dataclass(frozen=True)
class _Problem:
    """Points and losses, checked, with sizes and tokens in units of their geometric means."""

    sizes: Array  # (points,)
    tokens: Array  # (points,)
    losses: Array  # (laws, points)
    errors: Array  # (points,)
    middle_size: float
    middle_tokens: float

    @classmethod
    def of(
        cls,
        sizes: Sequence[float] | Array,
        tokens: Sequence[float] | Array,
        losses: Array,
        errors: Sequence[float] | Array,
    ) -> _Problem:
        N, D = check_logarithms("sizes", sizes), check_logarithms("tokens", tokens)
        for name, count in (("tokens", D.size), ("losses", losses.shape[-1]), ("errors", len(errors))):
            if count != N.size:
                raise InputError(
                    f"{name} must have one value per size, got {count} for {N.size} sizes",
                    hint="give sizes, tokens, losses and errors of the same points",
                )
        distinct = len({*zip(N.tolist(), D.tolist(), strict=True)})
        if distinct < _FEWEST:
            raise SpecError(
                f"a loss law needs at least {_FEWEST} distinct points of size and tokens, got {distinct}",
                hint="add a rung, or train one rung on half the tokens",
            )
        rows = np.stack([check_values(row) for row in losses])
        sds = check_values(list(errors))
        if sds.min() < 0:
            raise InputError(
                f"standard errors must be at least 0, got {sds.min():g}",
                hint="give the standard error of each mean loss",
            )
        middle_size, middle_tokens = math.exp(np.log(N).mean()), math.exp(np.log(D).mean())
        return cls(
            N / middle_size, D / middle_tokens, rows, np.maximum(sds, SMALLEST_ERROR), middle_size, middle_tokens
        )

    def solve(self, alpha: Array, beta: Array, losses: Array) -> tuple[Array, Array]:
        """Return χ² with the priors, (laws, exponents), and the best non-negative coefficients, (laws, exponents, 3).

        The coefficients are E and the two terms at the geometric means of sizes and tokens.
        """
        ones = np.ones((alpha.size, self.sizes.size))
        terms = [ones, self.sizes ** -alpha[:, None], self.tokens ** -beta[:, None]]
        design = np.stack(terms, axis=-1) / self.errors[:, None]  # (exponents, points, 3)
        split = 1 / max(float(np.ptp(self.losses[0])), SMALLEST_ERROR)
        gram = design.transpose(0, 2, 1) @ design
        gram += split**2 * np.outer((0.0, 1.0, -1.0), (0.0, 1.0, -1.0))
        gram += _RIDGE * np.trace(gram, axis1=1, axis2=2)[:, None, None] * np.eye(3)
        scaled = losses / self.errors
        moments = design.transpose(0, 2, 1) @ scaled.T  # (exponents, 3, laws)
        squares = (scaled**2).sum(axis=1)
        chi_squares = np.full((alpha.size, len(losses)), np.inf)
        coefficients = np.zeros_like(moments)
        for chosen in _SUBSETS:
            pairs = np.outer(chosen, chosen)
            # Ones on the diagonal make the matrix invertible; the coefficients that are not chosen are then set to 0.
            inverse = np.linalg.inv(np.where(pairs, gram, np.eye(3)))
            found = np.where(pairs, inverse, 0.0) @ moments
            left = squares - (found * moments).sum(axis=1)
            better = (found >= 0).all(axis=1) & (left < chi_squares)
            chi_squares = np.where(better, left, chi_squares)
            coefficients = np.where(better[:, None], found, coefficients)
        prior = (alpha - _PUBLISHED[0]) ** 2 + (beta - _PUBLISHED[1]) ** 2
        return chi_squares.T + prior / _PRIOR_SD**2, np.moveaxis(coefficients, 2, 0)


def _refined_exponents(problem: _Problem) -> tuple[float, float]:
    """Return the best exponents of the first row: a coarse grid, then ever smaller ones around its best point."""
    alpha_grid = beta_grid = np.linspace(*_BOUNDS, _COARSE)
    step = (_BOUNDS[1] - _BOUNDS[0]) / (_COARSE - 1)
    for _ in range(_REFINEMENTS):
        alpha, beta = (grid.ravel() for grid in np.meshgrid(alpha_grid, beta_grid, indexing="ij"))
        best = int(problem.solve(alpha, beta, problem.losses[:1])[0][0].argmin())
        step /= 2
        around = step * np.arange(-3, 4)
        alpha_grid, beta_grid = (np.clip(center + around, *_BOUNDS) for center in (alpha[best], beta[best]))
    return float(alpha[best]), float(beta[best])
