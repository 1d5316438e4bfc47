"""Whether the guarantee holds where the risk is known, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from attnlab.errors import InputError, SpecError
from attnlab.statistics import control_risk, fewest_needed, spread_thresholds

RISK, DELTA, SPLITS = 0.1, 0.1, 500

# Chance of a right answer by score, on scores that are uniform. The first is met with the worst luck: at every
# threshold its risk is just above the one that is named, so that every acceptance is a mistake.
POPULATIONS: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
    "always too risky": lambda score: np.full_like(score, 1 - RISK - 1e-9),
    "rising": lambda score: 0.6 + 0.4 * score,
    "surest are wrong": lambda score: np.where(score > 0.9, 0.8, np.where(score > 0.5, 0.97, 0.3)),
    "coarse": lambda score: np.where(score > 0.5, 0.93, 0.5),
}


def true_risk(chance: Callable[[NDArray[np.float64]], NDArray[np.float64]], threshold: float) -> float:
    scores = np.linspace(threshold, 1, 20_001)
    return float(1 - chance(scores).mean())


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("count", [150, 600])
def test_the_named_risk_is_exceeded_in_no_more_than_delta_of_the_splits(name: str, count: int) -> None:
    chance, rng = POPULATIONS[name], np.random.default_rng(0)
    exceeded = 0
    for _ in range(SPLITS):
        scores = rng.random(count)
        thresholds = spread_thresholds(rng.random(200), count, RISK, DELTA)
        found = control_risk(scores, rng.random(count) < chance(scores), thresholds, RISK, DELTA)
        exceeded += found.threshold is not None and true_risk(chance, found.threshold) > RISK
    assert stats.binomtest(exceeded, SPLITS, DELTA, alternative="greater").pvalue > 0.01


def test_the_level_is_used_up_where_it_can_be() -> None:
    """Else a threshold that is never accepted would pass the test above."""
    chance, rng = POPULATIONS["always too risky"], np.random.default_rng(1)
    accepted = 0
    for _ in range(SPLITS):
        scores = rng.random(600)
        found = control_risk(scores, rng.random(600) < chance(scores), [0.5], RISK, DELTA)
        accepted += found.threshold is not None
    assert 0.04 < accepted / SPLITS < 0.14


def test_looking_at_the_calibration_pairs_would_break_it() -> None:
    """The reason for the fixed sequence: the best threshold by hindsight exceeds the risk far more often."""
    chance, rng = POPULATIONS["always too risky"], np.random.default_rng(2)
    exceeded = 0
    for _ in range(60):
        scores = rng.random(120)
        right = rng.random(120) < chance(scores)
        exceeded += any(control_risk(scores, right, [one], RISK, DELTA).threshold is not None for one in scores)
    assert exceeded > 12


def test_a_good_model_is_let_answer() -> None:
    rng = np.random.default_rng(3)
    scores = rng.random(500)
    right = rng.random(500) < np.where(scores > 0.3, 0.995, 0.2)
    found = control_risk(scores, right, spread_thresholds(rng.random(200), 500))
    assert found.threshold == pytest.approx(0.3, abs=0.1)
    assert found.answered / 500 > 0.6
    assert found.errors <= 0.05 * found.answered
    assert all(step.p_value <= found.delta for step in found.steps[:-1])


def test_the_search_ends_at_the_first_that_fails() -> None:
    scores = np.linspace(1, 0, 100)
    right = np.ones(100, bool)
    right[20:40] = False  # and all right again after them
    found = control_risk(scores, right, [0.85, 0.7, 0.0], risk=0.3, delta=0.2)
    assert [step.answered for step in found.steps] == [15, 30]
    assert found.threshold == 0.85
    assert found.steps[1].p_value == pytest.approx(stats.binom.cdf(10, 30, 0.3))


def test_no_pairs_above_a_threshold_prove_nothing() -> None:
    found = control_risk([0.5, 0.4], [True, True], [0.9, 0.1])
    assert found.threshold is None
    assert found.steps[0].p_value == 1
    assert (found.answered, found.errors) == (0, 0)


def test_fewest_needed() -> None:
    fewest = fewest_needed(0.05, 0.1)
    assert 0.95**fewest <= 0.1 < 0.95 ** (fewest - 1)


def test_thresholds_fall_and_end_with_all() -> None:
    others = np.random.default_rng(0).random(77)
    found = spread_thresholds(others, 400)
    assert list(found) == sorted(found, reverse=True)
    assert found[-1] == others.min()
    expected = 400 * np.mean(others >= found[0])
    assert expected >= 2 * fewest_needed(0.05, 0.1)
    assert spread_thresholds([0.5] * 9, 400) == (0.5,)
    assert spread_thresholds(others, 10) == (others.min(),)  # too few to prove anything: all of them at once


@pytest.mark.parametrize("wrong", [0.0, 1.0, -0.1, float("nan")])
def test_risks_that_make_no_sense(wrong: float) -> None:
    with pytest.raises(SpecError, match="is not between 0 and 1"):
        control_risk([0.5], [True], [0.1], risk=wrong)
    with pytest.raises(SpecError, match="is not between 0 and 1"):
        control_risk([0.5], [True], [0.1], delta=wrong)


def test_thresholds_that_rise_are_refused() -> None:
    with pytest.raises(InputError, match="do not fall"):
        control_risk([0.5], [True], [0.1, 0.2])
    with pytest.raises(InputError, match="do not fall"):
        control_risk([0.5], [True], [0.1, 0.1])
    with pytest.raises(SpecError, match="make no sense"):
        spread_thresholds([0.5], 0)
