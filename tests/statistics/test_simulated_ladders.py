"""Forecasts of simulated ladders cover what is true as often as they say."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

from attnlab.errors import SpecError
from attnlab.statistics import SimulatedForecasts, fit_ladder, simulate_forecasts, simulate_ladder
from attnlab.statistics.forecasts.accuracy import CROSSOVERS, INSIDE, OUTSIDE
from attnlab.statistics.forecasts.families import FAMILIES

KINDS = (*(family.name for family in FAMILIES), *CROSSOVERS)


@pytest.fixture(scope="module")
def simulated() -> SimulatedForecasts:
    return simulate_forecasts(48, seed=5)


@pytest.mark.parametrize("kind", KINDS)
def test_ladders_are_like_those_of_a_study(kind: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        simulated = simulate_ladder(kind, rng)
        sizes = sorted(set(simulated.ladder.sizes.tolist()))
        assert 3 <= len(sizes) <= 5
        assert all(1.99 < b / a < 2.51 for a, b in itertools.pairwise(sizes))
        assert len(simulated.ladder.points) == 2 * len(sizes) - 1
        for point in simulated.ladder.points:
            assert 4 <= len(point.arm) <= 8
            assert 1.1 < np.mean(point.baseline) < 2.5
            assert point.differences.std(ddof=1) < 0.05
            assert abs(simulated.truth(point.size, point.tokens)) < 0.5
        assert simulated.rung_above(2)[0] == pytest.approx(sizes[-1] * simulated.factor**2)


@pytest.mark.parametrize("kind", [family.name for family in FAMILIES])
def test_truths_are_inside_their_family(kind: str) -> None:
    """Check that the family of the truth, fitted to the noisy differences, agrees with it within the noise."""
    rng = np.random.default_rng(1)
    for _ in range(3):
        simulated = simulate_ladder(kind, rng)
        points = simulated.ladder.points
        true = np.array([simulated.truth(point.size, point.tokens) for point in points])
        fit = fit_ladder(simulated.ladder, resamples=1)
        ours = next(of for of in fit.fits if of.family.name == kind)
        predicted = np.array([ours.predict(point.size, point.tokens)[0] for point in points])
        errors = fit.resamples.difference_errors
        assert (np.abs(predicted - true) < 5 * errors).all()


def test_coverage_at_smoke_size(simulated: SimulatedForecasts) -> None:
    for ahead in (1, 2):
        inside = simulated.check(INSIDE, ahead)
        assert inside.ladders == 48
        assert inside.coverage.mean > 0.85
        assert inside.sign.mean > 0.8
        assert inside.coverage.mean > inside.naive_coverage.mean
        assert 0.5 < inside.width / inside.naive_width < 4
        assert simulated.check(OUTSIDE, ahead).ladders == 12
        assert sum(simulated.check(family.name, ahead).ladders for family in FAMILIES) == 48
    assert simulated.trend_false_positives.low < 0.05 < simulated.trend_false_positives.high


def test_simulations_are_reproducible(simulated: SimulatedForecasts) -> None:
    assert simulate_forecasts(8, (1,), seed=2) == simulate_forecasts(8, (1,), seed=2)
    assert "false positives of the trend" in str(simulated)


def test_the_check_fails_for_intervals_that_are_too_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["attnlab.statistics.forecasts.forecast"]
    whole = module.LadderFit.forecast

    def narrow(self, *args, **keywords):  # type: ignore[no-untyped-def]
        return whole(self, *args, **{**keywords, "widening": 0.2})

    monkeypatch.setattr(module.LadderFit, "forecast", narrow)
    assert simulate_forecasts(24, (1,), seed=5).check(INSIDE, 1).coverage.high < 0.88


@pytest.mark.slow
def test_coverage_of_a_thousand_ladders() -> None:
    found = simulate_forecasts()
    for ahead in (1, 2):
        assert found.check(INSIDE, ahead).coverage.mean >= 0.88
    assert found.trend_false_positives.low < 0.05 < found.trend_false_positives.high


def test_bad_requests_are_refused(simulated: SimulatedForecasts) -> None:
    with pytest.raises(SpecError, match="ladders must be at least 8, got 3"):
        simulate_forecasts(3)
    with pytest.raises(SpecError, match="no check of 'size', 7 rungs ahead") as caught:
        simulated.check("size", 7)
    assert caught.value.hint
    with pytest.raises(SpecError, match="no simulated truth is called 'wave'") as caught:
        simulate_ladder("wave", np.random.default_rng(0))
    assert caught.value.hint
