"""Dropout from a counter: as random as it must be, the same each time, governed by PyTorch's seed."""

from __future__ import annotations

import pytest
import torch

from attnlab.attention import AttentionSpec, MultiHeadAttention, attend
from attnlab.attention.kernels.dropout import WeightDropout
from support.attention import by_kernel, make_inputs

WHOLE = slice(None), slice(None), slice(None)


def kept(seed: int, rate: float = 0.25, heads: int = 8, tokens: int = 256) -> torch.Tensor:
    return WeightDropout(rate, torch.tensor(seed)).grid(heads, tokens, tokens).bits(*WHOLE) != 0


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
def test_the_rate_is_met(rate: float) -> None:
    draws = kept(1, rate)
    error = (rate * (1 - rate) / draws.numel()) ** 0.5
    assert abs(float((~draws).double().mean()) - rate) < 4 * error


def test_rows_columns_and_heads_are_independent() -> None:
    """Counts of rows and columns vary as binomials do, and neighbours in every direction agree as chance has it."""
    rate = 0.25
    draws = (~kept(2, rate)).double()
    for dimension in (0, 1, 2):
        counts = draws.sum(dimension)
        expected = draws.shape[dimension] * rate * (1 - rate)
        assert float(counts.var()) / expected == pytest.approx(1, abs=0.15)
        for step in (1, 2, 7):
            length = draws.shape[dimension] - step
            a, b = draws.narrow(dimension, 0, length), draws.narrow(dimension, step, length)
            both = float((a * b).mean())
            assert abs(both - rate**2) < 5 * (rate**2 * (1 - rate**2) / a.numel()) ** 0.5
    # Four corners of a rectangle: a product of a row's and a column's number could tie them together.
    corners = draws[:, :-1, :-1] * draws[:, 1:, :-1] * draws[:, :-1, 1:] * draws[:, 1:, 1:]
    assert abs(float(corners.mean()) - rate**4) < 6 * (rate**4 / corners.numel()) ** 0.5


def test_seeds_give_other_draws() -> None:
    assert torch.equal(kept(3), kept(3))
    for other in (4, 3 + 2**31, 3 + 2**40):
        agreement = float((kept(3) == kept(other)).double().mean())
        assert agreement == pytest.approx(0.25**2 + 0.75**2, abs=0.01)


def test_a_block_is_a_piece_of_the_whole() -> None:
    grid = WeightDropout(0.3, torch.tensor(5)).grid(4, 100, 90)
    piece = slice(1, 3), slice(20, 41), slice(7, 80)
    assert torch.equal(grid.bits(*piece), grid.bits(*WHOLE)[piece])


def test_manual_seed_governs_it_and_the_mean_is_kept() -> None:
    spec = AttentionSpec(model_width=8, num_heads=2, normaliser="sigmoid", weight_dropout=0.4)
    inputs = make_inputs(spec, 20)
    torch.manual_seed(1)
    first = by_kernel(inputs, spec, training=True)
    second = by_kernel(inputs, spec, training=True)
    torch.manual_seed(1)
    assert torch.equal(first, by_kernel(inputs, spec, training=True))
    assert not torch.equal(first, second)
    plain = by_kernel(inputs, spec)
    draws = torch.stack([by_kernel(inputs, spec, training=True).detach() for _ in range(400)])
    error = draws.std(0) / 400**0.5
    assert float(((draws.mean(0) - plain).abs() / error).detach().max()) < 5


def test_dropout_is_for_training_only() -> None:
    spec = AttentionSpec(model_width=8, num_heads=2, weight_dropout=0.5, output_dropout=0.5)
    layer = MultiHeadAttention(spec)
    tokens = torch.randn(1, 20, 8)
    assert not torch.equal(layer(tokens), layer(tokens))
    layer.eval()
    assert torch.equal(layer(tokens), layer(tokens))
    query = torch.randn(1, 2, 20, 4)
    assert torch.equal(attend(query, query, query, spec), attend(query, query, query, spec))
