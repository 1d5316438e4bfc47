"""Weights come back from a page as true as it says, and a page has room for them."""

from __future__ import annotations

import numpy as np
import pytest

from attnlab.pages.maps import LEVELS, STEP, PackedMap, Quantiser, choose_levels, pack, unpack

N = 40
CAUSAL = np.tril(np.ones((N, N), dtype=bool))


def some_weights(sharpness: float = 1.0, size: int = N, seed: int = 0) -> np.ndarray:
    """Softmax of random scores behind a causal mask."""
    causal = np.tril(np.ones((size, size), dtype=bool))
    scores = np.where(causal, sharpness * np.random.default_rng(seed).normal(size=(size, size)), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("levels", LEVELS)
def test_weights_are_as_true_as_is_said(levels: int) -> None:
    weights, steps = some_weights(2.0), Quantiser(levels)
    read = unpack(pack(weights, CAUSAL, levels), CAUSAL, levels)
    assert np.isnan(read[~CAUSAL]).all()
    wrong = np.abs(read - weights)[CAUSAL]
    assert wrong.max() <= STEP / 2 + 1e-7
    assert all(error <= steps.error(weight) + 1e-7 for error, weight in zip(wrong, weights[CAUSAL], strict=True))
    assert wrong.max() > 0, "some rounding must show, or nothing was tested"


@pytest.mark.parametrize("levels", LEVELS)
def test_what_is_said_is_not_too_careful(levels: int) -> None:
    """An error that no weight comes near would hide a better one."""
    shares = np.linspace(0, 1, 200_001)
    steps = Quantiser(levels)
    wrong = np.abs(steps.decode(steps.encode(shares)) - shares)
    assert wrong.max() == pytest.approx(STEP / 2, rel=0.05)
    near = np.abs(shares - 0.01) < 0.002
    assert wrong[near].max() > 0.5 * steps.error(0.01)


def test_zero_and_the_largest_are_exact() -> None:
    weights = np.zeros((N, N))
    weights[:, 0] = 1
    for levels in LEVELS:
        assert np.array_equal(unpack(pack(weights, CAUSAL, levels), CAUSAL, levels)[CAUSAL], weights[CAUSAL])


@pytest.mark.parametrize(("factor", "scale"), [(7.0, 8.0), (0.01, 2.0**-6), (1.0, 1.0)])
def test_other_ranges_have_their_own_scale(factor: float, scale: float) -> None:
    weights = factor * some_weights()
    packed = pack(weights, CAUSAL, 32)
    assert packed.scale == scale
    assert np.abs(unpack(packed, CAUSAL, 32) - weights)[CAUSAL].max() <= scale * STEP / 2 * 1.001


def test_weights_below_zero_and_those_that_are_none() -> None:
    weights = np.random.default_rng(1).normal(size=(N, N))
    weights[3, 1], weights[5, 2] = np.nan, np.inf
    packed = pack(weights, CAUSAL, 2000)
    read = unpack(packed, CAUSAL, 2000)
    assert packed.signed
    assert np.isnan(read[3, 1])
    assert np.isnan(read[5, 2])
    known = CAUSAL & np.isfinite(weights)
    assert np.abs(read - weights)[known].max() <= packed.scale * STEP / 2 * 1.001
    assert np.isfinite(read[known]).all()


def test_a_map_without_any_cell() -> None:
    nothing = np.zeros((2, 3), dtype=bool)
    packed = pack(np.ones((2, 3)), nothing, 32)
    assert packed.scale == 1
    assert np.isnan(unpack(packed, nothing, 32)).all()


def test_the_page_gets_the_finest_steps_that_fit() -> None:
    maps = [(some_weights(1.0, 64, seed), np.tril(np.ones((64, 64), dtype=bool))) for seed in range(20)]

    def letters(levels: int) -> int:
        return sum(len(pack(weights, visible, levels).data) for weights, visible in maps)

    assert choose_levels(maps, 10**9) == LEVELS[0]
    assert choose_levels([], 10) == LEVELS[0]
    assert choose_levels(maps, 10) == LEVELS[-1]
    room = letters(32) + 2000
    chosen = choose_levels(maps, room)
    assert LEVELS[-1] < chosen < LEVELS[0]
    assert letters(chosen) <= room


def test_a_page_of_gpt2_has_room() -> None:
    """12 × 12 heads and 512 tokens in 14 million letters, at any sharpness."""
    visible = np.tril(np.ones((512, 512), dtype=bool))
    for sharpness in (0.1, 1.5, 4.0):
        weights = some_weights(sharpness, 512)
        levels = choose_levels([(weights, visible)] * 144, 14_000_000)
        assert 144 * len(pack(weights, visible, levels).data) <= 14_000_000
        assert levels >= 8, "small weights can still be told apart"


def test_packing_is_the_same_each_time() -> None:
    packed = pack(some_weights(), CAUSAL, 64)
    assert packed == pack(some_weights(), CAUSAL, 64)
    assert isinstance(packed, PackedMap)
