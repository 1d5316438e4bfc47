"""The accuracy of forecasts: on the largest rung of real ladders, and on simulated ladders with known truth.

The back-test hides the largest rung of every ladder, forecasts it, and compares with the observed difference. The
observed mean has its own noise. An interval for it reaches √(h² + o²) from the forecast, where h is the forecast's
distance to its bound and o is half the t-interval of the observed mean.

The truth of a simulated arm comes from one of the families of `families`, or from a crossover that none of them
contains: a smooth step in log N that changes sign, or a bump. Losses of one seed share a common part between arm and
baseline, so their difference varies less than the losses.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attnlab.errors import InputError, SpecError
from attnlab.statistics.checking import check_share
from attnlab.statistics.forecasts.families import FAMILIES
from attnlab.statistics.forecasts.forecast import Forecast, fit_ladder, forecast
from attnlab.statistics.forecasts.ladders import Ladder, LadderPoint
from attnlab.statistics.forecasts.loss_law import LossLaw
from attnlab.statistics.paired import Interval, mean_interval
from attnlab.statistics.samples import clopper_pearson
from attnlab.statistics.trends import trend

CROSSOVERS = ("step", "bump")
INSIDE, OUTSIDE = "all families", "all crossovers"

_FEWEST_RUNGS = 4  # of a back-test: one is hidden
_SMALLEST = 16_000  # parameters of a simulated ladder
_TOKENS_PER_PARAMETER = 50
_ALPHA = 0.05  # of the trend
_RESAMPLES = 200

Truth = Callable[[float, float], float]  # from size and tokens to the difference in nats


@dataclass(frozen=True)
class BacktestArm:
    """One arm's forecast of its largest rung, the observed difference, and the intervals for the observed mean."""

    name: str
    forecast: Forecast
    observed: Interval
    interval: Interval
    naive: Interval
    needed: float

    @property
    def is_covered(self) -> bool:
        return _holds(self.interval, self.observed.mean)

    @property
    def is_naive_covered(self) -> bool:
        return _holds(self.naive, self.observed.mean)


@dataclass(frozen=True)
class Backtest:
    """How well forecasts and the naive rule predict the largest rung, each share with its Clopper–Pearson interval.

    `sign` is the share of arms whose sign is right. `ranking` is the share of pairs of arms in the right order; the
    pairs share arms, so its interval is too narrow. `widening` is the factor that brings the coverage of the forecasts
    to their level, at least 1.
    """

    arms: tuple[BacktestArm, ...]
    level: float
    coverage: Interval
    naive_coverage: Interval
    sign: Interval
    naive_sign: Interval
    ranking: Interval
    naive_ranking: Interval
    widening: float


def backtest(ladders: Sequence[Ladder], *, level: float = 0.9, resamples: int = 400, seed: int = 0) -> Backtest:
    """Forecast the largest rung of every ladder, one per arm and at least 4 sizes each, from the rungs below it.

    Parameters
    ----------
    ladders
        Ladders of differences, one per arm.
    level
        The confidence level of intervals, such as 0.95.
    resamples
        Bootstrap samples.
    seed
        The random seed; the same seed gives the same result.
    """
    check_share("level", level)
    if not ladders:
        raise InputError("a back-test needs at least one ladder, got none", hint="give one ladder per arm")
    arms = tuple(_backtest_arm(ladder, level, resamples, seed) for ladder in ladders)
    pairs = [
        (one, other)
        for one, other in itertools.combinations(arms, 2)
        if one.forecast.target_size == other.forecast.target_size
    ]
    return Backtest(
        arms=arms,
        level=level,
        coverage=_share(arm.is_covered for arm in arms),
        naive_coverage=_share(arm.is_naive_covered for arm in arms),
        sign=_share(arm.forecast.mean * arm.observed.mean > 0 for arm in arms),
        naive_sign=_share(arm.naive.mean * arm.observed.mean > 0 for arm in arms),
        ranking=_share(
            (one.forecast.mean - other.forecast.mean) * (one.observed.mean - other.observed.mean) > 0
            for one, other in pairs
        ),
        naive_ranking=_share(
            (one.naive.mean - other.naive.mean) * (one.observed.mean - other.observed.mean) > 0 for one, other in pairs
        ),
        widening=_widening([arm.needed for arm in arms], level),
    )


