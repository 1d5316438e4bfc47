"""Keys and values from a low-rank latent: the principal components of all keys and values of a layer.

    c = RMSNorm(z),  z = W_DKV x          the components from which keys and values are best reconstructed
    k_h = W_UK_h c,  v_h = W_UV_h c       by least squares on the c of real tokens

The norm gives all c the same length. If the projections have biases, one component of z is a constant several times as
large as the norm of the others, which makes RMSNorm nearly linear and preserves the constant parts of keys and values.

RoPE rotates keys by their position. Every other pair keeps its rotation, as one rotated key that all heads share
(`merge_rotated_keys`); these are the pairs whose frequencies `decoupled-rope` has at half the width. The other pairs
lose their rotation, as in arXiv 2502.14837, and are computed from the latent.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnlab.attention import AttentionSpec, DecoupledRope, Latent, MultiHeadAttention, Rope
from attnlab.attention.rules import largest_divisor
from attnlab.errors import UnsupportedError
from attnlab.retrofit.conversion.heads import HeadMaps, Moments, principal, put_map, roots, total, with_one
from attnlab.retrofit.conversion.sharing import as_numbers, as_pairs, merge_rotated_keys

_CONSTANT = 4.0  # times the norm of the other components of a latent


def latent_spec(source: AttentionSpec, latent: Latent) -> AttentionSpec:
    """Return the spec of a layer whose keys and values are made from a latent, at the widths that the layer has."""
    position = source.position
    if isinstance(position, Rope):
        if type(position) is not Rope:
            raise UnsupportedError(
                f"a latent cannot take over the scaled rotation {position}", hint="retrofit a model with plain RoPE"
            )
        pairs = source.key_width // 2
        if pairs < 2:
            raise UnsupportedError(
                f"keys of width {source.key_width} cannot be halved for a latent", hint="use a model with wider heads"
            )
        position = DecoupledRope(width=2 * largest_divisor(pairs, pairs // 2), base=position.base)
    heads = {"num_key_value_heads": source.num_heads}
    return source.replace(compression=latent, position=position, **heads)


@torch.no_grad()
def put_latent(layer: MultiHeadAttention, maps: HeadMaps, moments: Moments, x: Tensor) -> None:
    """Write the maps of a layer with a latent, from those of a layer without, on tokens x (…, model width)."""
    spec, latent = layer.spec, layer.spec.compression
    assert latent is not None
    assert layer.output is not None
    content, rotary = _divide(maps, moments, spec)
    group = maps.group_size
    query = content.query if rotary is None else torch.cat([content.query, rotary.query], dim=1)
    put_map(layer.projections["query"], query.flatten(0, 1))
    if rotary is not None:
        put_map(layer.projections["rotary"], rotary.key[0])
    width = latent.width - spec.bias
    put_map(layer.projections["latent"], _down(content, moments, width, biased=spec.bias))
    tokens, gain = with_one(x), layer.extras["compression_gain"]
    made = latent.compress(x, dict(layer.projections.items()), spec, gain)[:, 0, :, : latent.width]
    made = made.double().flatten(0, 1)
    inverse = torch.linalg.pinv(made.T @ made / len(made), rtol=1e-9, hermitian=True)
    across = inverse @ (made.T @ tokens / len(made))  # (latent width, model width + 1)
    for name, wanted in (("key", content.key), ("value", content.value)):
        up = wanted.repeat_interleave(group, 0).flatten(0, 1) @ across.T
        layer.projections[name].get_parameter("weight").copy_(up)
    layer.output.weight.copy_(maps.output.flatten(1))


def _divide(maps: HeadMaps, moments: Moments, spec: AttentionSpec) -> tuple[HeadMaps, HeadMaps | None]:
    """Return the part of queries and keys that is made from the latent, and the part that is rotated, if any is."""
    if not isinstance(spec.position, DecoupledRope):
        return maps, None
    every = maps.key.shape[1] // 2 // (spec.position.width // 2)
    pairs = {name: as_pairs(getattr(maps, name)) for name in ("query", "key")}
    turned = {name: as_numbers(made[:, ::every]) for name, made in pairs.items()}
    rest = [place for place in range(maps.key.shape[1] // 2) if place % every]
    plain = {name: as_numbers(made[:, rest]) for name, made in pairs.items()}
    return maps.replace(**plain), merge_rotated_keys(maps.replace(**turned), moments.plain, 1)


def _down(maps: HeadMaps, moments: Moments, width: int, *, biased: bool) -> Tensor:
    """Return the map from tokens to latents (width, model width + 1), with a constant at its end if it is biased."""
    taken, heads = moments.around(mean=biased), range(len(maps.key))
    keys = torch.cat([roots(maps.query_metric(head, taken))[0] @ maps.key[head] for head in heads])
    values = torch.cat([roots(maps.output_metric(head))[0] @ maps.value[head] for head in heads])
    # Keys and values have equal weight: each is divided by its total variance.
    parts = [part / math.sqrt(total(part, taken)) for part in (keys, values)]
    stack = torch.cat(parts)
    down = principal(stack, taken, min(width, len(stack))).T @ stack
    down = torch.cat([down / math.sqrt(total(down, moments.plain)), down.new_zeros(width - len(down), down.shape[1])])
    if not biased:
        return down
    last = down.new_zeros(1, down.shape[1])
    last[0, -1] = _CONSTANT
    return torch.cat([down, last])
