"""Multi-head latent attention: its equations, its small cache, and decoding that looks at latents themselves."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from attnlab.attention import AttentionSpec, Cache, DecoupledRope, Latent, Mask, MultiHeadAttention, Rope, variant
from attnlab.attention.latent import whole_map
from attnlab.attention.parts.compression import looking_at
from attnlab.errors import SpecError
from support.attention import CONTEXT, HEADS, WIDTH

TOKENS = 20


def latent_spec(**changes: object) -> AttentionSpec:
    return variant("mla").spec(WIDTH, HEADS, CONTEXT).replace(**changes)


def layer_of(spec: AttentionSpec) -> MultiHeadAttention:
    """A layer with weights of unit scale and gains that are not 1."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(spec).double().eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn_like(parameter) * (parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.5))
    return layer


def tokens(count: int = TOKENS) -> Tensor:
    return torch.randn(2, count, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def rotated(vector: Tensor, position: int) -> Tensor:
    """RoPE of one vector, pair by pair."""
    half = len(vector) // 2
    result = vector.clone()
    for i in range(half):
        angle = position * 10_000.0 ** (-2 * i / len(vector))
        a, b = float(vector[i]), float(vector[i + half])
        result[i] = a * math.cos(angle) - b * math.sin(angle)
        result[i + half] = a * math.sin(angle) + b * math.cos(angle)
    return result


def by_the_paper(layer: MultiHeadAttention, x: Tensor) -> Tensor:
    """The equations of arXiv 2405.04434 for one sequence (tokens, model width), in loops."""
    spec, maps, extras = layer.spec, layer.projections, layer.extras
    part, rotary = spec.compression, spec.position.width
    content = spec.key_width - rotary

    def normed(vectors: Tensor, gain: Tensor) -> Tensor:
        return vectors / (vectors.square().mean(-1, keepdim=True) + 1e-6).sqrt() * gain

    c = normed(maps["latent"](x), extras["compression_gain"])
    source = x if part.query_width is None else normed(maps["query_latent"](x), extras["compression_query_gain"])
    query, key, value = maps["query"](source), maps["key"](c), maps["value"](c)
    shared = maps["rotary"](x)
    outputs = []
    for t in range(len(x)):
        heads = []
        for h in range(spec.num_heads):
            q = query[t, h * spec.key_width : (h + 1) * spec.key_width]
            q = torch.cat([q[:content], rotated(q[content:], t)])
            scores = []
            for j in range(t + 1):
                k = torch.cat([key[j, h * content : (h + 1) * content], rotated(shared[j], j)])
                scores.append(q @ k / math.sqrt(content + rotary))
            weights = torch.stack(scores).softmax(0)
            heads.append(weights @ value[: t + 1, h * spec.value_width : (h + 1) * spec.value_width])
        outputs.append(torch.cat(heads))
    assert layer.output is not None
    return layer.output(torch.stack(outputs))


@pytest.mark.parametrize("query_width", [None, 5])
def test_it_is_the_papers(query_width: int | None) -> None:
    layer = layer_of(latent_spec(compression=Latent(width=7, query_width=query_width)))
    x = tokens(6)
    with torch.no_grad():
        torch.testing.assert_close(layer(x)[1], by_the_paper(layer, x[1]), rtol=1e-9, atol=1e-12)


SPECS = {
    "mla": latent_spec(),
    "wide": latent_spec(compression=Latent(width=40)),
    "queries": latent_spec(compression=Latent(width=5, query_width=9)),
    "no rotary part": latent_spec(position="none"),
    "alibi": latent_spec(position="alibi"),
    "window": latent_spec(mask=Mask(window=6)),
    "raw product": latent_spec(score="dot"),
    "cosine": latent_spec(score="cosine"),
    "qk-norm": latent_spec(score="qk-norm"),
    "sink": latent_spec(normaliser="softmax-sink"),
    "gate": latent_spec(head_output="gate"),
    "full values": latent_spec(value_map="full", value_width=WIDTH),
    "no bias": latent_spec(bias=False),
}


@pytest.mark.parametrize("padded", [False, True], ids=["", "padded"])
@pytest.mark.parametrize("name", SPECS)
@torch.no_grad()
def test_decoding_equals_the_whole(name: str, padded: bool) -> None:
    layer, x = layer_of(SPECS[name]), tokens()
    padding = None
    if padded:
        padding = torch.ones(2, TOKENS, dtype=torch.bool)
        padding[1, :4] = False
    whole = layer(x, padding=padding)
    for steps in ((TOKENS,), (1,) * TOKENS, (11, 1, 3, 5)):
        cache, start, parts = Cache(), 0, []
        for step in steps:
            real = None if padding is None else padding[:, : start + step]
            parts.append(layer(x[:, start : start + step], padding=real, cache=cache))
            start += step
        torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-9, atol=1e-11)


