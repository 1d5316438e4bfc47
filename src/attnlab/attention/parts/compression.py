"""Keys and values computed from a latent vector per token, which all heads share and the cache keeps instead.

    latent    c = RMSNorm(x W_DKV)                                                        (arXiv 2405.04434)
              k_h = (c W_UK_h, R(x W_KR)),   v_h = c W_UV_h,   q_h = x W_Q_h with its last numbers rotated

R rotates by the position, and W_KR projects to one rotary key for all heads: the position `decoupled-rope`. Without it,
keys have no rotary part. With `query_width`, queries are also computed from a latent, RMSNorm(x W_DQ), which saves
parameters.

Norms and biases are those of DeepSeek's public code: a gain for each latent dimension, ε = 10⁻⁶, and no bias in the
up-projections.

Decoding need not recompute keys and values. As W_UK and W_UV are linear, they can be absorbed into the query and the
output instead, and all heads attend to c itself, as to one shared key and value head:

    q_h·k_hj = (q_h W_UK_hᵀ)·c_j + rotary part,       Σ_j p_j v_hj = (Σ_j p_j c_j) W_UV_h

This is done if it takes fewer multiply–adds than computing the keys and values, and if scores are inner products.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from pydantic import PositiveInt
from torch import Tensor

from attnlab.attention.linear import in_heads
from attnlab.attention.parts.part import Parameter, Part
from attnlab.attention.parts.positions import DecoupledRope
from attnlab.attention.parts.scores import Dot, ScaledDot

if TYPE_CHECKING:
    from attnlab.attention.spec import AttentionSpec

_EPSILON = 1e-6
Maps = Mapping[str, Any]  # the projections of a layer by name


class Latent(Part):
    """Multi-head latent attention."""

    family: ClassVar[str] = "compression"
    kind: ClassVar[str] = "latent"

    width: PositiveInt = 256
    query_width: PositiveInt | None = None

    @classmethod
    def usual(cls, base: AttentionSpec) -> Latent:
        """Return a latent of four heads' width, as in DeepSeek-V2, and of at most half the model's."""
        return cls(width=max(1, min(4 * base.value_width, base.model_width // 2)))

    @staticmethod
    def usual_rotary_width(base: AttentionSpec) -> int:
        """Return half of a head's width, as in DeepSeek-V2, as an even number."""
        return max(2, base.key_width // 4 * 2)

    def formula(self, *, rotary: bool) -> str:
        """Return the equations of queries, keys and values; y are the tokens that are attended to."""
        query = "x W_Q" if self.query_width is None else "RMSNorm(x W_DQ) W_Q"
        key = "(c W_UK, rotated y W_KR)" if rotary else "c W_UK"
        return f"c = RMSNorm(y W_DKV),  q = {query},  k = {key},  v = c W_UV"

    def parameters(self, spec: AttentionSpec) -> dict[str, Parameter]:  # noqa: ARG002
        gains = {"gain": self.width, "query_gain": self.query_width}
        present = {name: width for name, width in gains.items() if width is not None}
        return {name: Parameter(initial=1.0, shape=(width,), per="layer") for name, width in present.items()}

    def cached_width(self, spec: AttentionSpec) -> int:
        """Return how many numbers are cached per token."""
        return self.width + rotary_width(spec)

    def shapes(self, spec: AttentionSpec) -> dict[str, tuple[int, int, bool]]:
        """Return the projections by name: output width, input width, and whether there is a bias."""
        rotary, heads, tokens = rotary_width(spec), spec.num_heads, spec.model_width
        down = {"query_latent": self.query_width or 0, "latent": self.width, "rotary": rotary}
        shapes = {name: (width, tokens, spec.bias) for name, width in down.items() if width}
        inner = self.query_width or tokens
        return shapes | {
            "query": (heads * spec.key_width, inner, spec.bias and self.query_width is None),
            "key": (heads * (spec.key_width - rotary), self.width, False),
            "value": (heads * spec.value_width, self.width, False),
        }

    def query(self, x: Tensor, maps: Maps, spec: AttentionSpec, query_gain: Tensor | None, start: int = 0) -> Tensor:
        """Return the queries (batch, heads, tokens, key width) of tokens from position `start` on."""
        if query_gain is not None:
            x = _normed(maps["query_latent"](x), query_gain)
        query = in_heads(maps["query"](x), spec.key_width)
        return spec.position.rotate(query, start) if isinstance(spec.position, DecoupledRope) else query

    def compress(self, x: Tensor, maps: Maps, spec: AttentionSpec, gain: Tensor, start: int = 0) -> Tensor:
        """Return the cached vectors of tokens from position `start` on: (batch, 1, tokens, latent and rotary width)."""
        latent = _normed(maps["latent"](x), gain)[:, None]
        if not isinstance(spec.position, DecoupledRope):
            return latent
        return torch.cat([latent, spec.position.rotate(maps["rotary"](x)[:, None], start)], dim=-1)

    def expand(self, kept: Tensor, maps: Maps, spec: AttentionSpec) -> tuple[Tensor, Tensor]:
        """Return the keys and values of all heads from the cached vectors."""
        latent, rotary = kept[:, 0, :, : self.width], kept[..., self.width :]
        key = in_heads(maps["key"](latent), spec.key_width - rotary.shape[-1])
        if rotary.shape[-1]:
            key = torch.cat([key, rotary.expand(-1, spec.num_heads, -1, -1)], dim=-1)
        return key, in_heads(maps["value"](latent), spec.value_width)

    def absorbs(self, spec: AttentionSpec, queries: int, keys: int) -> bool:
        """Return whether decoding attends to the latents themselves, not to keys and values computed from them."""
        needs_value = spec.head_output is not None and spec.head_output.takes_value
        if keys <= queries or needs_value or not isinstance(spec.score, ScaledDot | Dot):
            return False
        up = self.width * (spec.key_width - rotary_width(spec) + spec.value_width)
        absorbed = queries * keys * (self.cached_width(spec) + self.width) + queries * up
        return absorbed < queries * keys * (spec.key_width + spec.value_width) + keys * up

    def absorb(self, query: Tensor, kept: Tensor, maps: Maps, spec: AttentionSpec) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values by which all heads attend to the latents themselves."""
        content = spec.key_width - rotary_width(spec)
        weight = maps["key"].weight.view(spec.num_heads, content, self.width)
        raised = torch.einsum("bhtc,hcl->bhtl", query[..., :content], weight)
        query = torch.cat([raised, query[..., content:]], dim=-1)
        if isinstance(spec.score, ScaledDot):  # whose divisor follows from the width of its input
            query = query * math.sqrt(query.shape[-1] / spec.key_width)
        return query, kept, kept[..., : self.width]

    def raised(self, heads: Tensor, maps: Maps, spec: AttentionSpec) -> Tensor:
        """Return the outputs of the heads (batch, heads, tokens, value width) from sums of latents."""
        weight = maps["value"].weight.view(spec.num_heads, spec.value_width, self.width)
        return torch.einsum("bhtl,hvl->bhtv", heads, weight)

    def whole_map(self, name: str, maps: Maps, own: Mapping[str, Tensor], num_heads: int) -> Tensor:
        """Return the matrix that maps tokens to queries, keys or values, up to the scale of the norm."""
        made: Tensor = maps[name].weight
        if name == "query":
            return made if self.query_width is None else made * own["query_gain"] @ maps["query_latent"].weight
        made = made * own["gain"] @ maps["latent"].weight
        if name == "value" or "rotary" not in maps:
            return made
        rotary = maps["rotary"].weight.expand(num_heads, -1, -1)
        return torch.cat([made.view(num_heads, -1, made.shape[1]), rotary], dim=1).flatten(0, 1)


def rotary_width(spec: AttentionSpec) -> int:
    """Return the width of the separate, rotated part of queries and keys."""
    return spec.position.width if isinstance(spec.position, DecoupledRope) else 0


@functools.lru_cache(maxsize=64)
def looking_at(spec: AttentionSpec, *, absorbed: bool) -> AttentionSpec:
    """Return the spec by which queries attend to the cache, without the head output, which is applied later."""
    position = None if isinstance(spec.position, DecoupledRope) else spec.position
    plain = spec.replace(compression=None, position=position, head_output=None)
    if not absorbed:
        return plain
    assert spec.compression is not None
    return plain.replace(
        num_key_value_heads=1,
        key_width=spec.compression.cached_width(spec),
        value_width=spec.compression.width,
        value_map="factored",
    )


def _normed(vectors: Tensor, gain: Tensor) -> Tensor:
    exact = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
    scale = torch.rsqrt(exact.square().mean(-1, keepdim=True) + _EPSILON)
    return (exact * scale).to(vectors.dtype) * gain
