"""Estimates from samples: their standard errors are those that many repetitions show."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from attnlab.errors import InputError
from attnlab.statistics import Estimate, estimate_mean, estimate_share, estimate_variance


def test_the_mean_by_hand() -> None:
    found = estimate_mean([1.0, 2.0, 3.0, 6.0])
    assert found == Estimate(3.0, pytest.approx(math.sqrt((4 + 1 + 0 + 9) / 3 / 4)), 4)
    assert estimate_mean(torch.tensor([[1.0, 2.0], [3.0, 6.0]])) == found


@pytest.mark.parametrize(("estimate", "truth"), [(estimate_mean, 1.0), (estimate_variance, 1.0)])
def test_the_standard_error_is_that_of_repetitions(estimate, truth: float) -> None:
    draws = np.random.default_rng(0).exponential(size=(2000, 300))  # of mean and variance 1, and skewed
    found = [estimate(row) for row in draws]
    values = np.array([one.value for one in found])
    assert abs(values.mean() - truth) < 5 * values.std() / math.sqrt(len(values))
    assert np.mean([one.error for one in found]) == pytest.approx(values.std(), rel=0.08)


def test_a_share_has_the_error_of_what_is_expected() -> None:
    assert estimate_share(0, 100, 0.25) == Estimate(0.0, pytest.approx(math.sqrt(0.25 * 0.75 / 100)), 100)
    assert estimate_share(20, 100).error == pytest.approx(0.04)


def test_distance_in_standard_errors() -> None:
    assert Estimate(1.0, 0.5, 10).errors_from(3.0) == 4.0
    assert Estimate(2.0, 0.0, 10).errors_from(2.0 + 1e-12) == 0.0
    assert Estimate(2.0, 0.0, 10).errors_from(2.1) == math.inf
    assert math.isnan(Estimate(math.nan, 1.0, 10).errors_from(2.0))
    assert Estimate(math.nan, 0.0, 10).errors_from(2.0) == math.inf


@pytest.mark.parametrize("samples", [[1.0, 2.0], [1.0, 2.0, 3.0, math.nan]])
def test_what_cannot_be_estimated_is_refused(samples: list[float]) -> None:
    with pytest.raises(InputError):
        estimate_mean(samples)


def test_impossible_shares_are_refused() -> None:
    for given in ((3, 2), (-1, 2), (0, 0)):
        with pytest.raises(InputError, match="no count"):
            estimate_share(*given)
    with pytest.raises(InputError, match="expected share"):
        estimate_share(1, 2, 1.5)
