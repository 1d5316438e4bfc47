"""The loss law: recovered without noise, inverted, and fitted to few and to collinear points."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from attnlab.errors import InputError, SpecError
from attnlab.statistics import LossLaw, fit_loss_law
from attnlab.statistics.forecasts.loss_law import fit_loss_laws

LAW = LossLaw(1.1, 12.0, 0.34, 20.0, 0.28)
SIZES = [16e3, 32e3, 64e3, 128e3, 16e3, 32e3, 64e3]
TOKENS = [50 * size for size in SIZES[:4]] + [25 * size for size in SIZES[4:]]
LOSSES = [LAW.loss(size, tokens) for size, tokens in zip(SIZES, TOKENS, strict=True)]


def test_loss_by_hand() -> None:
    law = LossLaw(1.0, 8.0, 0.5, 27.0, 1 / 3)
    assert law.loss(16.0, 27.0) == pytest.approx(1 + 8 / 4 + 27 / 3)


@pytest.mark.parametrize("law", [LAW, LossLaw(0.0, 5.0, 0.2, 9.0, 0.2), LossLaw(1.4, 30.0, 0.5, 100.0, 0.45)])
def test_a_law_without_noise_is_recovered(law: LossLaw) -> None:
    losses = [law.loss(size, tokens) for size, tokens in zip(SIZES, TOKENS, strict=True)]
    found = fit_loss_law(SIZES, TOKENS, losses, [0.0] * len(SIZES))
    for size, tokens in zip(SIZES, TOKENS, strict=True):
        assert found.loss(size, tokens) == pytest.approx(law.loss(size, tokens), abs=2e-4)
    assert found.loss(512e3, 50 * 512e3) == pytest.approx(law.loss(512e3, 50 * 512e3), abs=5e-3)
    assert found.size_exponent == pytest.approx(law.size_exponent, abs=0.05)
    assert found.token_exponent == pytest.approx(law.token_exponent, abs=0.05)


@pytest.mark.parametrize("rungs", [3, 4])
def test_a_collinear_ladder_is_fitted_with_both_terms(rungs: int) -> None:
    sizes, tokens, losses = SIZES[:rungs], TOKENS[:rungs], LOSSES[:rungs]
    found = fit_loss_law(sizes, tokens, losses, [0.003] * rungs)
    for size, count, loss in zip(sizes, tokens, losses, strict=True):
        assert found.loss(size, count) == pytest.approx(loss, abs=0.004)
    assert found.loss(256e3, 50 * 256e3) == pytest.approx(LAW.loss(256e3, 50 * 256e3), abs=0.03)
    size_term = found.size_coefficient * 64e3**-found.size_exponent
    token_term = found.token_coefficient * 3.2e6**-found.token_exponent
    assert 0.2 < size_term / token_term < 5  # the prior divides what the points cannot
    assert found.irreducible >= 0


def test_equal_sizes_are_fitted_by_tokens_alone() -> None:
    tokens = [1e6, 2e6, 4e6, 8e6]
    losses = [LAW.loss(64e3, count) for count in tokens]
    found = fit_loss_law([64e3] * 4, tokens, losses, [0.001] * 4)
    assert [found.loss(64e3, count) for count in tokens] == pytest.approx(losses, abs=0.003)


def test_exponents_stay_within_their_bounds() -> None:
    rising = fit_loss_law(SIZES, TOKENS, LOSSES[::-1], [0.01] * len(SIZES))
    for law in (rising, fit_loss_law(SIZES, TOKENS, [2.0] * len(SIZES), [0.0] * len(SIZES))):
        assert 0.1 <= law.size_exponent <= 1
        assert 0.1 <= law.token_exponent <= 1
        assert min(law.irreducible, law.size_coefficient, law.token_coefficient) >= 0


def test_hundreds_of_resamples_fit_in_well_under_a_second() -> None:
    noise = np.random.default_rng(0).normal(0, 0.005, (400, len(SIZES)))
    started = time.process_time()
    laws = fit_loss_laws(SIZES, TOKENS, np.array(LOSSES) + noise, [0.005] * len(SIZES))
    assert time.process_time() - started < 1
    assert laws.irreducible.shape == (400,)
    fitted = np.array([[laws.law(row).loss(*at) for at in zip(SIZES, TOKENS, strict=True)] for row in range(400)])
    assert float(np.abs(fitted - LOSSES).mean()) < 0.005


def test_equal_rows_have_equal_laws() -> None:
    laws = fit_loss_laws(SIZES, TOKENS, np.array([LOSSES, LOSSES]), [0.001] * len(SIZES))
    assert laws.law(0) == laws.law(1)


def test_too_few_points_are_refused() -> None:
    with pytest.raises(SpecError, match="at least 3 distinct points of size and tokens, got 2") as caught:
        fit_loss_law([1e4, 2e4, 2e4], [1e6, 2e6, 2e6], [2.0, 1.9, 1.9], [0.01] * 3)
    assert caught.value.hint


def test_bad_input_is_refused() -> None:
    good = [SIZES[:3], TOKENS[:3], LOSSES[:3], [0.01] * 3]
    for place in range(4):
        for bad in (math.nan, math.inf):
            with pytest.raises(InputError, match="not finite"):
                fit_loss_law(*[[*row[:2], bad] if place == index else row for index, row in enumerate(good)])
    for place, name in ((0, "sizes"), (1, "tokens")):
        with pytest.raises(InputError, match=f"{name} must be above 0, got 0"):
            fit_loss_law(*[[*row[:2], 0.0] if place == index else row for index, row in enumerate(good)])
    with pytest.raises(InputError, match="standard errors must be at least 0, got -1"):
        fit_loss_law(*good[:3], [0.01, 0.01, -1.0])
    for place, name in ((1, "tokens"), (2, "losses"), (3, "errors")):
        with pytest.raises(InputError, match=f"{name} must have one value per size, got 2 for 3 sizes"):
            fit_loss_law(*[row[:2] if place == index else row for index, row in enumerate(good)])
    with pytest.raises(SpecError, match="a size of 0 makes no sense"):
        LAW.loss(0.0, 1e6)
    with pytest.raises(SpecError, match="a number of tokens of nan makes no sense"):
        LAW.loss(1e4, math.nan)
