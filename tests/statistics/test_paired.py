"""Paired tests and intervals against scipy.stats, against values worked by hand, and at the edges."""

from __future__ import annotations

import math
from collections.abc import Callable

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given
from scipy import stats

from attnlab.errors import InputError, SpecError
from attnlab.statistics import (
    Interval,
    Noise,
    bca_interval,
    degrees_of_freedom,
    equivalence,
    holm,
    is_noisier,
    mean_interval,
    paired_t,
    sign_flip,
)

TESTS: list[Callable[[list[float]], object]] = [
    mean_interval,
    paired_t,
    lambda values: equivalence(values, 0.1),
    sign_flip,
    bca_interval,
]
DIFFERENCES = st.lists(st.floats(-10, 10, allow_subnormal=False), min_size=2, max_size=12)
P_VALUES = st.lists(st.floats(0, 1), max_size=12)


def drawn(count: int, mean: float = 0.3) -> list[float]:
    return list(np.random.default_rng(count).normal(mean, 1.0, count))


def clearly_spread(values: list[float]) -> bool:
    """Whether rounding does not decide what spread they have."""
    return float(np.std(values)) > 1e-3


# By hand: mean 1, standard deviation 1, so a standard error of 1/√3, 2 degrees of freedom, and t = √3. For 2 degrees,
# P(T < t) = 1/2 + t / (2 √(2 + t²)).
BY_HAND = [0.0, 1.0, 2.0]


def test_t_by_hand() -> None:
    assert paired_t(BY_HAND) == pytest.approx(1 - math.sqrt(3 / 5))
    half = 4.302652729749464 / math.sqrt(3)  # the 97.5 % quantile of t with 2 degrees
    assert mean_interval(BY_HAND) == Interval(1.0, pytest.approx(1 - half), pytest.approx(1 + half))


def test_equivalence_by_hand() -> None:
    # At a margin of 3 the nearer side lies 2 √3 standard errors away.
    t = 2 * math.sqrt(3)
    assert equivalence(BY_HAND, 3.0) == pytest.approx(0.5 - t / (2 * math.sqrt(2 + t * t)))
    assert equivalence(BY_HAND, 1.0) == pytest.approx(0.5)


def test_known_noise_is_pooled_by_hand() -> None:
    # Two degrees of variance 1 here and three of variance 2 before: (2 · 1 + 3 · 2) / 5 = 1.6, with five degrees.
    noise = Noise(math.sqrt(2), 3)
    error = math.sqrt(1.6 / 3)
    assert degrees_of_freedom(BY_HAND, noise) == 5
    assert paired_t(BY_HAND, noise) == pytest.approx(2 * stats.t.sf(1 / error, 5))
    assert equivalence(BY_HAND, 3.0, noise) == pytest.approx(stats.t.sf(2 / error, 5))
    half = stats.t.isf(0.025, 5) * error
    assert mean_interval(BY_HAND, noise=noise) == Interval(1.0, pytest.approx(1 - half), pytest.approx(1 + half))


def test_the_noise_of_other_seeds_is_their_own_spread() -> None:
    values = drawn(9)
    assert Noise.of(values) == Noise(pytest.approx(np.std(values, ddof=1)), 8)


def test_known_noise_is_left_out_where_the_seeds_are_noisier() -> None:
    # With 2 and 20 degrees, F is significant at 5 % from 3.4928 on.
    for ratio, noisier in ((3.49, False), (3.50, True)):
        noise = Noise(1 / math.sqrt(ratio), 20)
        assert is_noisier([BY_HAND], [noise]) is noisier
        assert degrees_of_freedom(BY_HAND, noise) == (2 if noisier else 22)
    assert paired_t(BY_HAND, noise) == paired_t(BY_HAND)
    assert not is_noisier([BY_HAND], [Noise(100.0, 20)])  # less noise is believed


def test_groups_are_noisier_together_than_each() -> None:
    noise = Noise(1 / math.sqrt(3), 20)
    assert not is_noisier([BY_HAND], [noise])
    assert is_noisier([BY_HAND] * 4, [noise] * 4)


def test_noise_without_spread() -> None:
    none = Noise(0.0, 5)
    assert is_noisier([BY_HAND], [none])
    assert paired_t(BY_HAND, none) == paired_t(BY_HAND)
    assert paired_t([1.0, 1.0], none) == 0.0
    assert paired_t([1.0, 1.0], Noise(1.0, 5)) == pytest.approx(2 * stats.t.sf(math.sqrt(2) / math.sqrt(5 / 6), 6))


