"""Attention one step at a time: the steps are those of the layer."""

from __future__ import annotations

import pytest
import torch

from attnlab.attention import AttentionSpec, Mask, MultiHeadAttention, attend, variants
from attnlab.attention.blackboard import follow
from attnlab.attention.functional import finish
from attnlab.errors import InputError, UnsupportedError

X = torch.randn(5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def make_layer(spec: AttentionSpec) -> MultiHeadAttention:
    torch.manual_seed(1)
    layer = MultiHeadAttention(spec).double()
    layer.reset_parameters(std=0.5)
    return layer


@pytest.mark.parametrize("variant", variants(), ids=lambda one: one.name)
def test_the_steps_end_where_the_layer_does(variant: object) -> None:
    layer = make_layer(variant.spec(model_width=12, num_heads=3, context_length=5))
    with torch.no_grad():
        steps, output = follow(layer, X), layer(X[None])[0]
        joined = layer._join(steps.output[None])[0]
    torch.testing.assert_close(joined, output)
    if layer.spec.operator is not None:
        assert steps.scores is None
        assert steps.weights is None
        return
    group = layer.spec.group_size
    values = steps.value.repeat_interleave(group, dim=0)
    heads = finish((steps.weights @ values)[None], layer.spec, layer.learned(X[None]), values[None])[0]
    torch.testing.assert_close(heads, steps.output)
    assert steps.weights[:, ~steps.visible].eq(0).all()


def test_a_factor_is_a_temperature() -> None:
    layer = make_layer(AttentionSpec(model_width=12, num_heads=3, mask=Mask(causal=False)))
    with torch.no_grad():
        plain, sharp = follow(layer, X), follow(layer, X, factor=2.0)
    torch.testing.assert_close(sharp.scores, 2 * plain.scores)
    torch.testing.assert_close(sharp.weights, torch.softmax(2 * plain.scores, -1))
    query = 2 * plain.query
    wanted = attend(query[None], plain.key[None], plain.value[None], layer.spec)
    torch.testing.assert_close(sharp.output[None], wanted)


def test_what_cannot_be_followed_is_refused() -> None:
    cross = make_layer(AttentionSpec(model_width=12, num_heads=3, source="cross", mask=Mask(causal=False)))
    with pytest.raises(UnsupportedError, match="only self-attention"):
        follow(cross, X)
    linear = make_layer(AttentionSpec(model_width=12, num_heads=3, operator="linear"))
    with pytest.raises(UnsupportedError, match="no scores to multiply"):
        follow(linear, X, factor=2.0)
    with pytest.raises(InputError, match="not \\(tokens, model width\\)"):
        follow(make_layer(AttentionSpec(model_width=12, num_heads=3)), X[None])
