"""The toy of superposition: what is dense gets a dimension each, what is sparse shares."""

from __future__ import annotations

import math

import pytest
import torch

from attnlab.errors import InputError
from attnlab.lens import feature_dimensions, learn_superposition


def regular(corners: int) -> torch.Tensor:
    angles = 2 * math.pi * torch.arange(corners) / corners
    return torch.stack((angles.cos(), angles.sin()))


@pytest.mark.parametrize(("weights", "shares"), [(torch.eye(3), 1.0), (regular(4), 0.5), (regular(5), 0.4)])
def test_dimensions_of_known_shapes(weights: torch.Tensor, shares: float) -> None:
    found = feature_dimensions(1.3 * weights)  # the length does not matter
    assert found.tolist() == pytest.approx([shares] * weights.shape[1])


def test_a_feature_that_is_not_there_has_no_dimension() -> None:
    assert feature_dimensions(torch.tensor([[1.0, 0.0]])).tolist() == [1.0, 0.0]


def test_sparse_features_share_dimensions_and_dense_ones_do_not() -> None:
    dense, sparse = learn_superposition(4, 2, (1.0, 0.05), beginnings=4, steps=500)
    assert dense.features_learned == pytest.approx(2, abs=0.1)
    assert sparse.features_learned > 3
    assert feature_dimensions(sparse.weights).tolist() == pytest.approx([0.5] * 4, abs=0.05)  # two opposite pairs
    assert sparse.loss == sparse.others[0] <= sparse.others[-1]


def test_enough_dimensions_lose_nothing() -> None:
    (found,) = learn_superposition(2, 2, (0.5,), beginnings=4, steps=600)
    assert found.loss < 1e-3


def test_the_same_seed_learns_the_same() -> None:
    watched: list[int] = []

    def watch(steps: object) -> object:
        for step in steps:  # type: ignore[attr-defined]
            watched.append(step)
            yield step

    one, other = (learn_superposition(3, 2, (0.5,), beginnings=2, steps=5, seed=4, watched=w)[0] for w in (iter, watch))
    assert torch.equal(one.weights, other.weights)
    assert watched == [0, 1, 2, 3, 4]
    another = learn_superposition(3, 2, (0.5,), beginnings=2, steps=5, seed=5)[0]
    assert not torch.equal(one.weights, another.weights)


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="from 1 on"):
        learn_superposition(0, 2, (1.0,))
    with pytest.raises(InputError, match="densities"):
        learn_superposition(5, 2, (0.0,))
    with pytest.raises(InputError, match="densities"):
        learn_superposition(5, 2, ())