def _backtest_arm(ladder: Ladder, level: float, resamples: int, seed: int) -> BacktestArm:
    ladder.check_rungs(_FEWEST_RUNGS)
    hidden = ladder.largest
    made = forecast(ladder.below_largest(), hidden.size, hidden.tokens, level=level, resamples=resamples, seed=seed)
    observed = mean_interval(hidden.differences.tolist(), level)
    noise = observed.high - observed.mean
    error = observed.mean - made.mean
    half = made.high - made.mean if error > 0 else made.mean - made.low
    beyond = math.sqrt(max(0.0, error**2 - noise**2))
    needed = beyond / half if half > 0 else math.inf if beyond > 0 else 0.0
    return BacktestArm(
        name=ladder.name,
        forecast=made,
        observed=observed,
        interval=_with_noise(Interval(made.mean, made.low, made.high), noise),
        naive=_with_noise(made.naive, noise),
        needed=needed,
    )


def _with_noise(interval: Interval, noise: float) -> Interval:
    """Return the interval with noise added to each of its sides in quadrature."""
    mean = interval.mean
    return Interval(mean, mean - math.hypot(mean - interval.low, noise), mean + math.hypot(interval.high - mean, noise))


def _holds(interval: Forecast | Interval, value: float) -> bool:
    return interval.low <= value <= interval.high


def _share(outcomes: Iterable[bool]) -> Interval:
    listed = list(outcomes)
    return clopper_pearson(sum(listed), len(listed))


def _widening(needed: Sequence[float], level: float) -> float:
    """Return the quantile of the needed widenings that covers one more arm like these with the level's probability.

    With n arms it is the ⌈level · (n + 1)⌉-th smallest (split conformal prediction), or the largest of too few arms.
    """
    place = min(len(needed), math.ceil(level * (len(needed) + 1)))
    return max(1.0, sorted(needed)[place - 1])


@dataclass(frozen=True)
class SimulatedLadder:
    """A ladder, the true difference behind it, and the sizes of the rungs above it."""

    ladder: Ladder
    truth: Truth
    factor: float

    def rung_above(self, ahead: int) -> tuple[float, float]:
        """Return size and tokens so many rungs above the largest."""
        size = self.ladder.largest.size * self.factor**ahead
        return size, size * _TOKENS_PER_PARAMETER


@dataclass(frozen=True)
class ForecastCheck:
    """The accuracy of forecasts for one kind of truth, a number of rungs ahead.

    `coverage` is the share of intervals that contain the true difference, and `sign` the share of forecasts of the
    right sign. `width` is the median width of the intervals in nats. The other fields are the same for the naive rule.
    """

    truth: str
    ahead: int
    ladders: int
    coverage: Interval
    sign: Interval
    width: float
    naive_coverage: Interval
    naive_sign: Interval
    naive_width: float


@dataclass(frozen=True)
class SimulatedForecasts:
    """The checks of every kind of truth and distance, and the false-positive rate of the trend over null arms."""

    level: float
    checks: tuple[ForecastCheck, ...]
    trend_false_positives: Interval

    @property
    def distances(self) -> tuple[int, ...]:
        """Return how many rungs ahead was forecast, ascending."""
        return tuple(sorted({check.ahead for check in self.checks}))

    def check(self, truth: str, ahead: int) -> ForecastCheck:
        """Return the check of one kind of truth and distance."""
        for check in self.checks:
            if (check.truth, check.ahead) == (truth, ahead):
                return check
        known = ", ".join(sorted({check.truth for check in self.checks}))
        raise SpecError(f"no check of {truth!r}, {ahead} rungs ahead", hint=f"known kinds of truth: {known}")

    def __str__(self) -> str:
        """Return a table of the checks."""
        lines = [f"{'truth':<16} {'ahead':>5} {'ladders':>7} {'coverage':>8} {'sign':>6} {'width':>7}   naive rule"]
        for check in self.checks:
            lines.append(
                f"{check.truth:<16} {check.ahead:>5} {check.ladders:>7} {check.coverage.mean:>8.3f} "
                f"{check.sign.mean:>6.3f} {check.width:>7.4f}   {check.naive_coverage.mean:.3f} "
                f"{check.naive_sign.mean:.3f} {check.naive_width:.4f}"
            )
        false = self.trend_false_positives
        lines.append(f"false positives of the trend: {false.mean:.3f} ({false.low:.3f} … {false.high:.3f})")
        return "\n".join(lines)