@pytest.mark.parametrize("count", [2, 3, 9, 18, 200])
def test_t_and_equivalence_are_those_of_scipy(count: int) -> None:
    values = drawn(count)
    found = stats.ttest_1samp(values, 0.0)
    assert paired_t(values) == pytest.approx(found.pvalue, rel=1e-9)
    interval = found.confidence_interval(0.975)
    ours = mean_interval(values, 0.975)
    assert (ours.low, ours.high) == pytest.approx((interval.low, interval.high))
    one_sided = [
        stats.ttest_1samp(values, -0.7, alternative="greater").pvalue,
        stats.ttest_1samp(values, 0.7, alternative="less").pvalue,
    ]
    assert equivalence(values, 0.7) == pytest.approx(max(one_sided), rel=1e-9)


@pytest.mark.parametrize("count", [2, 3, 9, 12])
def test_sign_flips_are_those_of_scipy(count: int) -> None:
    values = drawn(count)
    found = stats.permutation_test((values,), np.mean, permutation_type="samples", n_resamples=2**count)
    assert sign_flip(values) == pytest.approx(found.pvalue)


def test_sign_flips_by_hand() -> None:
    assert sign_flip([1.0, 2.0, 4.0]) == 2 / 8
    assert sign_flip([1.0, 2.0, -4.0]) == 8 / 8  # every choice gives at least |−1|
    assert sign_flip([0.1, 0.2, 0.3]) == 2 / 8  # though 0.1 + 0.2 is not 0.3
    assert sign_flip([0.1, 0.2, -0.3]) == 1.0
    assert sign_flip([0.1] * 10) == 2**-9


def test_more_signs_than_can_be_tried_are_drawn() -> None:
    exact, more = drawn(20, 0.4), drawn(21, 0.4)
    assert sign_flip(exact, seed=1) == sign_flip(exact, seed=2)
    assert sign_flip(more, seed=1) == sign_flip(more, seed=1) != sign_flip(more, seed=2)
    assert sign_flip(more) == pytest.approx(paired_t(more), abs=0.02)
    assert sign_flip([1.0] * 60) == 1 / 100_001  # never 0
    assert sign_flip([0.0] * 30) == 1.0


def test_bootstrap_is_reproducible_and_leans_with_the_skew() -> None:
    values = [*drawn(15, 0.0), 8.0]
    found = bca_interval(values, 0.9)
    assert found is not None
    assert found == bca_interval(values, 0.9)
    assert found != bca_interval(values, 0.9, seed=1)
    mean = float(np.mean(values))
    assert found[1] - mean > mean - found[0] > 0


def test_bootstrap_of_normal_differences_is_near_t() -> None:
    values = drawn(60)
    found, interval = bca_interval(values, 0.95), mean_interval(values, 0.95)
    assert found == pytest.approx((interval.low, interval.high), abs=0.05)


@pytest.mark.parametrize("values", [[0.0, 1.0], [0.0, 0.0, 1e-300], [1e308, -1e308, 1e308]])
def test_bootstrap_of_odd_differences_is_an_interval_or_nothing(values: list[float]) -> None:
    found = bca_interval(values, 0.95)
    assert found is None or found[0] <= found[1]


def test_differences_without_spread() -> None:
    for same in ([0.0, 0.0, 0.0], [-0.0, 0.0]):
        assert paired_t(same) == 1.0
        assert equivalence(same, 0.01) == 0.0
        assert sign_flip(same) == 1.0
        assert mean_interval(same) == Interval(0.0, 0.0, 0.0)
        assert bca_interval(same) is None
    shifted = [0.1, 0.1, 0.1]  # whose mean, if summed, is not 0.1
    assert paired_t(shifted) == 0.0
    assert equivalence(shifted, 0.2) == 0.0
    assert equivalence(shifted, 0.1) == equivalence(shifted, 0.05) == 1.0  # the margin itself is outside
    assert mean_interval(shifted) == Interval(0.1, 0.1, 0.1)


def test_very_large_and_very_small_differences() -> None:
    for scale in (1e-300, 1e-160, 1e160, 1e300):
        assert paired_t([scale * value for value in BY_HAND]) == pytest.approx(paired_t(BY_HAND))
        assert equivalence([scale * value for value in BY_HAND], 3 * scale) == pytest.approx(equivalence(BY_HAND, 3))
    assert paired_t([1e300, 1e300 * (1 + 1e-15)]) < 1e-14
    assert equivalence([0.0, 5e-324], 1e300) == 0.0


@pytest.mark.parametrize("test", TESTS)
def test_too_few_values_are_refused(test: Callable[[list[float]], object]) -> None:
    for values in ([], [1.0]):
        with pytest.raises(InputError, match=f"too few values to know their spread: {len(values)}") as caught:
            test(values)
        assert caught.value.hint


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_refused(test: Callable[[list[float]], object], bad: float) -> None:
    with pytest.raises(InputError, match="not finite numbers, at place 1") as caught:
        test([0.5, bad, 0.7])
    assert caught.value.hint


