"""Specs and shapes drawn at random: what is refused has a nearest that works, and what works conforms."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import torch
from hypothesis import given, settings

from attnlab.attention import AttentionSpec, Mask, MultiHeadAttention
from attnlab.errors import SpecError
from support.attention import assert_conforms, make_inputs

SCORES: list[Any] = [
    "scaled-dot",
    "dot",
    "cosine",
    {"kind": "cosine", "temperature": 0.2},
    {"kind": "cosine", "temperature": "learned"},
    "l2",
    "synthesizer-dense",
    "synthesizer-random",
]
NORMALISERS = st.one_of(
    st.sampled_from(["softmax", "softmax-plus-one", "sigmoid", "relu", "squared-relu", "sparsemax", "softpick"]),
    st.builds(lambda alpha: {"kind": "entmax", "alpha": alpha}, st.floats(1.0, 2.0)),
)
MASKS = st.one_of(
    st.builds(Mask, causal=st.booleans(), window=st.none() | st.integers(1, 90)),
    st.builds(Mask, prefix=st.integers(1, 90)),
)
LENGTHS = st.integers(1, 90)


@st.composite
def specs(draw: st.DrawFn) -> AttentionSpec:
    """A spec; where the draw is impossible, the nearest that is possible."""
    heads = draw(st.integers(1, 4))
    fields: dict[str, Any] = {
        "model_width": draw(st.integers(2, 4)) * heads,
        "num_heads": heads,
        "num_key_value_heads": draw(st.integers(1, heads)),
        "key_width": draw(st.integers(2, 9)),  # the direction of one number has no gradient
        "value_width": draw(st.integers(1, 9)),
        "score": draw(st.sampled_from(SCORES)),
        "normaliser": draw(NORMALISERS),
        "sharing": draw(st.sampled_from(["none", "key-value", "query-key", "query-key-value", "identity"])),
        "value_map": draw(st.sampled_from(["factored", "factored", "full"])),
        "join": draw(st.sampled_from(["projection", "average"])),
        "mask": draw(MASKS),
        "source": draw(st.sampled_from(["self", "cross"])),
        "position": draw(st.sampled_from([None, "learned", "rope", "alibi", "none"])),
        "operator": draw(st.sampled_from([None, None, None, "linear"])),
        "bias": draw(st.booleans()),
    }
    try:
        return AttentionSpec(**fields)
    except SpecError as error:
        if not isinstance(error.nearest, AttentionSpec):
            raise
        return error.nearest


@settings(max_examples=150)
@given(spec=specs(), queries=LENGTHS, keys=LENGTHS, padded=st.booleans(), data=st.data())
def test_whatever_can_be_built_conforms(
    spec: AttentionSpec, queries: int, keys: int, padded: bool, data: st.DataObject
) -> None:
    torch.manual_seed(0)
    if spec.source == "self":
        keys = queries
    if spec.context_length is not None:
        spec = spec.replace(context_length=max(queries, keys))
    options = {"padding": torch.rand(2, keys) < data.draw(st.floats(0, 1))} if padded else {}
    assert_conforms(make_inputs(spec, queries, keys), spec, torch.float64, **options)


@settings(max_examples=80)
@given(spec=specs(), tokens=st.integers(1, 20))
def test_whatever_can_be_built_is_a_layer_that_learns(spec: AttentionSpec, tokens: int) -> None:
    torch.manual_seed(0)
    assert AttentionSpec.from_json(spec.to_json()) == spec
    layer = MultiHeadAttention(spec)
    x = torch.randn(2, tokens, spec.model_width, requires_grad=True)
    source = torch.randn(2, 7, spec.model_width) if spec.source == "cross" else None
    output = layer(x, source)
    assert output.shape == x.shape
    output.sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())
    assert all(bool(parameter.grad.isfinite().all()) for parameter in layer.parameters())
