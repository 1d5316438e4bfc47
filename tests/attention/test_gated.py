"""Forgetting, differential and exclusive attention by their equations, and what they refuse."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from attnlab.attention import AttentionSpec, Cache, Mask, MultiHeadAttention, attend, variant
from attnlab.cost import attention_cost
from attnlab.errors import InputError, SpecError
from support.attention import Inputs, by_kernel, make_inputs, weights_of

TOKENS = 9
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def small(name: str, **fields: object) -> AttentionSpec:
    return variant(name).spec(24, 4, TOKENS, **fields)


def causal() -> Tensor:
    return torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()


def softmax(scores: Tensor) -> Tensor:
    return scores.masked_fill(~causal(), -math.inf).softmax(-1)


def vectors(inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    assert inputs.query is not None
    assert inputs.key is not None
    return inputs.query, inputs.key, inputs.value


def test_forgetting_lowers_scores_by_every_gate_on_the_way() -> None:
    spec = small("forgetting")
    inputs = make_inputs(spec, TOKENS)
    query, key, _ = vectors(inputs)
    gates = torch.sigmoid(inputs.extras["forget"][..., 0] + inputs.extras["forget_bias"][:, None])
    scores = query @ key.mT / math.sqrt(spec.key_width)
    for i in range(TOKENS):
        for j in range(i):
            scores[..., i, j] = scores[..., i, j] + gates[..., j + 1 : i + 1].log().sum(-1)
    torch.testing.assert_close(weights_of(inputs, spec), softmax(scores), **CLOSE)


def test_a_gate_that_is_open_forgets_nothing() -> None:
    spec = small("forgetting")
    inputs = make_inputs(spec, TOKENS)
    inputs.extras["forget_bias"].data.fill_(60.0)
    torch.testing.assert_close(by_kernel(inputs, spec), by_kernel(inputs, spec.replace(score="scaled-dot")), **CLOSE)


def test_padding_between_real_tokens_makes_nothing_forgotten() -> None:
    spec = small("forgetting")
    inputs = make_inputs(spec, TOKENS)
    real = torch.ones(2, TOKENS, dtype=torch.bool)
    real[:, 3:5] = False
    padded = by_kernel(inputs, spec, padding=real)[:, :, real[0]]
    cut = inputs.mapped(lambda tensor: tensor[:, :, real[0]] if tensor.dim() == 4 else tensor)
    torch.testing.assert_close(padded, by_kernel(cut, spec), **CLOSE)


def test_forgetting_decodes_from_a_window_of_gates() -> None:
    spec = small("forgetting").replace(mask=Mask(window=4))
    layer = MultiHeadAttention(spec).double()
    x = torch.randn(2, TOKENS, 24, dtype=torch.float64) * 5
    cache = Cache()
    with torch.no_grad():
        whole = layer(x)
        parts = torch.cat([layer(x[:, place : place + 1], cache=cache) for place in range(TOKENS)], dim=1)
    torch.testing.assert_close(parts, whole, **CLOSE)
    assert cache.held["forget"].shape == (2, 4, 4, 1)
    assert cache.nbytes == attention_cost(spec, batch=2, queries=1, keys=TOKENS, bytes_per_number=8).cache_bytes(TOKENS)


def test_a_pattern_would_hide_gates_that_count() -> None:
    spec = small("forgetting")
    with pytest.raises(InputError, match="does not accept your own mask"):
        by_kernel(make_inputs(spec, TOKENS), spec, visible=causal()[None, None])


def test_forgetting_and_stick_breaking_need_a_causal_mask() -> None:
    with pytest.raises(SpecError, match="forgetting and stick-breaking attends only to earlier tokens") as caught:
        small("forgetting").replace(normaliser="stick-breaking", source="cross", mask=Mask(causal=False))
    assert caught.value.nearest.score.kind == "scaled-dot"
    assert caught.value.nearest.normaliser.kind == "softmax"


def test_differential_attention_is_the_difference_of_two_maps() -> None:
    spec = small("differential")
    assert (spec.num_heads, spec.key_width, spec.value_width) == (2, 12, 12)
    inputs = make_inputs(spec, TOKENS)
    query, key, value = vectors(inputs)
    own = {name.removeprefix("normaliser_"): tensor for name, tensor in inputs.extras.items()}
    share = (
        (own["first_query"] @ own["first_key"]).exp() - (own["second_query"] @ own["second_key"]).exp() + 0.8
    )  # λ, one for all heads
    maps = [softmax(query[..., half::2] @ key[..., half::2].mT / math.sqrt(6)) for half in (0, 1)]
    weights = maps[0] - share * maps[1]
    torch.testing.assert_close(weights_of(inputs, spec), weights, **CLOSE)
    heads = weights @ value
    normed = heads * torch.rsqrt(heads.square().mean(-1, keepdim=True) + 1e-5)
    expected = 0.2 * normed * inputs.extras["head_output_gain"]
    torch.testing.assert_close(by_kernel(inputs, spec), expected, **CLOSE)


def test_differential_attention_adds_four_vectors_and_a_gain() -> None:
    plain, ours = (variant(name).spec(768, 12) for name in ("softmax", "differential"))
    assert (ours.num_heads, ours.key_width) == (6, 128)
    counts = [sum(p.numel() for p in MultiHeadAttention(spec).parameters()) for spec in (plain, ours)]
    assert counts[1] - counts[0] == 4 * 64 + 128
    assert attention_cost(ours, queries=8).parameters == counts[1]


def test_the_maps_of_differential_attention_depend_on_distances_with_rope() -> None:
    spec = small("differential", position="rope")
    assert spec.position is not None
    query, key, value = (tensor.detach() for tensor in vectors(make_inputs(spec, TOKENS)))
    extras = {name: tensor.detach() for name, tensor in make_inputs(spec, TOKENS).extras.items()}
    outputs = [
        attend(spec.position.rotate(query, start), spec.position.rotate(key, start), value, spec, extras=extras)
        for start in (0, 41)
    ]
    torch.testing.assert_close(*outputs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    "fields",
    [
        {"key_width": 3},
        {"key_width": 6, "position": "rope"},
        {"score": "synthesizer-random", "context_length": 8},
    ],
)
def test_what_cannot_be_halved_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(SpecError, match="cannot be halved") as caught:
        AttentionSpec(model_width=8, num_heads=2, normaliser="differential", **fields)
    assert caught.value.nearest.normaliser.kind == "softmax"


@pytest.mark.parametrize("groups", [4, 2])
def test_exclusive_heads_say_nothing_along_their_own_value(groups: int) -> None:
    spec = small("exclusive", num_key_value_heads=groups)
    inputs = make_inputs(spec, TOKENS)
    value = inputs.value.detach().repeat_interleave(4 // groups, 1)
    heads = by_kernel(inputs, spec.replace(head_output=None))
    along = (heads * value).sum(-1, keepdim=True) / value.square().sum(-1, keepdim=True)
    found = by_kernel(inputs, spec).detach()
    torch.testing.assert_close(found, heads - along * value, **CLOSE)
    assert float((found * value).sum(-1).abs().max()) < 1e-12
    assert float(found[:, :, 0].abs().max()) < 1e-12  # which sees itself alone


def test_exclusive_attention_has_no_meaning_across_sequences() -> None:
    with pytest.raises(SpecError, match="takes the token's own value") as caught:
        small("exclusive").replace(source="cross", mask=Mask(causal=False))
    assert caught.value.nearest.head_output is None


def test_replaced_weights_are_finished_with_the_own_value() -> None:
    """What an observer puts in the place of the weights goes on as the weights would."""
    layer = MultiHeadAttention(small("exclusive")).double()
    x = torch.randn(2, TOKENS, 24, dtype=torch.float64)

    class Same:
        def wants(self, *names: str) -> bool:
            return "weights" in names

        def offer(self, name: str, tensor: Tensor) -> Tensor | None:
            return tensor if name == "weights" else None

        def __call__(self, name: str, tensor: Tensor) -> Tensor:
            made = self.offer(name, tensor)
            return tensor if made is None else made

    plain = layer(x)
    layer.observer = Same()
    torch.testing.assert_close(layer(x), plain, **CLOSE)
