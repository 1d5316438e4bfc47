"""Attention on plain matrices, the moments of random scores, and how sharp weights are."""

from __future__ import annotations

import math

import pytest
import torch

from attnlab.attention import (
    Cosine,
    Dot,
    Mask,
    Sparsemax,
    dot_mean,
    dot_variance,
    draw_scores,
    one_head,
    softmax_slope,
    weight_entropy,
)
from attnlab.errors import InputError


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def test_one_head_is_the_equation() -> None:
    Q, K, V = draw(4, 3), draw(5, 3), draw(5, 2)
    output, weights = one_head(Q, K, V)
    expected = torch.softmax(Q @ K.T / math.sqrt(3), dim=-1)
    assert torch.allclose(weights, expected)
    assert torch.allclose(output, expected @ V)


def test_one_query_gets_one_row() -> None:
    q, K, V = draw(3), draw(5, 3), draw(5, 2)
    output, weights = one_head(q, K, V, score=Dot())
    assert output.shape == (2,)
    assert torch.allclose(weights, torch.softmax(K @ q, dim=0))


def test_what_stands_before_is_broadcast() -> None:
    q, K, V = draw(3), draw(7, 5, 3), draw(5, 2)
    output, weights = one_head(q, K, V, score=Cosine())
    assert output.shape == (7, 2)
    assert weights.shape == (7, 5)
    assert torch.allclose(output[4], one_head(q, K[4], V, score=Cosine())[0])
    assert one_head(draw(2, 1, 4, 3), draw(6, 5, 3), V)[0].shape == (2, 6, 4, 2)


def test_mask_and_normaliser_are_used() -> None:
    Q = draw(4, 3)
    assert torch.equal(one_head(Q, Q, Q, mask=Mask())[1].triu(1), torch.zeros(4, 4, dtype=torch.float64))
    assert (one_head(10 * Q, Q, Q, normaliser=Sparsemax())[1] == 0).any()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="a row for each token"):
        one_head(draw(3), draw(3), draw(5, 2))
    with pytest.raises(InputError, match="do not fit together"):
        one_head(draw(2, 4, 3), draw(3, 5, 3), draw(5, 2))
    with pytest.raises(InputError):
        one_head(draw(4, 2), draw(5, 3), draw(5, 2))


@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 1.0), (1.5, 0.5)])
def test_moments_of_random_scores(mean: float, deviation: float) -> None:
    drawn = draw_scores(40_000, 1, 12, mean=mean, deviation=deviation).flatten()
    variance = dot_variance(12, mean, deviation)
    assert float(drawn.mean()) == pytest.approx(dot_mean(12, mean), abs=5 * math.sqrt(variance / 40_000))
    assert float(drawn.var()) == pytest.approx(variance, rel=0.05)
    assert dot_variance(12) == 12


def test_rows_of_scores_share_a_query_and_are_drawn_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnlab.attention.blackboard._NUMBERS", 60)
    found = draw_scores(400, 4, 2, generator=torch.Generator().manual_seed(3))
    assert found.shape == (400, 4)
    assert torch.equal(found, draw_scores(400, 4, 2, generator=torch.Generator().manual_seed(3)))
    # A long query makes all scores of its row large, so that their squares go together.
    squares = found.square()
    assert float(torch.corrcoef(squares[:, :2].T)[0, 1]) > 0.15
    with pytest.raises(InputError):
        draw_scores(0, 4, 6)


def test_entropy_and_slope() -> None:
    even, alone = torch.full((8,), 1 / 8, dtype=torch.float64), torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    assert float(weight_entropy(even)) == pytest.approx(math.log(8))
    assert float(weight_entropy(alone)) == 0
    assert float(softmax_slope(alone)) == 0
    scores = draw(6)
    slope = torch.autograd.functional.jacobian(lambda s: torch.softmax(s, dim=-1), scores).trace()
    assert float(softmax_slope(torch.softmax(scores, dim=-1))) == pytest.approx(float(slope))
