"""What must be equal: limits of one variant that are another, and implementations by other people."""

from __future__ import annotations

from dataclasses import replace

import entmax
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.attention import (
    AttentionSpec,
    Entmax,
    Entmax15,
    Mask,
    MultiHeadAttention,
    Normaliser,
    Rope,
    ScalableSoftmax,
    Softmax,
    SoftmaxCapped,
    Sparsemax,
    attend,
    variant,
)
from support.attention import CONTEXT, HEADS, WIDTH, by_kernel, make_inputs, matched

TOKENS = 70


def base(**fields: object) -> AttentionSpec:
    return AttentionSpec(model_width=WIDTH, num_heads=HEADS, **fields)


def close(found: Tensor, true: Tensor) -> None:
    torch.testing.assert_close(found, true, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("score", ["scaled-dot", "dot", "cosine", "l2"])
def test_softmax_plus_one_is_softmax_with_a_zero_key_and_value(score: str) -> None:
    """By explicit scores: a column of zeros beside the others, and a value of zeros for it."""
    spec = base(score=score, normaliser="softmax-plus-one")
    inputs = make_inputs(spec, TOKENS)
    ordinary = spec.replace(normaliser="softmax")
    scores = ordinary.score.define(matched(inputs, ordinary))
    hidden = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
    scores = F.pad(scores.masked_fill(hidden, float("-inf")), (1, 0))
    close(by_kernel(inputs, spec), torch.softmax(scores, -1) @ F.pad(inputs.value, (0, 0, 1, 0)))


@pytest.mark.parametrize("score", ["scaled-dot", "l2"])
def test_a_sink_is_a_key_with_its_score_and_a_value_of_zero(score: str) -> None:
    spec = base(score=score, normaliser="softmax-sink")
    inputs = make_inputs(spec, TOKENS)
    scores = spec.score.define(matched(inputs, spec))
    hidden = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
    sink = inputs.extras["normaliser_sink"].view(1, HEADS, 1, 1).expand(*scores.shape[:-1], 1)
    scores = torch.cat([sink, scores.masked_fill(hidden, float("-inf"))], dim=-1)
    close(by_kernel(inputs, spec), torch.softmax(scores, -1) @ F.pad(inputs.value, (0, 0, 1, 0)))
    at_zero = replace(inputs, extras={"normaliser_sink": torch.zeros(HEADS, dtype=torch.float64)})
    close(by_kernel(at_zero, spec), by_kernel(inputs, base(score=score, normaliser="softmax-plus-one")))


def test_a_cap_bounds_the_scores_and_a_large_one_changes_nothing() -> None:
    inputs = make_inputs(base(), TOKENS)
    ordinary, loose, tight = (
        by_kernel(inputs, base(normaliser=one)) for one in ("softmax", SoftmaxCapped(cap=1e7), SoftmaxCapped(cap=1e-7))
    )
    close(loose, ordinary)
    rows = torch.arange(1, TOKENS + 1)[:, None]
    torch.testing.assert_close(tight, inputs.value.cumsum(2) / rows, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cap", [64.0, 1e6])
def test_capped_scores_in_single_precision(cap: float) -> None:
    spec = base(normaliser=SoftmaxCapped(cap=cap))
    inputs = make_inputs(spec, TOKENS)
    single = replace(inputs, query=inputs.query.float(), key=inputs.key.float(), value=inputs.value.float())
    torch.testing.assert_close(by_kernel(single, spec).double(), by_kernel(inputs, spec), rtol=0, atol=1e-5)


def test_scalable_softmax_is_softmax_of_queries_times_log_n() -> None:
    spec = base(normaliser="scalable-softmax")
    inputs = make_inputs(spec, TOKENS)
    seen = torch.arange(1, TOKENS + 1, dtype=torch.float64)[:, None]
    factor = inputs.extras["normaliser_sharpness"].view(HEADS, 1, 1) * seen.log()
    close(by_kernel(inputs, spec), by_kernel(replace(inputs, query=inputs.query * factor, extras={}), base()))


def test_scalable_softmax_starts_as_sharp_as_softmax() -> None:
    for context in (2, 64, 1024):
        normaliser = variant("scalable-softmax").spec(context_length=context).normaliser
        factors = normaliser.row_factor(torch.arange(1.0, context + 1), torch.tensor(normaliser.initial))
        assert float(factors.mean()) == pytest.approx(1, abs=1e-3)
    assert variant("scalable-softmax").spec().normaliser == ScalableSoftmax()


def test_stick_breaking_hands_out_what_later_keys_left() -> None:
    """Key by key from the query backwards, in plain numbers."""
    spec = base(normaliser="stick-breaking")
    inputs = make_inputs(spec, 9, batch=1)
    share = torch.sigmoid(spec.score.define(matched(inputs, spec)))
    expected, left = torch.zeros_like(share), torch.ones_like(share[..., 0])
    for query in range(9):
        for key in reversed(range(query + 1)):
            expected[..., query, key] = share[..., query, key] * left[..., query]
            left[..., query] *= 1 - share[..., query, key]
    close(by_kernel(inputs, spec), expected @ inputs.value)


def test_softmax_plus_one_survives_large_scores() -> None:
    """After the maximum m is subtracted, the 1 must be e^(−m): weights of one huge score are 1, not 1/2."""
    spec = AttentionSpec(model_width=1, num_heads=1, score="dot", normaliser="softmax-plus-one")
    query, key = torch.full((1, 1, 1, 1), 100.0), torch.full((1, 1, 1, 1), 1.0)
    for sign, weight in ((1, 1.0), (-1, 0.0)):
        output, weights = attend(sign * query, key, key, spec, return_weights=True)
        assert float(weights) == pytest.approx(weight, abs=1e-30)
        assert float(output) == pytest.approx(weight, abs=1e-30)
        assert float(attend(sign * query, key, key, spec)) == pytest.approx(weight, abs=1e-30)


@pytest.mark.parametrize(
    ("limit", "other"), [(Entmax(alpha=1), Softmax()), (Entmax(alpha=2), Sparsemax()), (Entmax(alpha=1.5), Entmax15())]
)
def test_entmax_has_its_limits(limit: Normaliser, other: Normaliser) -> None:
    one, two = base(normaliser=limit), base(normaliser=other)
    inputs = make_inputs(one, TOKENS)
    close(by_kernel(inputs, one), by_kernel(inputs, two))
    close(by_kernel(inputs, one, return_weights=True)[1], by_kernel(inputs, two, return_weights=True)[1])


@pytest.mark.parametrize("alpha", [1.001, 1.00001])
def test_entmax_approaches_softmax(alpha: float) -> None:
    one, two = base(normaliser=Entmax(alpha=alpha)), base()
    inputs = make_inputs(one, TOKENS)
    difference = float((by_kernel(inputs, one) - by_kernel(inputs, two)).detach().abs().max())
    assert difference < 10 * (alpha - 1)


def test_as_many_groups_as_heads_is_ordinary_attention() -> None:
    grouped = MultiHeadAttention(base(num_key_value_heads=2)).double()
    full = MultiHeadAttention(base()).double()
    tokens = torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)
    repeat = torch.arange(2).repeat_interleave(2)  # which group serves which head

    def spread(weight: Tensor) -> Tensor:
        return weight.view(2, WIDTH // HEADS, *weight.shape[1:])[repeat].flatten(0, 1)

    full.load_state_dict(
        {
            name: spread(tensor) if name.startswith(("projections.key", "projections.value")) else tensor
            for name, tensor in grouped.state_dict().items()
        }
    )
    close(grouped(tokens), full(tokens))
    assert base(num_key_value_heads=HEADS) == base()


@pytest.mark.parametrize(
    ("sharing", "copies"),
    [
        ("key-value", {"value": "key"}),
        ("query-key", {"key": "query"}),
        ("query-key-value", {"key": "query", "value": "query"}),
    ],
)
@pytest.mark.parametrize("position", ["none", "rope"])
def test_shared_projections_are_separate_ones_with_copied_weights(
    sharing: str, copies: dict[str, str], position: str
) -> None:
    tied = MultiHeadAttention(base(sharing=sharing, position=position)).double()
    untied = MultiHeadAttention(base(position=position)).double()
    state = tied.state_dict()
    for name, origin in copies.items():
        for part in ("weight", "bias"):
            state[f"projections.{name}.{part}"] = state[f"projections.{origin}.{part}"]
    untied.load_state_dict(state)
    tokens = torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)
    close(tied(tokens), untied(tokens))


def test_identity_uses_the_tokens_themselves() -> None:
    layer = MultiHeadAttention(base(sharing="identity")).double()
    tokens = torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)
    heads = tokens.view(2, TOKENS, HEADS, -1).transpose(1, 2)
    mixed = F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
    close(layer(tokens), layer.output(mixed.transpose(1, 2).flatten(2)))


