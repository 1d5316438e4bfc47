"""Attention by its definition: all weights in one matrix, without optimisations.

    s = score(q, k) + biases                 (batch, heads, queries, keys)
    p = normalise(s), 0 where masked
    o = dropout(p) v                         (batch, heads, queries, value width)

This defines each variant. It works in any floating-point dtype, and every faster kernel is tested against it. The
equations of scores and normalisers are in `parts/` (`define` of a score, `weights` of a normaliser).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from attnlab.attention.groups import for_every_query_head
from attnlab.attention.kernels.dropout import WeightDropout
from attnlab.attention.parts.masks import Visibility
from attnlab.attention.parts.scores import Matched
from attnlab.attention.spec import AttentionSpec


def scores(given: Matched, spec: AttentionSpec, like: Tensor) -> Tensor:
    """Return the scores before the mask, (batch or 1, heads, queries, keys)."""
    if given.key is not None:
        given = replace(given, key=for_every_query_head(given.key, spec))
    result = spec.score.define(given, **spec.own(spec.score, given.extras))
    for part in spec.biased:
        queries = torch.arange(given.num_queries, device=like.device) + given.query_start
        keys = torch.arange(given.num_keys, device=like.device)
        bias = part.bias(queries, keys, spec.num_heads, **spec.own(part, given.extras))
        result = result + bias.to(like.dtype)
    return result


def weights(given: Matched, spec: AttentionSpec, visibility: Visibility, like: Tensor) -> Tensor:
    """Return the attention weights, (batch or 1, heads, queries, keys), exactly 0 where masked."""
    visible = visibility.grid(like.device)
    own = spec.own(spec.normaliser, given.extras)
    return spec.normaliser.defined(scores(given, spec, like), visible, **own)


def attend(
    given: Matched, value: Tensor, spec: AttentionSpec, visibility: Visibility, dropout: WeightDropout | None = None
) -> tuple[Tensor, Tensor]:
    """Return the output (batch, heads, queries, value width), and the weights as they are before dropout."""
    value = for_every_query_head(value, spec)
    batch, heads = value.shape[:2]
    attention = weights(given, spec, visibility, value).expand(batch, heads, -1, -1)
    used = attention
    if dropout is not None:
        grid = dropout.grid(batch * heads, given.num_queries, given.num_keys)
        stays = grid.bits(slice(None), slice(None), slice(None)).view_as(used) != 0
        used = used * stays * dropout.scale
    return used.to(value.dtype) @ value, attention
