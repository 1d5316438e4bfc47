"""Forecast the difference in loss between an arm and its baseline at a larger model size.

Every family of `families` is fitted to the paired mean differences of a ladder, and the families are averaged with
AICc weights. The distribution of the forecast is a mixture over families and resamples of seeds:

    prediction  +  misfit  +  (resampled prediction − prediction) · c · √(ν / χ²_ν)  +  normal(0, σ)

√(ν / χ²_ν) gives the resamples the tails of Student's t, with ν one less than the fewest seeds of a point. Where no
family fits within the noise, c is above 1, and the misfit carries the residual at the largest rung over to the target.

σ covers truths outside all families. It grows with the log distance from the largest rung to the target, in
proportion to how much the difference changes along the ladder, and to the misfit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special  # type: ignore[import-untyped,unused-ignore]

from attnlab.errors import SpecError
from attnlab.statistics.checking import check_positive, check_share
from attnlab.statistics.forecasts.families import (
    FAMILIES,
    Baseline,
    FamilyFit,
    fit_family,
    lack_of_fit,
    small_sample_weights,
)
from attnlab.statistics.forecasts.ladders import Ladder, Resamples, resample
from attnlab.statistics.forecasts.loss_law import LossLaw, LossLaws, fit_loss_laws
from attnlab.statistics.paired import Interval, mean_interval

Array = NDArray[np.float64]

# σ at one e-fold beyond the largest rung, in units of the change of the difference per e-fold along the ladder: the
# smallest multiple of 0.1 with which the 90 % intervals cover every single family in at least 88 % of the ladders, one
# and two rungs ahead, in
#   python -c "from attnlab.statistics import simulate_forecasts; print(simulate_forecasts())"
SYSTEMATIC = 0.3

_STRATA = 8  # quantiles of χ²_ν that stretch each resample
_LARGEST_LOG_FACTOR = math.log(1e6)  # an effective size or number of tokens beyond this is inf, or 0


@dataclass(frozen=True)
class Forecast:
    """The forecast difference in loss, arm − baseline, in nats.

    `probability_above` is the probability of a difference above 0. `weights` holds the weight of each family.
    `distance` is ln(target_size / largest size). `naive` is the difference at the largest point with its own
    t-interval: the forecast of the rule that the difference at the largest rung also holds above it. `effective_size`
    and `effective_tokens` are the arm's factors κ and τ at the largest point.
    """

    target_size: float
    target_tokens: float
    mean: float
    low: float
    high: float
    level: float
    probability_above: float
    weights: Mapping[str, float]
    distance: float
    naive: Interval
    effective_size: Interval
    effective_tokens: Interval


@dataclass(frozen=True)
class LadderFit:
    """The families fitted to one ladder and to its resamples. The first row of everything is the data themselves.

    `inflation` is above 1 where no family fits within the noise, and multiplies the spread of the resamples.
    """

    ladder: Ladder
    resamples: Resamples
    laws: LossLaws
    fits: tuple[FamilyFit, ...]
    weights: Array  # (families,)
    inflation: float

    @property
    def change(self) -> float:
        """Return how much the difference changes along the ladder, in nats per e-fold of size.

        It is a ratio of standard deviations over points, so it also counts changes that are not monotonic, and noise.
        """
        return float(self.resamples.differences[0].std() / np.log(self.ladder.sizes).std())

    @property
    def law(self) -> LossLaw:
        """Return the baseline's law."""
        return self.laws.law(0)

    def forecast(
        self, target_size: float, target_tokens: float | None = None, *, level: float = 0.9, widening: float = 1.0
    ) -> Forecast:
        """Forecast the difference at the target; without `target_tokens`, with the tokens per parameter of the largest.

        `widening` multiplies the distances of `low` and `high` from the mean. No arm is forecast to fall below the
        irreducible loss, where a growing advantage would lead it.
        """
        largest = self.ladder.largest
        _check_target(target_size, largest.size, level, widening)
        tokens = largest.tokens / largest.size * target_size if target_tokens is None else target_tokens
        check_positive("number of tokens", tokens)
        predictions = np.stack([fit.predict(target_size, tokens) for fit in self.fits])  # (families, rows)
        distance = math.log(target_size / largest.size)
        misfit = self._misfit()
        least = -float(self.laws.reducible(target_size, tokens).max())
        predictions = np.maximum(predictions + misfit[:, None], least)
        mean = float(self.weights @ predictions[:, 0])
        centers = mean + widening * (self._draws(predictions, self.inflation) - mean)
        # One rung ahead, the misfit is as uncertain as it is large.
        unfitted = math.sqrt(float(self.weights @ misfit**2)) * distance / self._spacing()
        systematic = math.hypot(SYSTEMATIC * distance * self.change, unfitted)
        mixture = _Mixture.of(centers, self.weights, widening * systematic)
        return Forecast(
            target_size=float(target_size),
            target_tokens=float(tokens),
            mean=mean,
            low=min(mean, max(least, mixture.quantile((1 - level) / 2))),
            high=max(mean, mixture.quantile((1 + level) / 2)),
            level=level,
            probability_above=1 - mixture.below(0.0),
            weights={fit.family.name: float(weight) for fit, weight in zip(self.fits, self.weights, strict=True)},
            distance=distance,
            naive=mean_interval(largest.differences.tolist(), level),
            effective_size=self._effective("size", level),
            effective_tokens=self._effective("tokens", level),
        )

    def _misfit(self) -> Array:
        """Return the part of each family's residual at the largest point that is not noise, (families,).

        With lack of fit c, the share of the residuals' variance beyond the noise is 1 − 1 / c².
        """
        largest = self.ladder.largest
        fitted = np.array([fit.predict(largest.size, largest.tokens)[0] for fit in self.fits])
        residuals = self.resamples.differences[0, self.ladder.points.index(largest)] - fitted
        return np.asarray((1 - 1 / self.inflation**2) * residuals)

    def _spacing(self) -> float:
        """Return the log distance between the two largest rungs."""
        below, largest = sorted({math.log(point.size) for point in self.ladder.points})[-2:]
        return largest - below

    def _draws(self, predictions: Array, inflation: float = 1.0) -> Array:
        """Return the resampled predictions with the tails of Student's t, (families, resamples · strata)."""
        degrees = min(len(point.arm) for point in self.ladder.points) - 1
        quantiles = special.chdtri(degrees, (np.arange(_STRATA) + 0.5) / _STRATA)
        stretch = inflation * np.sqrt(degrees / quantiles)
        center = predictions[:, :1, None]
        return np.asarray((center + (predictions[:, 1:, None] - center) * stretch).reshape(len(predictions), -1))

    def _effective(self, kind: str, level: float) -> Interval:
        """Return κ or τ at the largest point, with its interval over resamples, calculated for the logarithm.

        It is inf for a loss that no size or number of tokens reaches, and 0 for a higher loss if the law does not
        depend on them.
        """
        largest, laws = self.ladder.largest, self.laws
        if kind == "size":
            exponents, terms = laws.size_exponent, laws.size_coefficient * largest.size**-laws.size_exponent
        else:
            exponents, terms = laws.token_exponent, laws.token_coefficient * largest.tokens**-laws.token_exponent
        differences = self.resamples.differences[:, self.ladder.points.index(largest)]
        with np.errstate(divide="ignore", invalid="ignore"):  # a term may be 0, and a loss out of reach
            logs = -np.log(np.maximum(1 + differences / terms, 0.0)) / exponents
        logs = np.clip(np.nan_to_num(logs, nan=0.0), -_LARGEST_LOG_FACTOR, _LARGEST_LOG_FACTOR)
        low, high = np.quantile(self._draws(logs[None]), [(1 - level) / 2, (1 + level) / 2])
        return Interval(*(_factor(value) for value in (logs[0], min(low, logs[0]), max(high, logs[0]))))