def test_a_table_is_refused() -> None:
    with pytest.raises(InputError, match=r"values of shape \(2, 2\) are no list"):
        paired_t([[1.0, 2.0], [3.0, 4.0]])  # type: ignore[list-item]


@pytest.mark.parametrize("margin", [0.0, -0.1, math.nan, math.inf])
def test_margins_that_make_no_sense(margin: float) -> None:
    with pytest.raises(SpecError, match=r"a margin of .* makes no sense") as caught:
        equivalence([0.1, 0.2], margin)
    assert caught.value.hint


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, 95.0, math.nan])
def test_levels_that_make_no_sense(level: float) -> None:
    for interval in (mean_interval, bca_interval):
        with pytest.raises(SpecError, match="is not between 0 and 1"):
            interval([0.1, 0.2], level)


def test_holm_by_hand() -> None:
    # 4 × 0.01, 3 × 0.02, then 2 × 0.03, which may not fall below the one before, and 1 × 0.9.
    assert holm([0.03, 0.01, 0.9, 0.02]) == pytest.approx([0.06, 0.04, 0.9, 0.06])
    assert holm([0.04, 0.03]) == pytest.approx([0.06, 0.06])  # not 0.04
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


@pytest.mark.parametrize("bad", [math.nan, -0.1, 1.1])
def test_holm_refuses_what_is_no_probability(bad: float) -> None:
    with pytest.raises(InputError, match=r"p-values outside 0 … 1"):
        holm([0.5, bad])


@given(p_values=P_VALUES)
def test_holm_lies_between_nothing_and_bonferroni(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    for p, corrected in zip(p_values, adjusted, strict=True):
        assert p <= corrected <= min(1.0, len(p_values) * p)
    ranked = [corrected for _, corrected in sorted(zip(p_values, adjusted, strict=True))]
    assert ranked == sorted(ranked)


@given(p_values=P_VALUES, data=st.data())
def test_holm_does_not_depend_on_the_order(p_values: list[float], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(p_values))))
    adjusted = holm(p_values)
    assert holm([p_values[place] for place in order]) == [adjusted[place] for place in order]


@given(values=DIFFERENCES, margin=st.floats(1e-3, 10))
def test_the_sign_of_all_differences_does_not_matter(values: list[float], margin: float) -> None:
    turned = [-value for value in values]
    assert paired_t(turned) == paired_t(values)
    assert equivalence(turned, margin) == equivalence(values, margin)
    assert sign_flip(turned) == sign_flip(values)
    ours, theirs = mean_interval(values), mean_interval(turned)
    assert (ours.mean, ours.low, ours.high) == (-theirs.mean, -theirs.high, -theirs.low)


@given(values=DIFFERENCES, margin=st.floats(1e-3, 10), scale=st.floats(1e-6, 1e6))
def test_units_do_not_matter(values: list[float], margin: float, scale: float) -> None:
    assume(clearly_spread(values))
    scaled = [scale * value for value in values]
    assert paired_t(scaled) == pytest.approx(paired_t(values), rel=1e-6)
    assert equivalence(scaled, scale * margin) == pytest.approx(equivalence(values, margin), rel=1e-6)
    assert mean_interval(scaled).high == pytest.approx(scale * mean_interval(values).high, rel=1e-6, abs=1e-6 * scale)


@given(values=DIFFERENCES, shift=st.floats(-10, 10))
def test_an_interval_moves_with_its_values(values: list[float], shift: float) -> None:
    interval, moved = mean_interval(values), mean_interval([value + shift for value in values])
    assert moved.low == pytest.approx(interval.low + shift, abs=1e-9)
    assert moved.high == pytest.approx(interval.high + shift, abs=1e-9)


@given(values=DIFFERENCES)
def test_p_and_interval_agree(values: list[float]) -> None:
    assume(clearly_spread(values))
    p, interval = paired_t(values), mean_interval(values, 0.95)
    assume(abs(p - 0.05) > 1e-9)
    assert (p < 0.05) == (not interval.low <= 0 <= interval.high)


@given(values=DIFFERENCES, margin=st.floats(1e-3, 10))
def test_equivalence_and_the_narrower_interval_agree(values: list[float], margin: float) -> None:
    assume(clearly_spread(values))
    p, interval = equivalence(values, margin), mean_interval(values, 0.9)
    assume(abs(p - 0.05) > 1e-9)
    assert (p < 0.05) == (-margin < interval.low and interval.high < margin)


@given(values=DIFFERENCES)
def test_every_p_is_one(values: list[float]) -> None:
    for p in (paired_t(values), equivalence(values, 1.0), sign_flip(values)):
        assert 0 <= p <= 1
    assert sign_flip(values) >= 2.0 ** (1 - len(values))
