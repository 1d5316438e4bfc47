"""Peak memory against calls whose allocations are known."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention import variant
from attnlab.bench import CallSize, peak_bytes
from attnlab.bench.cases import SpecCases, fused_softmax
from attnlab.bench.processes import MEBIBYTE, highest_sum
from attnlab.errors import UnsupportedError

TENSOR = torch.zeros(MEBIBYTE // 4)  # of one mebibyte


def test_highest_sum() -> None:
    assert highest_sum([]) == 0
    assert highest_sum([-5, 3]) == 0
    assert highest_sum([4, -4, 3, 3, -1]) == 6


def test_what_a_call_returns_counts() -> None:
    assert peak_bytes(lambda: TENSOR.clone()) == MEBIBYTE
    assert peak_bytes(lambda: (TENSOR.clone(), TENSOR.clone())) == 2 * MEBIBYTE


def test_what_a_call_releases_counts_until_then() -> None:
    def both() -> None:
        first = TENSOR.clone()
        second = first.clone()
        del first, second

    def one_after_another() -> None:
        TENSOR.clone()
        TENSOR.clone()

    assert peak_bytes(both) == 2 * MEBIBYTE
    assert peak_bytes(one_after_another) == MEBIBYTE


def test_what_was_there_before_does_not_count() -> None:
    held = [TENSOR.clone()]
    assert peak_bytes(lambda: held[0].add_(1)) < MEBIBYTE
    assert peak_bytes(held.clear) == 0


def test_what_a_first_call_leaves_behind_does_not_count() -> None:
    kept: list[Tensor] = []
    assert peak_bytes(lambda: kept or kept.append(TENSOR.clone())) == 0


def test_gradients_count() -> None:
    weight = torch.ones(MEBIBYTE // 4, requires_grad=True)
    upstream = torch.ones(MEBIBYTE // 4)
    peak = peak_bytes(lambda: torch.autograd.grad(weight.exp(), weight, upstream))
    assert peak == 2 * MEBIBYTE  # the output, which its own derivative needs, and the gradient


@pytest.mark.parametrize("tokens", [256, 512])
def test_materialised_softmax_holds_a_matrix_per_head(tokens: int) -> None:
    size = CallSize(batch=1, heads=2, tokens=tokens, width=16)
    matrix = 2 * tokens * tokens * 4
    assert size.scores_bytes == matrix
    contest = SpecCases(size.spec_of(variant("softmax")), size)
    assert peak_bytes(contest.reference().forward) >= matrix
    assert peak_bytes(contest.reference().forward_backward) >= 2 * matrix
    assert peak_bytes(fused_softmax(size).forward_backward) < matrix


def test_the_peak_is_the_same_each_time() -> None:
    query = torch.randn(1, 2, 128, 16, requires_grad=True)

    def call() -> object:
        output = F.scaled_dot_product_attention(query, query, query, is_causal=True)
        return torch.autograd.grad(output, query, torch.ones_like(output))

    assert peak_bytes(call) == peak_bytes(call) > 0


def test_another_device_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"^memory is not measured on 'meta'"):
        peak_bytes(lambda: None, "meta")
