"""Key and value heads that query heads share: kept, differentiated and cached once, and never repeated."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from attnlab.attention import AttentionSpec, Cache, InnerProduct, Matched, MultiHeadAttention, Score, attend, variant
from attnlab.attention import gradients as hand_written
from attnlab.attention.groups import run_length, shared_by, stacked
from attnlab.attention.kernels import blocked
from attnlab.attention.parts import Part
from support.attention import CONTEXT, WIDTH, assert_conforms, by_kernel, make_inputs, with_gradients

HEADS = 6
JOINED = [
    *("softmax", "softmax-sink", "scalable-softmax", "cosine-learned", "qk-norm"),  # fused
    *("sigmoid", "l2", "alibi", "window", "entmax15", "stick-breaking", "low-rank-value"),  # blocked
    *("synthesizer-dense", "synthesizer-random", "linear", "output-gate"),
]


class Weighted(Score):
    """A score of the user's own with a number per head on the keys, which shared keys cannot have."""

    kind: ClassVar[str] = "test-weighted"
    equation: ClassVar[str] = "q·k g"
    pure_product: ClassVar[bool] = True

    def define(self, given: Matched) -> Tensor:
        query, key = given.vectors
        return query @ self._weighted(key).mT

    def logits(self, given: Matched) -> InnerProduct:
        query, key = given.vectors
        return InnerProduct(query, self._weighted(key))

    def _weighted(self, key: Tensor) -> Tensor:
        return key * torch.linspace(0.5, 1, HEADS, dtype=key.dtype)[:, None, None]


del Part._known[Weighted.family, Weighted.kind]  # other tests list all kinds


def grouped(name: str, groups: int) -> AttentionSpec:
    return variant(name).spec(WIDTH, HEADS, CONTEXT).replace(num_key_value_heads=groups)


def kept(run: object) -> list[Tensor]:
    """The tensors that autograd keeps."""
    found: list[Tensor] = []
    with saved_tensors_hooks(lambda tensor: found.append(tensor) or tensor, lambda tensor: tensor):
        run()  # type: ignore[operator]
    return found


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("name", JOINED)
def test_kernel_equals_reference(name: str, groups: int) -> None:
    spec = grouped(name, groups)
    assert_conforms(make_inputs(spec, 70), spec, torch.float64)
    padding = torch.ones(2, 70, dtype=torch.bool)
    padding[0, 40:] = padding[1, :3] = False
    assert_conforms(make_inputs(spec, 70), spec, torch.float64, padding=padding)


@pytest.mark.parametrize("name", ["sigmoid", "l2", "alibi", "linear"])
@pytest.mark.parametrize("most", [1, 2, 4])
def test_runs_of_heads_within_a_group(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long block leaves room for few heads at once."""
    spec = grouped(name, 1)
    inputs = make_inputs(spec, 70)
    whole = with_gradients(by_kernel, inputs, spec)
    monkeypatch.setattr(blocked, "_CACHED", most * 64 * 70)
    monkeypatch.setattr(hand_written, "_CACHED", most * 2 * 70 * spec.key_width)
    for found, true in zip(with_gradients(by_kernel, inputs, spec), whole, strict=True):
        torch.testing.assert_close(found, true, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["softmax", "softmax-sink", "sigmoid", "linear"])
def test_nothing_is_kept_repeated(name: str) -> None:
    spec = grouped(name, 2)
    inputs = make_inputs(spec, 70, dtype=torch.float32)
    places = {tensor.data_ptr() for tensor in kept(lambda: by_kernel(inputs, spec))}
    assert {inputs.key.data_ptr(), inputs.value.data_ptr()} <= places
    sizes = sorted(tensor.numel() for tensor in kept(lambda: by_kernel(inputs, spec)))
    large = 2 * HEADS * 70 * spec.key_width
    assert sizes.count(large) <= 2  # the queries, and the output where the kernel keeps it
    assert sizes.count(large // 3) == 2  # keys and values


def test_a_score_that_does_not_take_groups_gets_repeated_keys() -> None:
    spec = grouped("softmax", 2).replace(score=Weighted())
    assert_conforms(make_inputs(spec, 70), spec, torch.float64)
    assert_conforms(make_inputs(spec.replace(normaliser="sigmoid"), 70), spec, torch.float64)


def test_one_query_on_shared_keys() -> None:
    spec = grouped("softmax", 2)
    inputs = make_inputs(spec, 1, keys=9)
    found = attend(inputs.query, inputs.key, inputs.value, spec, query_start=8)
    true, _ = attend(inputs.query, inputs.key, inputs.value, spec, query_start=8, return_weights=True)
    torch.testing.assert_close(found, true)


def test_a_state_is_that_of_the_shared_heads() -> None:
    spec = grouped("linear", 2)
    layer, cache = MultiHeadAttention(spec).double(), Cache()
    x = torch.randn(2, 9, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        parts = [layer(x[:, start : start + 3], cache=cache) for start in (0, 3, 6)]
        torch.testing.assert_close(torch.cat(parts, 1), layer(x))
    assert cache.state is not None
    assert cache.state.shape == (2, 2, spec.key_width, spec.value_width + 1)


def test_runs_hold_whole_groups_or_lie_within_one() -> None:
    assert [run_length(most, 6) for most in (0, 1, 2, 3, 5, 6, 7, 13)] == [1, 1, 2, 3, 3, 6, 6, 12]
    assert shared_by(slice(6, 12), 3) == slice(2, 4)
    assert shared_by(slice(2, 4), 6) == slice(0, 1)
    assert stacked(torch.zeros(6, 5, 4), 2).shape == (2, 15, 4)
