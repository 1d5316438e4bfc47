"""The calls that are timed: the right tensors, and the same result in each way."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from attnlab.attention import Entmax, Variant, variant, variants
from attnlab.bench import CallSize
from attnlab.bench.attention import input_bytes
from attnlab.bench.cases import Inputs, SpecCases, fused_softmax, has_peer, learned
from attnlab.errors import SpecError

SIZE = CallSize(batch=2, heads=4, tokens=48, width=8)
ALL = pytest.mark.parametrize("name", [variant.name for variant in variants()])


@ALL
def test_variant_and_reference_compute_the_same(name: str) -> None:
    contest = SpecCases(SIZE.spec_of(variant(name)), SIZE)
    ours, reference = contest.variant(), contest.reference()
    torch.testing.assert_close(ours.forward(), reference.forward(), atol=1e-5, rtol=1e-4)
    for one, other in zip(ours.forward_backward(), reference.forward_backward(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)


@ALL
def test_inputs_have_the_shapes_of_their_spec(name: str) -> None:
    spec = SIZE.spec_of(variant(name))
    inputs = Inputs.make(spec, SIZE)
    keys = spec.num_key_value_heads
    assert inputs.value.shape == (2, keys, 48, spec.value_width)
    assert (inputs.key is not None) == spec.score.projects_key
    assert inputs.key is None or inputs.key.shape == (2, keys, 48, spec.key_width)
    assert (inputs.query is not None) == spec.score.projects_query
    assert inputs.query is None or inputs.query.shape == (2, spec.num_heads, 48, spec.key_width)
    shapes = {name: one.stored_shape(spec.num_heads) for name, one in learned(spec).items()}
    shapes |= {name: (2, one.heads(spec.num_heads), 48, one.width) for name, one in spec.projections.items()}
    assert {name: tuple(extra.shape) for name, extra in inputs.extras.items()} == shapes
    assert all(tensor.requires_grad for tensor in inputs.leaves)
    if spec.sharing == "none":
        assert sum(tensor.nbytes for tensor in inputs.leaves) == input_bytes(spec, SIZE)


@pytest.mark.parametrize(("name", "count"), [("softmax", 3), ("tied-kv", 2), ("tied-qk", 2), ("tied-qkv", 1)])
def test_what_is_one_vector_is_one_tensor(name: str, count: int) -> None:
    assert len(Inputs.make(SIZE.spec_of(variant(name)), SIZE).leaves) == count


def test_the_baseline_is_the_softmax_variant() -> None:
    baseline = fused_softmax(SIZE)
    assert baseline.forward().shape == (2, 4, 48, 8)
    query, key, value = baseline.inputs
    scores = (query @ key.mT / 8**0.5).masked_fill(~torch.ones(48, 48, dtype=torch.bool).tril(), float("-inf"))
    torch.testing.assert_close(baseline.forward(), (scores.softmax(-1) @ value).detach(), atol=1e-5, rtol=1e-4)
    assert [gradient.shape for gradient in baseline.forward_backward()] == [query.shape] * 3
    everywhere = fused_softmax(SIZE, causal=False).forward()
    assert not torch.equal(everywhere, baseline.forward())


def test_forward_builds_no_graph() -> None:
    assert not fused_softmax(SIZE).forward().requires_grad


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "entmax", "entmax-1.3", "sparsemax+window", "entmax15+gqa"])
def test_the_peer_computes_the_same(name: str) -> None:
    pytest.importorskip("entmax")
    odd = Variant("entmax-1.3", "", {"normaliser": Entmax(alpha=1.3)})
    size = replace(SIZE, tokens=300)  # longer than the window
    spec = size.spec_of(odd if name == odd.name else variant(name))
    assert has_peer(spec)
    contest = SpecCases(spec, size)
    ours, peer = contest.variant(), contest.peer()
    torch.testing.assert_close(ours.forward(), peer.forward(), atol=1e-4, rtol=1e-3)
    for one, other in zip(ours.forward_backward(), peer.forward_backward(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-2)


def test_few_have_a_peer() -> None:
    assert [one.name for one in variants() if has_peer(SIZE.spec_of(one))] == ["sparsemax", "entmax15", "entmax"]
    assert not has_peer(SIZE.spec_of(variant("softmax")).replace(normaliser=Entmax(alpha=1.0)))


@pytest.mark.parametrize("name", ["batch", "heads", "tokens", "width"])
@pytest.mark.parametrize("number", [0, -3])
def test_an_impossible_size_is_refused(name: str, number: int) -> None:
    with pytest.raises(SpecError, match=f"at {name} {number} is impossible"):
        CallSize(**{name: number})
