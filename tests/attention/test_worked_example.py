"""The discussion sheet's example, to every digit that it prints."""

from __future__ import annotations

import pytest
import torch

from attnlab.attention import AttentionSpec, Mask, MultiHeadAttention, attend

X = torch.tensor([[2.0, 3.0], [-1.0, 0.0], [1.0, -2.0]], dtype=torch.float64)
W_Q = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, -3.0]], dtype=torch.float64)
W_K = torch.tensor([[0.0, 0.0, -1.0], [-2.0, 0.0, 1.0]], dtype=torch.float64)
W_V = torch.tensor([[8.0, 0.0], [0.0, 9.0]], dtype=torch.float64)

SPEC = AttentionSpec(
    model_width=2, num_heads=1, key_width=3, value_width=2, score="dot", mask=Mask(causal=False), bias=False
)


def test_the_vectors() -> None:
    layer = MultiHeadAttention(SPEC).double()
    for name, weight in (("query", W_Q), ("key", W_K), ("value", W_V)):
        layer.projections[name].weight.data = weight.T
    # The sheet prints +2 as the last number of the second query; 2·(−1) − 3·0 is −2. Nothing later uses it.
    assert layer.projections["query"](X).tolist() == [[2, 3, -5], [-1, 0, -2], [1, -2, 8]]
    assert layer.projections["key"](X).tolist() == [[-6, 0, 1], [0, 0, 1], [4, 0, -3]]
    assert layer.projections["value"](X).tolist() == [[16, 27], [-8, 0], [8, -18]]
    layer.output.weight.data = torch.eye(2, dtype=torch.float64)
    output, weights = layer(X[None], return_weights=True)
    assert [f"{a:.5f}" for a in weights[0, 0, 2, :2].tolist()] == ["0.00247", "0.99753"]
    assert f"{output[0, 2, 0]:.2f}" == "-7.94"
    assert f"{output[0, 2, 1]:.3f}" == "0.067"


def test_scores_weights_and_output() -> None:
    query, key, value = ((X @ weight)[None, None] for weight in (W_Q, W_K, W_V))
    scores = query[0, 0] @ key[0, 0].T
    assert scores[2].tolist() == [2, 8, -20]
    output, weights = attend(query, key, value, SPEC, return_weights=True)
    third = weights[0, 0, 2].tolist()
    assert [f"{third[0]:.5f}", f"{third[1]:.5f}", f"{third[2]:.2e}"] == ["0.00247", "0.99753", "6.90e-13"]
    assert weights.sum(-1).flatten().tolist() == pytest.approx([1, 1, 1])
    for result in (output, attend(query, key, value, SPEC)):  # the reference, and the kernel
        assert [f"{result[0, 0, 2, 0]:.2f}", f"{result[0, 0, 2, 1]:.3f}"] == ["-7.94", "0.067"]
    rows = sum(weights[0, 0, 2, j] * value[0, 0, j] for j in range(3))
    torch.testing.assert_close(output[0, 0, 2], rows)