def simulate_ladder(kind: str, rng: np.random.Generator) -> SimulatedLadder:
    """Return a ladder of 3 to 5 rungs and 4 to 8 seeds whose truth is of this kind: a family, a crossover or "null".

    Parameters
    ----------
    kind
        The kind of truth.
    rng
        The generator of random numbers.
    """
    factor, rungs = rng.uniform(2, 2.5), int(rng.integers(3, 6))
    sizes = [round(_SMALLEST * factor**rung) for rung in range(rungs)]
    law = _draw_law(rng)
    truth = _draw_truth(kind, law, sizes, rng)
    places = [(size, size * _TOKENS_PER_PARAMETER) for size in sizes]
    places += [(size, tokens // 2) for size, tokens in places[:-1]]  # half the tokens at all but the largest rung
    seeds = int(rng.integers(4, 9))
    paired_sd, common_sd, kept = rng.uniform(0.005, 0.02), rng.uniform(0.01, 0.03), rng.uniform(0, 0.3)
    of_seed = rng.normal(size=seeds)  # the part of a seed's difference that is the same at every point
    points = []
    for size, tokens in places:
        shrink = (size / _SMALLEST) ** -0.25
        noise = math.sqrt(kept) * of_seed + math.sqrt(1 - kept) * rng.normal(size=seeds)
        baseline = law.loss(size, tokens) + shrink * common_sd * rng.normal(size=seeds)
        arm = baseline + truth(size, tokens) + shrink * paired_sd * noise
        points.append(LadderPoint(size, tokens, tuple(baseline.tolist()), tuple(arm.tolist())))
    return SimulatedLadder(Ladder(tuple(points), kind), truth, factor)


def simulate_forecasts(
    ladders: int = 1000, ahead: Sequence[int] = (1, 2), seed: int = 0, *, level: float = 0.9
) -> SimulatedForecasts:
    """Measure forecasts on `ladders` ladders with a truth inside the families, and on a quarter as many crossovers.

    The trend is measured on as many null arms as there are ladders inside the families.

    Parameters
    ----------
    ladders
        How many ladders.
    ahead
        How many rungs ahead is forecast.
    seed
        The random seed; the same seed gives the same result.
    level
        The confidence level of intervals, such as 0.95.
    """
    if ladders < len(FAMILIES):
        raise SpecError(f"ladders must be at least {len(FAMILIES)}, got {ladders}", hint="use 1000")
    rng = np.random.default_rng(seed)
    inside = [FAMILIES[number % len(FAMILIES)].name for number in range(ladders)]
    outside = [CROSSOVERS[number % len(CROSSOVERS)] for number in range(max(len(CROSSOVERS), ladders // 4))]
    outcomes = [
        outcome for kind in (*inside, *outside) for outcome in _outcomes(simulate_ladder(kind, rng), ahead, level)
    ]
    groups = {INSIDE: {*inside}, **{family.name: {family.name} for family in FAMILIES}}
    groups |= {OUTSIDE: {*CROSSOVERS}, **{kind: {kind} for kind in CROSSOVERS}}
    checks = [
        _check(name, steps, [one for one in outcomes if one.ahead == steps and one.kind in kinds])
        for steps in ahead
        for name, kinds in groups.items()
    ]
    found = sum(_null_trend(rng) < _ALPHA for _ in range(ladders))
    return SimulatedForecasts(level, tuple(checks), clopper_pearson(found, ladders))


@dataclass(frozen=True)
class _Outcome:
    """One forecast of a simulated ladder, and the true difference."""

    kind: str
    ahead: int
    made: Forecast
    true: float


def _outcomes(simulated: SimulatedLadder, ahead: Sequence[int], level: float) -> Iterator[_Outcome]:
    fitted = fit_ladder(simulated.ladder, resamples=_RESAMPLES)
    for steps in ahead:
        at = simulated.rung_above(steps)
        yield _Outcome(simulated.ladder.name, steps, fitted.forecast(*at, level=level), float(simulated.truth(*at)))


def _check(name: str, ahead: int, outcomes: Sequence[_Outcome]) -> ForecastCheck:
    ours, naive = [(one.made, one.true) for one in outcomes], [(one.made.naive, one.true) for one in outcomes]
    return ForecastCheck(name, ahead, len(outcomes), *_coverage_sign_width(ours), *_coverage_sign_width(naive))


def _coverage_sign_width(found: Sequence[tuple[Forecast | Interval, float]]) -> tuple[Interval, Interval, float]:
    """Return the shares of intervals that hold the truth and of means of its sign, and the median width."""
    return (
        _share(_holds(one, true) for one, true in found),
        _share(one.mean * true > 0 for one, true in found),
        float(np.median([one.high - one.low for one, _ in found])),
    )


def _null_trend(rng: np.random.Generator) -> float:
    """Return the p of the trend of one null arm, over the points with all tokens."""
    points = [
        point
        for point in simulate_ladder("null", rng).ladder.points
        if point.tokens == point.size * _TOKENS_PER_PARAMETER
    ]
    return trend([point.differences.tolist() for point in points], [point.size for point in points]).p


def _draw_law(rng: np.random.Generator) -> LossLaw:
    """Return a law with losses of about 2.0 at the smallest rung and 1.6 at eight times its size."""
    alpha, beta, split = rng.uniform(0.25, 0.45), rng.uniform(0.2, 0.4), rng.uniform(0.3, 0.7)
    first = rng.normal(2.0, 0.05)
    reducible = rng.normal(0.4, 0.03) / (1 - split * 8**-alpha - (1 - split) * 8**-beta)
    tokens = _SMALLEST * _TOKENS_PER_PARAMETER
    return LossLaw(
        max(0.0, first - reducible),
        split * reducible * _SMALLEST**alpha,
        alpha,
        (1 - split) * reducible * tokens**beta,
        beta,
    )


def _draw_truth(kind: str, law: LossLaw, sizes: Sequence[int], rng: np.random.Generator) -> Truth:
    """Return a true difference of this kind, of a size that a study of attention variants meets."""
    middle = math.exp(np.log(sizes).mean())
    log_factor, drift, sign = rng.normal(0, 0.35), rng.normal(0, 0.15), rng.choice((-1.0, 1.0))
    if kind in ("size", "drifting size"):
        gamma = drift if kind == "drifting size" else 0.0
        return lambda N, D: law.loss(N * math.exp(log_factor) * (N / middle) ** gamma, D) - law.loss(N, D)
    if kind in ("tokens", "drifting tokens"):
        gamma = drift if kind == "drifting tokens" else 0.0
        return lambda N, D: law.loss(N, D * math.exp(log_factor) * (N / middle) ** gamma) - law.loss(N, D)
    if kind == "onset":
        lost = rng.uniform(-0.3, 0.6) * _SMALLEST * _TOKENS_PER_PARAMETER / 2
        return lambda N, D: law.loss(N, D - lost) - law.loss(N, D)
    if kind in ("vanishing", "growing"):
        vanishes = kind == "vanishing"
        amplitude = sign * (rng.uniform(0.01, 0.08) if vanishes else rng.uniform(0.005, 0.03))
        exponent = -rng.uniform(0.2, 1.0) if vanishes else rng.uniform(0.1, 0.6)
        return lambda N, _D: amplitude * (N / _SMALLEST) ** exponent
    amplitude = 0.0 if kind == "null" else rng.normal(0, 0.03)
    if kind in ("constant", "null"):
        return lambda _N, _D: amplitude
    return _draw_crossover(kind, sizes, sign * rng.uniform(0.02, 0.06), rng)


def _draw_crossover(kind: str, sizes: Sequence[int], amplitude: float, rng: np.random.Generator) -> Truth:
    """Return a step through 0 or a bump, somewhere from the second rung to one rung above the largest."""
    spacing = math.log(sizes[1] / sizes[0])
    center, width = rng.uniform(math.log(sizes[1]), math.log(sizes[-1]) + spacing), rng.uniform(0.5, 1.5)
    if kind == "step":
        return lambda N, _D: amplitude * math.tanh((math.log(N) - center) / width)
    if kind == "bump":
        return lambda N, _D: amplitude * math.exp(-(((math.log(N) - center) / width) ** 2) / 2)
    raise SpecError(f"no simulated truth is called {kind!r}", hint=f"use a family, {', '.join(CROSSOVERS)} or null")
