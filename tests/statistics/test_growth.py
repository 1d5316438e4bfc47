"""Fitted growth: exact laws give their exponent back."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attnlab.errors import InputError
from attnlab.statistics import exponential_growth, power_growth


def test_exact_laws() -> None:
    power = power_growth([1, 2, 4, 8], [3 * x**1.7 for x in (1, 2, 4, 8)])
    assert (power.slope, power.factor, power.explained) == pytest.approx((1.7, 3, 1))
    doubling = exponential_growth([0, 1, 5], [7, 14, 7 * 2**5])
    assert (doubling.slope, doubling.factor, doubling.explained) == pytest.approx((math.log(2), 7, 1))
    assert power_growth([1, 2], [5, 5]).slope == 0


def test_noise_is_not_explained() -> None:
    rng = np.random.default_rng(0)
    x = np.arange(1.0, 200.0)
    found = power_growth(x.tolist(), (x**2 * np.exp(rng.normal(size=x.size))).tolist())
    assert found.slope == pytest.approx(2, abs=0.3)
    assert 0.3 < found.explained < 0.95


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="no logarithm"):
        power_growth([1, 2], [0, 1])
    with pytest.raises(InputError, match="no logarithm"):
        power_growth([0, 2], [1, 1])
    with pytest.raises(InputError, match="nothing grows"):
        power_growth([2, 2], [1, 3])
    with pytest.raises(InputError, match="one value for each size"):
        exponential_growth([1, 2, 3], [1, 2])
    with pytest.raises(InputError, match="not finite"):
        exponential_growth([1, math.nan], [1, 2])
