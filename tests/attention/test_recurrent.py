"""Gated linear attention and the gated delta rule: equations, strong gates, segments, decoding and padding."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attnlab.attention import AttentionSpec, Cache, GatedLinear, Mask, MultiHeadAttention, Visibility, variant
from attnlab.attention.gradients import head_norm
from attnlab.attention.parts.recurrent import recurrence
from attnlab.attention.parts.recurrent.gated_delta import _inverse
from attnlab.errors import SpecError
from support.attention import Inputs, assert_conforms, by_kernel, by_reference, make_inputs, with_gradients

NAMES = ["gated-linear", "gated-delta"]
LENGTHS = [1, 2, 3, 64, 65, 130]  # a part of a chunk, whole chunks, more than a segment


def bare(name: str) -> AttentionSpec:
    """The operator alone, with narrow heads of unequal widths."""
    return AttentionSpec(model_width=8, num_heads=2, key_width=3, value_width=5, operator=name)


def gated(name: str, spec: AttentionSpec, tokens: int, logits: Tensor) -> Inputs:
    """Inputs whose forget gates are σ(logits)^(1/16), or e^(−softplus(logits))."""
    inputs = make_inputs(spec, tokens)
    if name == "gated-linear":
        forget = {"operator_gate": torch.zeros_like(inputs.extras["operator_gate"])}
        forget["operator_gate"][..., 0] = logits
        forget["operator_gate_map"] = torch.zeros_like(inputs.extras["operator_gate_map"])
        forget["operator_gate_map"][:, 0] = 1.0
        forget["operator_gate_bias"] = torch.zeros_like(inputs.extras["operator_gate_bias"])
    else:
        forget = {"operator_rate": logits.view(1, 1, -1, 1).expand_as(inputs.extras["operator_rate"]).clone()}
        forget |= {
            f"operator_{one}": torch.zeros_like(inputs.extras[f"operator_{one}"]) for one in ("log_rate", "rate_bias")
        }
    extras = inputs.extras | {key: tensor.double().requires_grad_() for key, tensor in forget.items()}
    return Inputs(inputs.query, inputs.key, inputs.value, extras, inputs.gradient)


@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize("name", NAMES)
def test_kernel_equals_the_recurrence(name: str, tokens: int) -> None:
    spec = bare(name)
    inputs = make_inputs(spec, tokens)
    padding = torch.rand(2, tokens) < 0.7
    for options in ({}, {"padding": padding}):
        assert_conforms(inputs, spec, torch.float64, **options)
        assert_conforms(inputs, spec, torch.float32, **options)


@pytest.mark.parametrize("strength", [30.0, 3e3, 1e8])
@pytest.mark.parametrize("name", NAMES)
def test_strong_gates_neither_overflow_nor_blur_what_comes_after(name: str, strength: float) -> None:
    """Gates of almost 1 and of almost 0 take turns; sums of logarithms reach far beyond what an exponential holds."""
    spec, tokens = bare(name), 70
    closed = torch.arange(tokens) % 7 == 3
    open_logit = 4.0 if name == "gated-linear" else -4.0
    logits = torch.where(closed, strength if name == "gated-delta" else -strength, open_logit)
    inputs = gated(name, spec, tokens, logits)
    assert_conforms(inputs, spec, torch.float32)
    for tensor in with_gradients(by_kernel, inputs.to(torch.float32), spec):
        assert bool(torch.isfinite(tensor).all())


@pytest.mark.parametrize("name", NAMES)
def test_gates_that_are_shut_forget_everything(name: str) -> None:
    spec, tokens = bare(name), 9
    logits = torch.full((tokens,), -1e5 if name == "gated-linear" else 1e5)
    inputs = gated(name, spec, tokens, logits)
    own = spec.own(spec.operator, inputs.extras)
    for place in range(tokens):
        alone = {key: one[:, :, place : place + 1] if one.dim() == 4 else one for key, one in own.items()}
        q, k, v = (one[:, :, place : place + 1] for one in (inputs.query, inputs.key, inputs.value))
        expected = spec.operator.define(q, k, v, Visibility(Mask(), 1, 1), **alone)
        torch.testing.assert_close(by_kernel(inputs, spec)[:, :, place : place + 1], expected)


def test_open_gates_make_plain_linear_attention() -> None:
    spec, tokens = bare("gated-linear"), 70
    inputs = gated("gated-linear", spec, tokens, torch.full((tokens,), 60.0))
    plain = (inputs.query @ inputs.key.mT).tril() @ inputs.value
    torch.testing.assert_close(by_kernel(inputs, spec), plain)


def test_the_delta_rule_returns_what_was_written_last() -> None:
    """With β = 1 and open gates, reading with a key gives the last value that was stored under it."""
    spec, tokens = bare("gated-delta"), 67
    inputs = gated("gated-delta", spec, tokens, torch.full((tokens,), -60.0))
    keys = torch.eye(3, dtype=torch.float64)[torch.arange(tokens) % 3].expand_as(inputs.key)
    inputs.extras["operator_write"] = torch.full_like(inputs.extras["operator_write"], 60.0)
    found = by_kernel(Inputs(100 * keys, 100 * keys, inputs.value, inputs.extras, inputs.gradient), spec)
    torch.testing.assert_close(found, inputs.value)
    later = 100 * keys.roll(1, dims=2)  # asks for the key of the token before
    found = by_kernel(Inputs(later, 100 * keys, inputs.value, inputs.extras, inputs.gradient), spec)
    torch.testing.assert_close(found[:, :, 1:], inputs.value[:, :, :-1])


@pytest.mark.parametrize("name", NAMES)
def test_segments_do_not_change_the_result(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = bare(name)
    inputs, padding = make_inputs(spec, 150), torch.rand(2, 150) < 0.8
    found = []
    for segment in (64, 128, 256):
        monkeypatch.setattr(recurrence, "SEGMENT", segment)
        found.append(with_gradients(by_kernel, inputs, spec, padding=padding))
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name: str) -> None:
    spec = bare(name)
    inputs = make_inputs(spec, 6, batch=1)
    tensors = inputs.tensors()

    def run(*tensors: Tensor) -> Tensor:
        query, key, value, *extras = tensors
        moved = Inputs(query, key, value, dict(zip(inputs.extras, extras, strict=True)), inputs.gradient)
        return by_kernel(moved, spec)

    assert torch.autograd.gradcheck(run, tensors)


@pytest.mark.parametrize("name", NAMES)
def test_queries_may_begin_after_the_keys(name: str) -> None:
    spec = bare(name)
    whole = make_inputs(spec, 70)
    late = Inputs(whole.query[:, :, 60:], whole.key, whole.value, whole.extras, whole.gradient[:, :, 60:])
    for run in (by_kernel, by_reference):
        torch.testing.assert_close(run(late, spec, query_start=60), by_kernel(whole, spec)[:, :, 60:])


@pytest.mark.parametrize("name", NAMES)
def test_decoding_a_prompt_and_then_token_by_token_equals_the_whole(name: str) -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(variant(name).spec(12, 2, 200)).double()
    x, cache = torch.randn(2, 140, 12, dtype=torch.float64), Cache()
    padding = torch.ones(2, 140, dtype=torch.bool)
    padding[0, :5] = False
    with torch.no_grad():
        whole = layer(x, padding=padding)
        steps = [(0, 133), *((start, start + 1) for start in range(133, 140))]
        parts = [layer(x[:, start:end], padding=padding[:, :end], cache=cache) for start, end in steps]
    torch.testing.assert_close(torch.cat(parts, dim=1)[padding], whole[padding])
    assert cache.state is not None
    assert cache.state.shape == (2, 2, 6, 6)
    assert not cache.held


@pytest.mark.parametrize("gated", [True, False])
def test_the_norm_of_the_output_ignores_the_size_of_the_state(gated: bool) -> None:
    torch.manual_seed(0)
    heads, gate = (torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    scale = torch.rand(4, dtype=torch.float64, requires_grad=True)
    given = (heads, scale, gate) if gated else (heads, scale)
    assert torch.autograd.gradcheck(lambda *given: head_norm(*given, epsilon=1e-5), given)
    found = head_norm(*given, epsilon=0.0)
    torch.testing.assert_close(head_norm(1e4 * heads, *given[1:], epsilon=0.0), found)
    plain = heads / heads.square().mean(-1, keepdim=True).sqrt() * scale
    torch.testing.assert_close(found, plain * gate * torch.sigmoid(gate) if gated else plain)


@pytest.mark.parametrize("size", [1, 2, 8, 64])
def test_inverse_of_a_triangular_matrix(size: int) -> None:
    torch.manual_seed(0)
    lower = (torch.randn(2, 3, size, size, dtype=torch.float64) * 0.3).tril(-1)
    expected = torch.linalg.inv(torch.eye(size, dtype=torch.float64) + lower)
    torch.testing.assert_close(_inverse(lower), expected)


@pytest.mark.parametrize("name", NAMES)
def test_a_recurrence_only_looks_back(name: str) -> None:
    with pytest.raises(SpecError, match="attends only to earlier tokens") as caught:
        bare(name).replace(mask=Mask(causal=False))
    assert caught.value.nearest.mask == Mask()
    with pytest.raises(SpecError, match="attends only to earlier tokens") as caught:
        bare(name).replace(mask=Mask(causal=False), source="cross")
    assert caught.value.nearest.operator is None


def test_the_rank_of_the_gate_is_shared_by_all_heads() -> None:
    layer = MultiHeadAttention(bare("gated-linear").replace(operator=GatedLinear(rank=7)))
    assert layer.token_maps["operator_gate"].weight.shape == (7, 8)
    assert layer.extras["operator_gate_map"].shape == (2, 7, 3)