def test_joined_heads_are_the_sum_of_separate_ones_through_their_slices() -> None:
    layer = MultiHeadAttention(base(bias=False)).double()
    tokens = torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)
    width = WIDTH // HEADS
    total = torch.zeros_like(tokens)
    for head in range(HEADS):
        rows = slice(head * width, (head + 1) * width)
        one = MultiHeadAttention(AttentionSpec(model_width=WIDTH, num_heads=1, key_width=width, bias=False)).double()
        state = {f"projections.{n}.weight": layer.projections[n].weight[rows] for n in ("query", "key", "value")}
        one.load_state_dict(state | {"output.weight": layer.output.weight[:, rows]})
        total = total + one(tokens)
    close(layer(tokens), total)


def test_averaged_heads_are_the_mean() -> None:
    layer = MultiHeadAttention(base(join="average")).double()
    tokens = torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)
    parts = {n: layer.projections[n](tokens).view(2, TOKENS, HEADS, -1).transpose(1, 2) for n in layer.projections}
    heads = F.scaled_dot_product_attention(parts["query"], parts["key"], parts["value"], is_causal=True)
    close(layer(tokens), layer.output(heads.mean(1)))


def test_a_factored_value_is_the_full_value_of_the_product() -> None:
    """W_V↓ then W_O↑ equals one matrix per head, their product: going up once or each time is the same."""
    factored = MultiHeadAttention(base(bias=False)).double()
    full = MultiHeadAttention(base(bias=False, value_map="full")).double()
    width = WIDTH // HEADS
    down = factored.projections["value"].weight.view(HEADS, width, WIDTH)
    up = factored.output.weight.view(WIDTH, HEADS, width)
    state = {f"projections.{n}.weight": factored.projections[n].weight for n in ("query", "key")}
    state["projections.value.weight"] = torch.einsum("mhw,hwd->hmd", up, down).flatten(0, 1)
    full.load_state_dict(state)
    tokens = torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)
    close(factored(tokens), full(tokens))