def fit_ladder(ladder: Ladder, *, resamples: int = 400, seed: int = 0) -> LadderFit:
    """Fit the baseline's law and every family to a ladder of at least 3 model sizes, and to resamples of its seeds."""
    ladder.check_rungs()
    drawn = resample(ladder, resamples, seed)
    laws = fit_loss_laws(ladder.sizes, ladder.tokens, drawn.baseline, drawn.baseline_errors)
    baseline = Baseline(laws, float(np.exp(np.log(ladder.sizes).mean())), float(ladder.tokens.min()))
    fits = tuple(
        fit_family(family, baseline, ladder.sizes, ladder.tokens, drawn.differences, drawn.difference_errors)
        for family in FAMILIES
    )
    chi_squares = np.array([fit.chi_square[0] for fit in fits])
    parameters = np.array([fit.family.parameters for fit in fits])
    inflation = lack_of_fit(chi_squares, parameters, len(ladder.points))
    count = sum(len(point.arm) for point in ladder.points)
    weights = small_sample_weights(chi_squares / inflation**2, parameters, count)
    return LadderFit(ladder, drawn, laws, fits, weights, inflation)


def forecast(
    ladder: Ladder,
    target_size: float,
    target_tokens: float | None = None,
    *,
    level: float = 0.9,
    widening: float = 1.0,
    resamples: int = 400,
    seed: int = 0,
) -> Forecast:
    """Forecast the difference in loss, arm − baseline, at `target_size` parameters. See `LadderFit.forecast`.

    Parameters
    ----------
    ladder
        Differences at several sizes.
    target_size
        Parameters of the model to forecast.
    target_tokens
        Its training tokens; None continues the ladder's ratio.
    level
        The confidence level of intervals, such as 0.95.
    widening
        The factor that intervals are widened by.
    resamples
        Bootstrap samples.
    seed
        The random seed; the same seed gives the same result.
    """
    _check_target(target_size, ladder.largest.size, level, widening)
    fitted = fit_ladder(ladder, resamples=resamples, seed=seed)
    return fitted.forecast(target_size, target_tokens, level=level, widening=widening)


