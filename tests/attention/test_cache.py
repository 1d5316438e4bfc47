"""Decoding with a cache: equal to the full pass, and no larger than the spec says."""

from __future__ import annotations

import itertools

import pytest
import torch

from attnlab.attention import Cache, Mask, MultiHeadAttention, Visibility, variant, variants
from attnlab.attention.functional import finish
from attnlab.errors import InputError
from support.attention import CONTEXT, HEADS, WIDTH

CAUSAL = [v.name for v in variants() if v.spec().mask.causal and v.spec().mask.prefix is None]
NUMBER = 8  # bytes of a float64
STEPS = [(70,), (1,) * 20, (64, 1, 1, 5), (20, 30, 1, 1)]


def layer_of(name: str, **changes: object) -> MultiHeadAttention:
    return MultiHeadAttention(variant(name).spec(WIDTH, HEADS, CONTEXT).replace(**changes)).double().eval()


@torch.no_grad()
def decode(layer: MultiHeadAttention, tokens: torch.Tensor, steps: tuple[int, ...]) -> tuple[torch.Tensor, Cache]:
    cache, start, outputs = Cache(), 0, []
    for step in steps:
        outputs.append(layer(tokens[:, start : start + step], cache=cache))
        start += step
    return torch.cat(outputs, dim=1), cache


@pytest.mark.parametrize("steps", STEPS, ids=str)
@pytest.mark.parametrize("name", CAUSAL)
def test_cached_decoding_equals_the_full_pass(name: str, steps: tuple[int, ...]) -> None:
    layer = layer_of(name)
    tokens = torch.randn(2, sum(steps), WIDTH, dtype=torch.float64)
    output, cache = decode(layer, tokens, steps)
    torch.testing.assert_close(output, layer(tokens), rtol=1e-9, atol=1e-12)
    assert cache.length == sum(steps)


@pytest.mark.parametrize("sharing", ["none", "key-value", "query-key-value"])
@pytest.mark.parametrize("position", ["none", "rope", "alibi"])
@pytest.mark.parametrize("window", [1, 2, 7, 64])
def test_a_window_forgets_what_it_cannot_see(window: int, position: str, sharing: str) -> None:
    layer = layer_of("softmax", mask=Mask(window=window), position=position, sharing=sharing)
    tokens = torch.randn(2, 90, WIDTH, dtype=torch.float64)
    output, cache = decode(layer, tokens, (40, *(1,) * 50))
    torch.testing.assert_close(output, layer(tokens), rtol=1e-9, atol=1e-12)
    assert all(tensor.shape[2] == window for tensor in cache.held.values())
    assert cache.start == 90 - window