def test_the_l2_score_is_the_squared_distance() -> None:
    spec = base(score="l2", mask=Mask(causal=False))
    inputs = make_inputs(spec, 9)
    apart = inputs.query[:, :, :, None] - inputs.key[:, :, None]
    scores = -apart.square().sum(-1) / (WIDTH // HEADS) ** 0.5
    close(by_kernel(inputs, spec), torch.softmax(scores, -1) @ inputs.value)


def test_qk_norm_is_the_scaled_dot_of_normed_vectors() -> None:
    spec = base(score="qk-norm")
    inputs = make_inputs(spec, TOKENS)
    query, key = (
        F.rms_norm(vectors, (spec.key_width,), inputs.extras[gain], eps=0)
        for vectors, gain in ((inputs.query, "query_gain"), (inputs.key, "key_gain"))
    )
    close(by_kernel(inputs, spec), by_kernel(replace(inputs, query=query, key=key, extras={}), base()))


def test_gains_of_qk_norm_leave_rotated_scores_to_the_distance() -> None:
    spec = base(score="qk-norm", position="rope")
    inputs = make_inputs(spec, TOKENS)

    def scores(start: int) -> Tensor:
        query, key = (Rope().rotate(vectors, start) for vectors in (inputs.query, inputs.key))
        placed = replace(matched(inputs, spec), query=query, key=key)
        return spec.score.define(placed, **spec.own(spec.score, inputs.extras))

    close(scores(0), scores(40))


def test_a_cosine_at_a_temperature_is_a_scaled_dot_of_unit_vectors() -> None:
    spec = base(score={"kind": "cosine", "temperature": 0.25})
    inputs = make_inputs(spec, TOKENS)
    query, key = F.normalize(inputs.query, dim=-1), F.normalize(inputs.key, dim=-1)
    close(
        by_kernel(inputs, spec),
        F.scaled_dot_product_attention(query, key, inputs.value, is_causal=True, scale=4.0),
    )


def test_rope_depends_on_distance_alone() -> None:
    rope = variant("rope").spec(WIDTH, HEADS).position
    query, key = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)
    scores = [
        float(rope.rotate(query, 5 + shift).flatten() @ rope.rotate(key, 2 + shift).flatten()) for shift in (0, 1, 500)
    ]
    assert scores[1:] == pytest.approx([scores[0]] * 2)
    assert float(rope.rotate(query, 9).norm()) == pytest.approx(float(query.norm()))
    assert torch.equal(rope.rotate(query, 0), query)