@torch.no_grad()
def test_the_cache_holds_latents_and_one_rotary_key() -> None:
    """Counted on the tensors: latent width + rotary width numbers for each token, however many heads there are."""
    for heads in (1, 4, 12):
        spec = variant("mla").spec(48, heads, CONTEXT)
        layer, cache = MultiHeadAttention(spec).eval(), Cache()
        layer(torch.randn(3, 9, 48), cache=cache)
        layer(torch.randn(3, 1, 48), cache=cache)
        each = spec.compression.width + spec.position.width
        assert {name: tuple(held.shape) for name, held in cache.held.items()} == {"latent": (3, 1, 10, each)}
        assert cache.nbytes == 3 * 10 * each * 4
        assert cache.state is None


def test_widths_are_those_of_deepseek() -> None:
    spec = variant("mla").spec(5120, 128, key_width=128)
    assert (spec.compression.width, spec.position.width) == (512, 64)
    assert (spec.key_width, spec.value_width) == (192, 128)
    assert variant("mla:128").spec().compression == Latent(width=128)
    with pytest.raises(SpecError, match="width"):
        variant("mla:0")


@torch.no_grad()
def test_latents_are_looked_at_where_that_takes_less() -> None:
    spec = latent_spec(compression=Latent(width=8))
    assert spec.compression.absorbs(spec, 1, 100)
    assert not spec.compression.absorbs(spec, 100, 100)  # a prompt
    wide = latent_spec(compression=Latent(width=200))
    assert not wide.compression.absorbs(wide, 99, 100)
    assert not spec.compression.absorbs(spec.replace(score="cosine"), 1, 100)  # lengths of keys must be known
    inner = looking_at(spec, absorbed=True)
    assert (inner.num_key_value_heads, inner.key_width, inner.value_width) == (1, 8 + spec.position.width, 8)


@torch.no_grad()
def test_weights_are_those_of_the_whole() -> None:
    layer, x = layer_of(latent_spec()), tokens()
    _, whole = layer(x, return_weights=True)
    cache = Cache()
    layer(x[:, :-1], cache=cache)
    _, last = layer(x[:, -1:], cache=cache, return_weights=True)
    torch.testing.assert_close(last, whole[:, :, -1:], rtol=1e-9, atol=1e-12)


@torch.no_grad()
def test_another_sequence() -> None:
    spec = latent_spec(position="none").replace(source="cross", mask=Mask(causal=False))
    layer, x, source = layer_of(spec), tokens(7), tokens(30)
    cache = Cache()
    parts = [layer(x[:, :3], source, cache=cache), *(layer(x[:, i : i + 1], cache=cache) for i in range(3, 7))]
    torch.testing.assert_close(torch.cat(parts, 1), layer(x, source), rtol=1e-9, atol=1e-12)
    assert cache.length == 30


@torch.no_grad()
def test_whole_maps() -> None:
    """Up to the norm's factor for each token, the key and the value are linear maps of the token."""
    layer, x = layer_of(latent_spec(bias=False)), tokens(1)
    query, key, value = layer.project(x)
    down = layer.projections["latent"](x)
    scale = (down.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    content = layer.spec.key_width - layer.spec.position.width
    made = (x @ whole_map(layer, "key").T / scale).view(2, 1, HEADS, -1).transpose(1, 2)
    torch.testing.assert_close(made[..., :content], key[..., :content])
    torch.testing.assert_close((x @ whole_map(layer, "value").T / scale).view(2, 1, HEADS, -1).transpose(1, 2), value)
    torch.testing.assert_close((x @ whole_map(layer, "query").T).view(2, 1, HEADS, -1).transpose(1, 2), query)


@pytest.mark.parametrize(
    ("changes", "message", "nearest"),
    [
        ({"num_key_value_heads": 2}, "no place for num_key_value_heads=2", {"num_key_value_heads": HEADS}),
        ({"sharing": "query-key"}, "no place for sharing='query-key'", {"sharing": "none"}),
        ({"operator": "linear", "position": "none"}, "no place for operator=linear", {"operator": None}),
        ({"score": "synthesizer-random", "context_length": 9, "position": "none"}, "no keys to make", {}),
        ({"position": "rope"}, "rope rotates whole keys", {"position": DecoupledRope(width=6)}),
        ({"position": {"kind": "decoupled-rope", "width": 3}}, "even number", {"position": DecoupledRope(width=6)}),
        ({"position": {"kind": "decoupled-rope", "width": 80}}, "even number", {"position": DecoupledRope(width=6)}),
        ({"compression": None}, "no compression", {"position": Rope()}),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, object], message: str, nearest: dict[str, object]) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        latent_spec(**changes)
    assert caught.value.nearest is not None
    assert {name: getattr(caught.value.nearest, name) for name in nearest} == nearest


def test_a_spec_without_compression_is_written_as_before() -> None:
    assert "compression" not in variant("softmax").spec().to_json()
    spec = variant("mla").spec()
    assert AttentionSpec.from_json(spec.to_json()) == spec