def test_decoding_with_padding_on_the_left() -> None:
    """Prompts of different lengths in one batch: each decodes as it would alone."""
    layer = layer_of("sigmoid", position="rope")
    tokens = torch.randn(2, 12, WIDTH, dtype=torch.float64)
    padding = torch.ones(2, 12, dtype=torch.bool)
    padding[1, :4] = False
    cache, outputs = Cache(), []
    with torch.no_grad():
        for start, stop in ((0, 8), (8, 9), (9, 12)):
            outputs.append(layer(tokens[:, start:stop], padding=padding[:, :stop], cache=cache))
        alone = layer(tokens[1:, 4:])
    torch.testing.assert_close(torch.cat(outputs, 1)[1:, 4:], alone, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("steps", STEPS, ids=str)
@pytest.mark.parametrize("name", CAUSAL)
def test_cached_decoding_with_padding_equals_the_full_pass(name: str, steps: tuple[int, ...]) -> None:
    """Padding on the left, in the middle and on the right, as the full pass and the reference have it."""
    layer, tokens = layer_of(name), torch.randn(2, sum(steps), WIDTH, dtype=torch.float64)
    padding = torch.ones(2, sum(steps), dtype=torch.bool)
    padding[1, :4] = padding[0, 9] = padding[0, -1] = False
    cache, outputs, start = Cache(), [], 0
    with torch.no_grad():
        for stop in itertools.accumulate(steps):
            outputs.append(layer(tokens[:, start:stop], padding=padding[:, :stop], cache=cache))
            start = stop
        whole = layer(tokens, padding=padding)
    torch.testing.assert_close(torch.cat(outputs, 1), whole, rtol=1e-9, atol=1e-12)
    if layer.spec.operator is not None:
        query, key, value = layer.project(tokens)
        visibility = Visibility(layer.spec.mask, *tokens.shape[1:2] * 2, padding=padding)
        spec, extras = layer.spec, layer.learned(tokens)
        heads = spec.operator.define(query, key, value, visibility, **spec.own(spec.operator, extras))
        defined = layer._join(finish(heads, spec, extras, value))
        torch.testing.assert_close(torch.cat(outputs, 1), defined, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["softmax", "sigmoid", "tied-kv", "cosine-learned"])
def test_cross_attention_reads_its_source_once(name: str) -> None:
    layer = layer_of(name, source="cross", mask=Mask(causal=False))
    tokens, source = torch.randn(2, 9, WIDTH).double(), torch.randn(2, 30, WIDTH).double()
    cache = Cache()
    with torch.no_grad():
        parts = [
            layer(tokens[:, :4], source, cache=cache),
            *(layer(tokens[:, i : i + 1], cache=cache) for i in range(4, 9)),
        ]
    torch.testing.assert_close(torch.cat(parts, 1), layer(tokens, source), rtol=1e-9, atol=1e-12)
    assert cache.length == 30


def test_what_is_cached_follows_the_spec() -> None:
    tokens = torch.randn(2, 50, WIDTH, dtype=torch.float64)
    sizes = {name: decode(layer_of(name), tokens, (49, 1))[1].nbytes for name in CAUSAL}
    each = 2 * 50 * WIDTH * NUMBER  # keys or values of all heads
    assert sizes["softmax"] == 2 * each
    assert sizes["tied-kv"] == sizes["softmax"] / 2
    assert sizes["gqa"] == sizes["softmax"] / 2
    assert sizes["mla"] == 2 * 50 * (WIDTH // 2 + 2) * NUMBER  # a latent of half the model's width, and a rotary key
    assert sizes["mqa"] == sizes["softmax"] / HEADS
    assert sizes["low-rank-value"] == 1.5 * each
    assert sizes["synthesizer-random"] == each
    assert sizes["full-value"] == each + each * HEADS
    state = WIDTH // HEADS * (WIDTH // HEADS + 1)
    assert sizes["linear"] == 2 * HEADS * state * NUMBER
    assert sizes["gated-linear"] == sizes["gated-delta"] == 2 * HEADS * (WIDTH // HEADS) ** 2 * NUMBER
    held = decode(layer_of("tied-kv"), tokens, (49, 1))[1].held
    assert {name: tuple(tensor.shape) for name, tensor in held.items()} == {"key": (2, HEADS, 50, WIDTH // HEADS)}


def test_tokens_are_not_copied_at_every_step() -> None:
    cache = Cache()
    moves = 0
    for _ in range(200):
        before = cache._room.get("key")
        cache.append({"key": torch.zeros(1, 1, 1, 2)})
        moves += before is not cache._room["key"]
    assert moves <= 9
    assert cache.held["key"].shape == (1, 1, 200, 2)


def test_a_cache_refuses_gradients_and_other_batches() -> None:
    layer = layer_of("softmax")
    tokens = torch.randn(2, 5, WIDTH, dtype=torch.float64)
    with pytest.raises(InputError, match="cannot be differentiated"):
        layer(tokens, cache=Cache())
    cache = decode(layer, tokens, (5,))[1]
    with torch.no_grad(), pytest.raises(InputError, match="another batch"):
        layer(tokens[:1], cache=cache)