def test_alibi_slopes_are_the_published_ones() -> None:
    alibi = variant("alibi").spec(WIDTH, 8).position
    assert alibi.slopes(8, torch.zeros((), dtype=torch.float64)).tolist() == [2.0**-h for h in range(1, 9)]


# Outside witnesses


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("cross", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_equal_to_pytorchs_multihead_attention(causal: bool, cross: bool, padded: bool) -> None:
    if causal and cross:
        causal = False
    spec = base(mask=Mask(causal=causal), source="cross" if cross else "self")
    ours = MultiHeadAttention(spec).double()
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).double()
    for name in ("query", "key", "value"):
        nn.init.normal_(ours.projections[name].bias)
    theirs.in_proj_weight.data = torch.cat([ours.projections[n].weight for n in ("query", "key", "value")])
    theirs.in_proj_bias.data = torch.cat([ours.projections[n].bias for n in ("query", "key", "value")])
    theirs.out_proj.load_state_dict(ours.output.state_dict())
    tokens = torch.randn(2, TOKENS, WIDTH, dtype=torch.float64)
    source = torch.randn(2, 50, WIDTH, dtype=torch.float64) if cross else tokens
    padding = torch.ones(2, source.shape[1], dtype=torch.bool)
    padding[0, 40:] = not padded
    hidden = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1) if causal else None
    true, weights = theirs(
        tokens, source, source, key_padding_mask=~padding, attn_mask=hidden, average_attn_weights=False
    )
    output, ours_weights = ours(tokens, source if cross else None, padding=padding, return_weights=True)
    close(output, true)
    close(ours_weights, weights)
    close(ours(tokens, source if cross else None, padding=padding), true)


def test_equal_to_scaled_dot_product_attention() -> None:
    inputs = make_inputs(base(), TOKENS)
    true = F.scaled_dot_product_attention(inputs.query, inputs.key, inputs.value, is_causal=True)
    close(by_kernel(inputs, base()), true)
    close(by_kernel(inputs, base(), return_weights=True)[0], true)
    close(by_kernel(inputs, base(mask=Mask(window=TOKENS))), true)  # the blocked kernel, with nothing cut off


PEERS = {
    "sparsemax": entmax.sparsemax,
    "entmax15": entmax.entmax15,
    "entmax": lambda scores, dim: entmax.entmax_bisect(scores, 1.25, dim, n_iter=80),
}


@pytest.mark.parametrize("name", PEERS)
def test_equal_to_the_entmax_package(name: str) -> None:
    """Without a mask, where the package gives no NaN; weights, output and gradient."""
    spec = variant(name).spec(WIDTH, HEADS, CONTEXT).replace(mask=Mask(causal=False))
    inputs = make_inputs(spec, TOKENS)
    scores = inputs.query @ inputs.key.transpose(-2, -1) / (WIDTH // HEADS) ** 0.5
    weights = PEERS[name](scores, dim=-1)
    _, ours = by_kernel(inputs, spec, return_weights=True)
    torch.testing.assert_close(ours, weights, rtol=1e-7, atol=1e-9)
    true = torch.autograd.grad(weights @ inputs.value, inputs.tensors(), inputs.gradient)
    found = torch.autograd.grad(by_kernel(inputs, spec), inputs.tensors(), inputs.gradient)
    for one, two in zip(found, true, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-8)
