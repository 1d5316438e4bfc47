"""How many seeds a question needs: against scipy.stats, simulations and tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from attnlab.errors import InputError, SpecError
from attnlab.statistics import (
    count_needed,
    detectable_difference,
    equivalence_count_needed,
    equivalence_power,
    exceeds,
    pooled_sd,
    smallest_sign_flip_p,
    upper_sd,
)


def power_of(difference: float, sd: float, count: int, alpha: float) -> float:
    critical = stats.t.isf(alpha / 2, count - 1)
    return float(stats.nct.sf(critical, count - 1, difference * math.sqrt(count) / sd))


@pytest.mark.parametrize("count", [2, 3, 9, 18, 300])
@pytest.mark.parametrize("alpha", [0.05, 0.025, 0.025 / 8])
def test_what_is_detectable_is_detected_with_that_power(count: int, alpha: float) -> None:
    for power in (0.5, 0.8, 0.9):
        difference = detectable_difference(0.02, count, alpha, power)
        assert power_of(difference, 0.02, count, alpha) == pytest.approx(power, abs=1e-4)


@pytest.mark.parametrize("known", [1, 9, 40])
def test_degrees_that_are_known_from_other_seeds_add_to_the_power(known: int) -> None:
    difference = detectable_difference(0.02, 4, 0.01, 0.9, known)
    critical = stats.t.isf(0.005, 3 + known)
    assert stats.nct.sf(critical, 3 + known, difference * 2 / 0.02) == pytest.approx(0.9, abs=1e-4)
    assert difference < detectable_difference(0.02, 4, 0.01, 0.9)
    assert count_needed(0.02, difference, 0.01, 0.9, known) == 4
    assert equivalence_power(0.02, 4, 0.05, 0.01, known=known) > equivalence_power(0.02, 4, 0.05, 0.01)
    needed = equivalence_count_needed(0.02, 0.05, 0.01, known=known)
    assert needed <= equivalence_count_needed(0.02, 0.05, 0.01)
    assert equivalence_power(0.02, needed, 0.05, 0.01, known=known) >= 0.9


def test_the_power_of_equivalence_with_known_noise_is_that_of_simulated_tests() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(0.0, 0.012, (20_000, 4))
    known = 0.012**2 * rng.chisquare(9, 20_000)
    variance = (values.var(axis=1, ddof=1) * 3 + known) / 12
    bound = stats.t.isf(0.00625, 12) * np.sqrt(variance / 4)
    share = np.mean(np.abs(values.mean(axis=1)) < 0.03 - bound)
    assert equivalence_power(0.012, 4, 0.03, 0.00625, known=9) == pytest.approx(share, abs=0.01)


def test_detectable_differences_grow_with_the_noise_in_proportion() -> None:
    one = detectable_difference(1.0, 9, 0.05)
    assert detectable_difference(0.01, 9, 0.05) == pytest.approx(0.01 * one)
    assert detectable_difference(0.0, 9, 0.05) == 0.0


def test_a_known_number_of_pairs() -> None:
    # Cohen's table for d = 0.5, two-sided 5 %: 34 pairs for a power of 80 %, 44 for 90 %.
    assert count_needed(1.0, 0.5, 0.05, 0.8) == 34
    assert count_needed(1.0, 0.5, 0.05, 0.9) == 44


@pytest.mark.parametrize("difference", [0.1, 0.4, 1.0, 3.0, 100.0])
def test_the_number_needed_is_the_smallest(difference: float) -> None:
    count = count_needed(1.0, difference, 0.01)
    assert detectable_difference(1.0, count, 0.01) <= difference
    assert count == 2 or detectable_difference(1.0, count - 1, 0.01) > difference
    assert count_needed(0.0, difference, 0.01) == 2


@pytest.mark.parametrize(
    ("count", "sd", "true", "alpha"),
    [(2, 0.2, 0.0, 0.05), (9, 0.5, 0.2, 0.05), (9, 0.7, 0.0, 0.025), (30, 2.0, 0.5, 0.2)],
)
def test_power_of_equivalence_is_that_of_simulated_tests(count: int, sd: float, true: float, alpha: float) -> None:
    values = np.random.default_rng(0).normal(true, sd, (40_000, count))
    half = stats.t.isf(alpha, count - 1) * values.std(axis=1, ddof=1) / math.sqrt(count)
    shown = np.mean(np.abs(values.mean(axis=1)) + half < 1.0)
    assert 0.01 < shown < 0.999
    assert equivalence_power(sd, count, 1.0, alpha, true) == pytest.approx(shown, abs=0.01)


def test_power_of_equivalence_at_the_margin_is_alpha() -> None:
    assert equivalence_power(0.01, 9, 1.0, 0.05, 1.0) == pytest.approx(0.05, abs=1e-5)
    assert equivalence_power(0.01, 9, 1.0, 0.05, -1.0) == pytest.approx(0.05, abs=1e-5)
    assert equivalence_power(1.0, 10**6, 1.0, 0.05) == pytest.approx(1.0, abs=1e-6)
    assert equivalence_power(1e9, 9, 1.0, 0.05) == pytest.approx(0.0, abs=1e-12)
    assert equivalence_power(1.0, 9, 1e-12, 0.05) == pytest.approx(0.0, abs=1e-12)


def test_equivalence_without_noise() -> None:
    assert equivalence_power(0.0, 2, 0.1, 0.05, 0.05) == 1.0
    assert equivalence_power(0.0, 2, 0.1, 0.05, 0.1) == 0.0
    assert equivalence_count_needed(0.0, 0.1, 0.05) == 2


@pytest.mark.parametrize("sd", [0.05, 0.5, 2.0, 10.0])
def test_the_number_needed_for_equivalence_is_the_smallest(sd: float) -> None:
    count = equivalence_count_needed(sd, 1.0, 0.025, 0.9, 0.1)
    assert equivalence_power(sd, count, 1.0, 0.025, 0.1) >= 0.9
    assert count == 2 or equivalence_power(sd, count - 1, 1.0, 0.025, 0.1) < 0.9


def test_what_no_number_of_seeds_can_show() -> None:
    with pytest.raises(SpecError, match="does not lie within a margin") as caught:
        equivalence_count_needed(1.0, 0.1, 0.05, true=-0.1)
    assert caught.value.hint
    for needed in (count_needed, equivalence_count_needed):
        with pytest.raises(SpecError, match="no number of seeds that could be trained"):
            needed(1e9, 1e-9, 0.05)


@pytest.mark.parametrize("degrees", [1, 4, 16, 200])
def test_the_upper_bound_holds_as_often_as_it_says(degrees: int) -> None:
    found = np.sqrt(np.random.default_rng(0).chisquare(degrees, 4000) / degrees)
    factor = upper_sd(1.0, degrees, 0.8)
    assert np.mean(found * factor > 1.0) == pytest.approx(0.8, abs=0.02)
    assert factor == pytest.approx(math.sqrt(degrees / stats.chi2.ppf(0.2, degrees)))
    assert upper_sd(0.0, degrees) == 0.0


def test_pooled_spread() -> None:
    sd, degrees = pooled_sd([[1.0, 3.0], [10.0, 10.0, 10.0], [5.0]])
    assert degrees == 3  # the last group has none
    assert sd == pytest.approx(math.sqrt(2 / 3))
    groups = np.random.default_rng(0).normal(0, 1, (4, 7))
    assert pooled_sd(groups) == (pytest.approx(math.sqrt(float(groups.var(axis=1, ddof=1).mean()))), 24)


@pytest.mark.parametrize("groups", [[], [[1.0]], [[1.0], [2.0]]])
def test_groups_without_spread_are_refused(groups: list[list[float]]) -> None:
    with pytest.raises(InputError, match="no group has two values"):
        pooled_sd(groups)


def test_groups_with_a_gap_are_refused() -> None:
    with pytest.raises(InputError, match="not finite"):
        pooled_sd([[1.0, math.nan]])


def test_smallest_p_of_sign_flips() -> None:
    assert [smallest_sign_flip_p(count) for count in (2, 3, 9)] == [0.5, 0.25, 2**-8]


@pytest.mark.parametrize(("successes", "trials"), [(0, 20), (3, 20), (4, 20), (20, 20), (117, 2000)])
def test_rates_are_held_against_the_binomial(successes: int, trials: int) -> None:
    expected = stats.binomtest(successes, trials, 0.05, alternative="greater").pvalue
    assert exceeds(successes, trials, 0.05) == pytest.approx(expected)


@pytest.mark.parametrize(("successes", "trials"), [(-1, 5), (6, 5), (0, 0)])
def test_counts_that_are_none(successes: int, trials: int) -> None:
    with pytest.raises(InputError, match="is no count"):
        exceeds(successes, trials, 0.05)


def test_designs_that_make_no_sense() -> None:
    for sd in (-1.0, math.nan, math.inf):
        with pytest.raises(SpecError, match="a standard deviation of"):
            detectable_difference(sd, 9, 0.05)
        with pytest.raises(SpecError, match="a standard deviation of"):
            equivalence_power(sd, 9, 0.1, 0.05)
        with pytest.raises(SpecError, match="a standard deviation of"):
            upper_sd(sd, 9)
    for alpha in (0.0, 1.0, math.nan):
        with pytest.raises(SpecError, match=r"alpha = .* is not between"):
            detectable_difference(1.0, 9, alpha)
        with pytest.raises(SpecError, match=r"alpha = .* is not between"):
            equivalence_count_needed(1.0, 0.1, alpha)
    with pytest.raises(SpecError, match=r"a power of 0\.04 needs no data"):
        count_needed(1.0, 0.1, 0.05, 0.04)
    with pytest.raises(SpecError, match="too few values to know their spread: 1"):
        detectable_difference(1.0, 1, 0.05)
    with pytest.raises(SpecError, match="too few values to know their spread: 1"):
        smallest_sign_flip_p(1)
    with pytest.raises(SpecError, match="a difference of 0 makes no sense"):
        count_needed(1.0, 0.0, 0.05)
    with pytest.raises(SpecError, match="a margin of 0 makes no sense"):
        equivalence_count_needed(1.0, 0.0, 0.05)
    with pytest.raises(SpecError, match="a number of degrees of 0"):
        upper_sd(1.0, 0)
    with pytest.raises(SpecError, match="confidence = 1 is not between"):
        upper_sd(1.0, 9, 1.0)
    with pytest.raises(SpecError, match="rate = 0 is not between"):
        exceeds(1, 2, 0.0)
