"""Forecasts: exact without noise for every family, the same from the same seed, and clear about what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

import attnlab.statistics
from attnlab.errors import InputError, SpecError
from attnlab.statistics import (
    Forecast,
    Ladder,
    LadderPoint,
    LossLaw,
    backtest,
    fit_ladder,
    forecast,
    mean_interval,
    simulate_ladder,
    trend,
)
from attnlab.statistics.forecasts.accuracy import _widening
from attnlab.statistics.forecasts.families import FAMILIES, small_sample_weights
from attnlab.statistics.forecasts.ladders import resample

LAW = LossLaw(1.1, 12.0, 0.34, 20.0, 0.28)
SIZES = (16e3, 32e3, 64e3, 128e3)
MIDDLE = math.exp(float(np.log([*SIZES, *SIZES[:3]]).mean()))
Truth = Callable[[float, float], float]

TRUTHS: dict[str, Truth] = {
    "size": lambda N, D: LAW.loss(0.7 * N, D) - LAW.loss(N, D),
    "drifting size": lambda N, D: LAW.loss(0.9 * N * (N / MIDDLE) ** 0.23, D) - LAW.loss(N, D),
    "tokens": lambda N, D: LAW.loss(N, 1.4 * D) - LAW.loss(N, D),
    "drifting tokens": lambda N, D: LAW.loss(N, 0.8 * D * (N / MIDDLE) ** -0.17) - LAW.loss(N, D),
    "onset": lambda N, D: LAW.loss(N, D - 170e3) - LAW.loss(N, D),
    "vanishing": lambda N, _D: -0.05 * (N / 16e3) ** -0.71,
    "growing": lambda N, _D: 0.01 * (N / 16e3) ** 0.37,
    "constant": lambda _N, _D: 0.02,
}


def ladder_of(
    truth: Truth, noise: float = 0.0, sizes: Sequence[float] = SIZES, seeds: int = 5, seed: int = 0
) -> Ladder:
    """Return a ladder with 50 tokens per parameter, and half of them at all but the largest rung."""
    rng = np.random.default_rng(seed)
    points = []
    for size, tokens in [(N, 50 * N) for N in sizes] + [(N, 25 * N) for N in sizes[:-1]]:
        baseline = LAW.loss(size, tokens) + noise * rng.normal(size=seeds)
        arm = baseline + truth(size, tokens) + noise * rng.normal(size=seeds)
        points.append(LadderPoint(size, tokens, tuple(baseline.tolist()), tuple(arm.tolist())))
    return Ladder(tuple(points), "an arm")


def numbers(found: Forecast) -> list[float]:
    return [found.mean, found.low, found.high, found.probability_above, *found.weights.values()]


@pytest.mark.parametrize("name", TRUTHS)
def test_every_family_is_recovered_without_noise(name: str) -> None:
    found = forecast(ladder_of(TRUTHS[name]), 512e3, resamples=20)
    assert found.target_tokens == 50 * 512e3
    assert found.mean == pytest.approx(TRUTHS[name](512e3, 50 * 512e3), abs=3e-4)
    # A constant factor in size is also a difference that vanishes with the law's own exponent.
    nested = {"size": ("drifting size", "vanishing"), "tokens": ("drifting tokens",)}.get(name, ())
    assert sum(found.weights[of] for of in (name, *nested)) > 0.99
    assert all(found.weights[name] > found.weights[of] for of in nested)
    assert sum(found.weights.values()) == pytest.approx(1)
    assert found.low <= found.mean <= found.high


def test_every_family_has_a_truth_here() -> None:
    assert [family.name for family in FAMILIES] == list(TRUTHS)


def test_effective_size_and_tokens_of_the_arm() -> None:
    fewer = forecast(ladder_of(TRUTHS["size"]), 256e3, resamples=20)
    assert fewer.effective_size.mean == pytest.approx(0.7, abs=0.02)
    more = forecast(ladder_of(TRUTHS["tokens"], noise=0.003), 256e3)
    low, high = more.effective_tokens.low, more.effective_tokens.high
    assert 0.9 < low < more.effective_tokens.mean < high < 3
    far = forecast(ladder_of(lambda _N, _D: -1.5), 256e3, resamples=20)
    assert far.effective_size.mean == far.effective_tokens.high == math.inf


def test_no_arm_is_forecast_below_the_irreducible_loss() -> None:
    growing = ladder_of(lambda N, _D: -0.002 * (N / 16e3) ** 0.9, noise=0.001)  # −5 nats at the target
    found = forecast(growing, 100e6, 5e9)
    possible = LAW.irreducible - LAW.loss(100e6, 5e9)
    assert (found.low, found.mean) == pytest.approx((possible, possible), rel=0.1)


def test_naive_rule_and_distance() -> None:
    ladder = ladder_of(TRUTHS["growing"], noise=0.01)
    found = forecast(ladder, 256e3, level=0.8, resamples=20)
    assert found.naive == mean_interval(ladder.points[3].differences.tolist(), 0.8)
    assert found.distance == pytest.approx(math.log(2))
    assert forecast(ladder, 128e3, resamples=20).distance == 0


def test_the_same_seed_gives_the_same_forecast() -> None:
    ladder = ladder_of(TRUTHS["size"], noise=0.01)
    first, again, other = (forecast(ladder, 256e3, resamples=50, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert numbers(first) != numbers(other)
    assert first.mean == other.mean  # of the data themselves


def test_order_of_the_points_does_not_matter() -> None:
    ladder = ladder_of(TRUTHS["drifting size"], noise=0.01)
    turned = replace(ladder, points=ladder.points[::-1])
    assert numbers(forecast(turned, 256e3)) == pytest.approx(numbers(forecast(ladder, 256e3)), abs=1e-3)


def test_swapped_groups_change_the_sign() -> None:
    ladder = ladder_of(lambda _N, _D: 0.02, noise=0.004)
    mirrored = [replace(p, arm=tuple(2 * np.array(p.baseline) - p.arm)) for p in ladder.points]
    ours, theirs = forecast(ladder, 256e3), forecast(Ladder(tuple(mirrored)), 256e3)
    assert ours.low > 0 > theirs.high
    assert ours.probability_above > 0.99
    assert theirs.probability_above < 0.01


def test_no_difference_is_as_likely_above_as_below() -> None:
    found = forecast(ladder_of(lambda _N, _D: 0.0), 256e3, resamples=20)
    assert found.mean == pytest.approx(0, abs=1e-6)
    assert found.probability_above == pytest.approx(0.5, abs=0.01)


def test_intervals_grow_with_noise_level_distance_and_widening() -> None:
    quiet = fit_ladder(ladder_of(TRUTHS["drifting size"], noise=0.002))
    noisy = fit_ladder(ladder_of(TRUTHS["drifting size"], noise=0.01))

    def width(found: Forecast) -> float:
        return found.high - found.low

    assert width(noisy.forecast(256e3)) > width(quiet.forecast(256e3))
    assert width(quiet.forecast(512e3)) > width(quiet.forecast(256e3))
    assert width(quiet.forecast(256e3, level=0.95)) > width(quiet.forecast(256e3, level=0.8))
    once, twice = quiet.forecast(256e3), quiet.forecast(256e3, widening=2.0)
    assert (twice.mean, width(twice)) == (once.mean, pytest.approx(2 * width(once)))


def test_spread_of_resampled_means_is_that_of_the_mean() -> None:
    # Over many draws of 4 seeds, the variance of resampled means averages σ² / 4.
    ladder = ladder_of(lambda _N, _D: 0.0, noise=1.0, seeds=4)
    found = resample(ladder, 20_000, seed=0)
    for place, point in enumerate(ladder.points):
        spread = point.differences.std(ddof=1) / 2
        assert found.differences[1:, place].std() == pytest.approx(spread, rel=0.03)
        assert found.differences[0, place] == pytest.approx(point.differences.mean())


def test_seeds_are_resampled_as_a_whole() -> None:
    ladder = ladder_of(lambda _N, _D: 0.0, noise=0.01)
    first = ladder.points[0]
    shifted = [replace(first, size=size, tokens=50 * size, seeds=(4, 3, 2, 1, 0)) for size in SIZES]
    same = resample(Ladder(tuple(shifted)), 50, seed=0).differences
    assert np.ptp(same, axis=1) == pytest.approx(0)  # the seeds that all points share have one weight
    fewer = replace(shifted[3], baseline=first.baseline[1:], arm=first.arm[1:], seeds=(3, 2, 1, 0))
    assert forecast(Ladder((*shifted[:3], fewer)), 256e3, resamples=20).weights


def test_a_ladder_that_no_family_fits_is_anchored_at_its_largest_rung() -> None:
    def step(size: float, _tokens: float) -> float:
        return -0.05 if size < 100e3 else 0.05

    fit = fit_ladder(ladder_of(step, noise=0.001))
    found = fit.forecast(256e3)
    assert fit.inflation > 3
    assert found.mean > 0.03  # the families alone give less
    assert sum(w * of.predict(256e3, 12.8e6)[0] for w, of in zip(fit.weights, fit.fits, strict=True)) < 0.03
    assert found.high - found.low > 0.1
    assert fit_ladder(ladder_of(TRUTHS["growing"])).inflation == 1


def test_a_second_parameter_costs_weight() -> None:
    even = small_sample_weights(np.array([3.0, 3.0]), np.array([1, 2]), 20)
    assert even[0] / even[1] == pytest.approx(math.exp((2 + 12 / 17 - 4 / 18) / 2))
    assert small_sample_weights(np.array([30.0, 3.0]), np.array([1, 2]), 20)[1] > 0.99


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_losses_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(InputError, match="not finite"):
        LadderPoint(16e3, 8e5, (2.0, 2.1), (2.0, bad))
    with pytest.raises(SpecError, match="makes no sense"):
        LadderPoint(bad, 8e5, (2.0, 2.1), (2.0, 2.1))


def test_points_that_cannot_be_paired_are_refused() -> None:
    with pytest.raises(InputError, match="baseline needs at least 2 seeds at size 16000, got 1") as caught:
        LadderPoint(16e3, 8e5, (2.0,), (2.1,))
    assert caught.value.hint
    with pytest.raises(InputError, match="paired by seed, got 3 of the baseline and 2 of the arm") as caught:
        LadderPoint(16e3, 8e5, (2.0, 2.1, 2.2), (2.1, 2.2))
    assert caught.value.hint
    with pytest.raises(InputError, match="seeds must name each of 2 losses once"):
        LadderPoint(16e3, 8e5, (2.0, 2.1), (2.1, 2.2), seeds=(1, 1))


def test_ladders_that_cannot_be_forecast_are_refused() -> None:
    ladder = ladder_of(TRUTHS["constant"])
    with pytest.raises(SpecError, match="at least 3 model sizes, got 2") as caught:
        forecast(ladder_of(TRUTHS["constant"], sizes=SIZES[:2]), 256e3)
    assert caught.value.hint
    with pytest.raises(SpecError, match="at least the largest size of the ladder, 128000, got 64000") as caught:
        forecast(ladder, 64e3)
    assert caught.value.hint
    with pytest.raises(InputError, match="occurs twice"):
        Ladder((*ladder.points, ladder.points[0]))
    with pytest.raises(InputError, match="a ladder needs points"):
        Ladder(())
    for target, tokens in ((math.nan, None), (256e3, -1.0)):
        with pytest.raises(SpecError, match="makes no sense"):
            forecast(ladder, target, tokens)
    with pytest.raises(SpecError, match="level = 90 is not between 0 and 1"):
        forecast(ladder, 256e3, level=90)
    with pytest.raises(SpecError, match="a widening of 0 makes no sense"):
        forecast(ladder, 256e3, widening=0.0)
    with pytest.raises(SpecError, match="resamples must be at least 1, got 0"):
        forecast(ladder, 256e3, resamples=0)


def test_backtest_hides_the_largest_rung() -> None:
    names = ("size", "tokens", "growing", "constant")
    ladders = [replace(ladder_of(TRUTHS[name], noise=0.002, seed=place), name=name) for place, name in enumerate(names)]
    found = backtest(ladders, resamples=50)
    assert [arm.name for arm in found.arms] == list(names)
    for arm, ladder in zip(found.arms, ladders, strict=True):
        hidden = ladder.points[3]
        assert arm.observed == mean_interval(hidden.differences.tolist(), 0.9)
        assert (arm.forecast.target_size, arm.forecast.target_tokens) == (hidden.size, hidden.tokens)
        assert arm.forecast == forecast(ladder.below_largest(), 128e3, resamples=50)
        assert arm.naive.mean == pytest.approx(ladder.points[2].differences.mean())
        assert arm.interval.low < arm.forecast.low
        assert arm.interval.high > arm.forecast.high
    assert found.sign.mean == found.naive_sign.mean == 1
    assert found.ranking.mean > 0.8
    assert found.coverage.mean == 1
    assert found.widening == 1


def test_backtest_of_a_late_change_needs_wider_intervals() -> None:
    def late(size: float, _tokens: float) -> float:
        return 0.05 if size < 100e3 else -0.05

    found = backtest([ladder_of(late, noise=0.002, seed=seed) for seed in range(3)], resamples=50)
    assert found.coverage.mean == found.sign.mean == found.naive_sign.mean == 0
    assert found.widening > 2
    worst = max(found.arms, key=lambda arm: arm.needed)
    assert found.widening == worst.needed  # of only three arms
    half = found.widening * (worst.forecast.mean - worst.forecast.low)
    noise = worst.observed.mean - worst.observed.low
    assert math.hypot(half, noise) == pytest.approx(worst.forecast.mean - worst.observed.mean)


def test_widening_is_a_quantile_and_never_narrows() -> None:
    assert _widening([0.1, 0.2, 0.3], 0.9) == 1
    assert _widening([0.5, 3.0, 2.0], 0.5) == 2.0
    assert _widening([float(value) for value in range(1, 20)], 0.9) == 18


def test_backtests_that_cannot_be_made_are_refused() -> None:
    with pytest.raises(InputError, match="at least one ladder"):
        backtest([])
    with pytest.raises(SpecError, match="at least 4 model sizes, got 3") as caught:
        backtest([ladder_of(TRUTHS["constant"], sizes=SIZES[:3])])
    assert caught.value.hint


def test_trend_by_hand() -> None:
    # Slopes of 1, 2 and 3 per decade: the same as a t-test of these three.
    sizes = [1e4, 1e5, 1e6]
    found = trend([[0.0, 5.0, 0.0], [1.0, 7.0, 3.0], [2.0, 9.0, 6.0]], sizes)
    assert found.per_seed == pytest.approx((1.0, 2.0, 3.0))
    assert found.per_decade == mean_interval(list(found.per_seed))
    assert found.p == pytest.approx(1 - math.sqrt(12 / 14))  # t = 2 √3 with 2 degrees of freedom


def test_trends_that_cannot_be_tested_are_refused() -> None:
    rows = [[0.1, 0.2], [0.1, 0.3], [0.2, 0.3]]
    with pytest.raises(SpecError, match="a trend needs at least 3 model sizes, got 2") as caught:
        trend(rows, [1e4, 2e4, 2e4])
    assert caught.value.hint
    with pytest.raises(InputError, match="same seeds at every size, got between 1 and 2"):
        trend([[0.1], *rows[1:]], [1e4, 2e4, 4e4])
    with pytest.raises(InputError, match="one row per size, got 3 rows for 4 sizes"):
        trend(rows, [1e4, 2e4, 4e4, 8e4])
    with pytest.raises(InputError, match="too few values"):
        trend([[0.1]] * 3, [1e4, 2e4, 4e4])
    with pytest.raises(InputError, match="not finite"):
        trend([[0.1, math.nan], *rows[1:]], [1e4, 2e4, 4e4])


def test_a_simulated_ladder_can_be_backtested() -> None:
    rng = np.random.default_rng(3)
    ladders = [simulate_ladder("size", rng).ladder for _ in range(12)]
    found = backtest([ladder for ladder in ladders if len(set(ladder.sizes)) >= 4], resamples=50)
    assert found.coverage.low <= 0.9 <= found.coverage.high


def test_public_names() -> None:
    names = attnlab.statistics.__all__
    assert sorted(names) == names
    assert all(hasattr(attnlab.statistics, name) for name in names)
