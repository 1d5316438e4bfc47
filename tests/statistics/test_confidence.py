"""What confidence is worth: shares, separation, calibration, risk against coverage; against outside witnesses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from attnlab.errors import InputError, SpecError
from attnlab.statistics import (
    area_difference,
    auroc,
    auroc_difference,
    binomial_tail,
    clopper_pearson,
    reliability,
    risk_coverage,
)


@pytest.mark.parametrize(("successes", "count"), [(0, 5), (5, 5), (3, 10), (115, 500), (1, 1)])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_shares_are_those_of_scipy(successes: int, count: int, level: float) -> None:
    found, theirs = clopper_pearson(successes, count, level), stats.binomtest(successes, count).proportion_ci(level)
    assert (found.mean, found.low, found.high) == pytest.approx((successes / count, theirs.low, theirs.high))
    assert binomial_tail(successes, count, 0.3) == pytest.approx(stats.binom.cdf(successes, count, 0.3))


def test_nothing_tried_says_nothing() -> None:
    found = clopper_pearson(0, 0)
    assert np.isnan(found.mean)
    assert (found.low, found.high) == (0, 1)
    assert binomial_tail(0, 0, 0.05) == 1


def test_auroc_counts_pairs() -> None:
    positives, negatives = [0.9, 0.5, 0.5, 0.1], [0.5, 0.4, 0.3]
    by_hand = np.mean([(x > y) + 0.5 * (x == y) for x, y in itertools.product(positives, negatives)])
    assert auroc(positives, negatives).mean == pytest.approx(by_hand)
    assert auroc(negatives, positives).mean == pytest.approx(1 - by_hand)


def test_auroc_covers_the_truth() -> None:
    rng = np.random.default_rng(1)
    truth = stats.norm.cdf(1 / np.sqrt(2))
    inside = 0
    for _ in range(400):
        found = auroc(rng.normal(1, 1, 60), rng.normal(0, 1, 40))
        inside += found.low <= truth <= found.high
    assert stats.binomtest(inside, 400, 0.95).pvalue > 0.001


def test_auroc_difference_covers_the_truth_and_sees_what_is_there() -> None:
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(300):
        x, y = rng.normal(1, 1, 80), rng.normal(0, 1, 60)
        noisy = x + rng.normal(0, 1, 80), y + rng.normal(0, 1, 60)
        found = auroc_difference((x, y), noisy)
        truth = stats.norm.cdf(1 / np.sqrt(2)) - stats.norm.cdf(1 / np.sqrt(4))
        inside += found.low <= truth <= found.high
    assert stats.binomtest(inside, 300, 0.95).pvalue > 0.001
    same = auroc_difference((x, y), (x, y))
    assert (same.mean, same.low, same.high) == (0, 0, 0)


def test_separated_groups_are_not_called_certain() -> None:
    found = auroc([2.0] * 40, [1.0] * 30)
    assert found.mean == 1
    assert found.high == 1
    assert found.low == pytest.approx(0.025 ** (1 / 30))
    turned = auroc([1.0] * 40, [2.0] * 30)
    assert (turned.mean, turned.low, turned.high) == (0, 0, pytest.approx(1 - found.low))
    assert auroc([1.0], [1.0]).mean == 0.5


def test_reliability_by_hand() -> None:
    found = reliability([0.15, 0.15, 0.95, 1.0], [False, True, True, False], bins=10)
    assert [one.count for one in found.bins] == [0, 2, 0, 0, 0, 0, 0, 0, 0, 2]
    assert found.ece.mean == pytest.approx(0.5 * abs(0.5 - 0.15) + 0.5 * abs(0.5 - 0.975))
    assert found.bins[0].accuracy is None
    assert found.bins[9].confidence == pytest.approx(0.975)
    assert found.accuracy == 0.5


def test_a_calibrated_model_shows_the_expected_error_and_a_boaster_more() -> None:
    rng = np.random.default_rng(3)
    said = rng.random(2000)
    honest = reliability(said, rng.random(2000) < said)
    assert honest.ece.mean < 2 * honest.expected < 0.06
    boaster = reliability(said, rng.random(2000) < said**3)
    assert boaster.ece.low > 5 * boaster.expected


def test_risk_coverage_by_hand() -> None:
    found = risk_coverage([0.9, 0.8, 0.7, 0.6], [True, False, True, False])
    assert found.risk == pytest.approx((0, 1 / 2, 1 / 3, 1 / 2))
    assert found.coverage == (0.25, 0.5, 0.75, 1.0)
    assert found.area.mean == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert found.area_best == pytest.approx((0 + 0 + 1 / 3 + 1 / 2) / 4)
    assert found.area_blind == 0.5


def test_ties_are_shared_and_the_order_of_answers_is_nothing() -> None:
    scores, right = [0.5, 0.5, 0.5, 0.1], [True, False, False, True]
    found = risk_coverage(scores, right)
    assert found.risk == pytest.approx((2 / 3, 2 / 3, 2 / 3, 1 / 2))
    assert risk_coverage(scores[::-1], right[::-1]).risk == pytest.approx(found.risk)
    blind = risk_coverage([1.0] * 4, right)
    assert blind.area.mean == pytest.approx(blind.area_blind)


def test_area_covers_the_truth_of_its_population() -> None:
    rng = np.random.default_rng(4)

    def drawn(count: int) -> tuple[np.ndarray, np.ndarray]:
        scores = rng.random(count)
        return scores, rng.random(count) < scores

    truth = risk_coverage(*drawn(50_000), resamples=2).area.mean
    inside = 0
    for _ in range(40):
        found = risk_coverage(*drawn(300), resamples=200).area
        inside += found.low <= truth <= found.high
    assert stats.binomtest(inside, 40, 0.95).pvalue > 0.001


def test_area_difference_tells_a_better_score_and_no_difference() -> None:
    rng = np.random.default_rng(5)
    scores = rng.random(400)
    right = rng.random(400) < scores
    assert area_difference(scores, rng.random(400), right, resamples=200).high < 0
    same = area_difference(scores, scores**2, right, resamples=200)  # the same order
    assert (same.mean, same.low, same.high) == (0, 0, 0)


def test_a_long_curve_is_drawn_with_few_points() -> None:
    found = risk_coverage(np.linspace(0, 1, 5000), np.ones(5000, bool), resamples=2)
    assert len(found.coverage) == 200
    assert found.coverage[-1] == 1


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: auroc([], [1.0]), "no list with something in it"),
        (lambda: auroc([float("nan")], [1.0]), "not a number"),
        (lambda: auroc_difference(([1.0], [0.0]), ([1.0, 2.0], [0.0])), "not of the same"),
        (lambda: risk_coverage([0.5], [True, False]), "do not belong together"),
        (lambda: risk_coverage([0.5], [2]), "neither true nor false"),
        (lambda: reliability([1.5], [True]), "outside 0 … 1"),
        (lambda: clopper_pearson(3, 2), "3 of 2 is no count"),
        (lambda: binomial_tail(1, 2, 1.5), "a chance of 1.5"),
    ],
)
def test_what_makes_no_sense_is_refused(call: object, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        call()  # type: ignore[operator]
    assert caught.value.hint


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(SpecError, match="0 bins"):
        reliability([0.5], [True], bins=0)
    with pytest.raises(SpecError, match="level = 2"):
        auroc([1.0], [0.0], level=2)