@dataclass(frozen=True)
class _Mixture:
    """Sorted weighted draws, with the cumulative weight up to the middle of each."""

    values: Array
    shares: Array

    @classmethod
    def of(cls, draws: Array, weights: Array, sd: float) -> _Mixture:
        """Add normal noise to draws of shape (families, draws), each family with its weight.

        The noise of a family is evenly spaced quantiles in a fixed random order, so that nothing depends on chance.
        """
        quantiles = special.ndtri((np.arange(draws.shape[1]) + 0.5) / draws.shape[1])
        noise = np.random.default_rng(0).permuted(np.tile(quantiles, (len(draws), 1)), axis=1)
        values = (draws + sd * noise).ravel()
        each = np.repeat(weights / draws.shape[1], draws.shape[1])
        order = values.argsort(kind="stable")
        return cls(values[order], np.cumsum(each[order]) - each[order] / 2)

    def quantile(self, share: float) -> float:
        """Return the value below which this share lies."""
        return float(np.interp(share, self.shares, self.values))

    def below(self, value: float) -> float:
        """Return the probability of a smaller value; one half where all draws equal the value."""
        places = np.searchsorted(self.values, value, "left"), np.searchsorted(self.values, value, "right")
        ends = np.concatenate(([0.0], self.shares, [1.0]))
        return float(np.mean([(ends[place] + ends[place + 1]) / 2 for place in places]))


def _check_target(target_size: float, largest: float, level: float, widening: float) -> None:
    check_share("level", level)
    check_positive("target size", target_size)
    check_positive("widening", widening)
    if target_size < largest:
        raise SpecError(
            f"target_size must be at least the largest size of the ladder, {largest:g}, got {target_size:g}",
            hint="give a larger target, or leave out the rungs above it",
        )


def _factor(log_factor: float) -> float:
    if abs(log_factor) >= _LARGEST_LOG_FACTOR:
        return math.inf if log_factor > 0 else 0.0
    return math.exp(log_factor)
