"""Multi-head latent attention: keys and values computed from a latent, in training and in decoding.

The equations are in `parts/compression.py`; the projections, gains and cache belong to the layer.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from torch import Tensor

from attnlab.attention.functional import attend, finish
from attnlab.attention.parts.compression import Latent, Maps, looking_at

if TYPE_CHECKING:
    from attnlab.attention.cache import Cache
    from attnlab.attention.layer import MultiHeadAttention


def vectors(layer: MultiHeadAttention, x: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values of whole sequences, with their rotary parts rotated."""
    (part, maps), spec = _pieces(layer), layer.spec
    own = spec.own(part, dict(layer.extras.items()))
    kept = part.compress(source, maps, spec, own["gain"])
    return part.query(x, maps, spec, own.get("query_gain")), *part.expand(kept, maps, spec)


def decode(
    layer: MultiHeadAttention,
    x: Tensor,
    source: Tensor | None,
    cache: Cache,
    padding: Tensor | None,
    visible: Tensor | None,
    return_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """Return the head outputs for tokens that follow a cache of latents, and the weights if they are requested."""
    (part, maps), spec = _pieces(layer), layer.spec
    extras = layer.learned(x, source)
    own, first = spec.own(part, extras), 0 if spec.source == "cross" else cache.length
    query = part.query(x, maps, spec, own.get("query_gain"), first)
    new = {}
    if not layer.holds_source(cache):
        new["latent"] = part.compress(x if source is None else source, maps, spec, own["gain"], first)
    kept = layer.remember(cache, new, extras)["latent"]
    absorbed = part.absorbs(spec, x.shape[1], kept.shape[2])
    if absorbed:
        query, key, value = part.absorb(query, kept, maps, spec)
    else:
        key, value = part.expand(kept, maps, spec)
    call = functools.partial(
        attend,
        query,
        key,
        value,
        looking_at(spec, absorbed=absorbed),
        query_start=first - cache.start,
        extras=extras,
        padding=None if padding is None else cache.of_held(padding),
        visible=visible,
        training=layer.training,
    )
    heads, weights = call(return_weights=True) if return_weights else (call(), None)
    if absorbed:
        heads = part.raised(heads, maps, spec)
    return finish(heads, spec, extras, value, first - cache.start), weights


def whole_map(layer: MultiHeadAttention, name: str) -> Tensor | None:
    """Return the matrix that maps tokens to queries, keys or values, (heads · width, model width), or None.

    With a latent and its norm in between, the matrix holds up to a factor per token.
    """
    if layer.spec.compression is None:
        made = dict(layer.projections.items()).get(name)
        return None if made is None else made.get_parameter("weight")
    part, maps = _pieces(layer)
    return part.whole_map(name, maps, layer.spec.own(part, dict(layer.extras.items())), layer.spec.num_heads)


def _pieces(layer: MultiHeadAttention) -> tuple[Latent, Maps]:
    assert layer.spec.compression is not None
    return layer.spec.compression, dict(layer.projections.items())
