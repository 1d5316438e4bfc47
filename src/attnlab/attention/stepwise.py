"""Attention one step at a time, for those who want to see the numbers on the way.

    q, k, v → s = factor · score(q, k) → p = normalise(s) → o = p v

`follow` takes a layer, as trained or with projections of one's own, and gives back everything between its input and
what each head makes, before the heads are joined.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from attnlab.attention import reference
from attnlab.attention.functional import attend, for_every_query_head
from attnlab.attention.layer import MultiHeadAttention
from attnlab.attention.parts.masks import Visibility
from attnlab.attention.parts.scores import Matched
from attnlab.errors import InputError, UnsupportedError


@dataclass(frozen=True)
class Steps:
    """Everything that one layer computes for one sequence, by head. What a variant does not have is None."""

    query: Tensor | None  # (heads, tokens, key width), turned by its position where the spec says so
    key: Tensor | None  # (key-value heads, tokens, key width), likewise
    value: Tensor  # (key-value heads, tokens, value width)
    scores: Tensor | None  # (heads, queries, keys)
    visible: Tensor  # (queries, keys), True where the query sees the key
    weights: Tensor | None  # (heads, queries, keys)
    output: Tensor  # (heads, queries, value width)


def follow(layer: MultiHeadAttention, x: Tensor, factor: float = 1.0) -> Steps:
    """Follow one sequence, (tokens, model width), through a layer of self-attention, its scores times `factor`."""
    spec = layer.spec
    if spec.source == "cross":
        raise UnsupportedError("only self-attention can be followed", hint='say source="self"')
    if x.dim() != 2:
        raise InputError(f"x has shape {tuple(x.shape)}, not (tokens, model width)", hint="give one sequence")
    query, key, value = layer.place(*layer.project(x[None]))
    visibility = Visibility(spec.mask, len(x), len(x))
    visible = visibility.grid(x.device).expand(1, 1, -1, -1)[0, 0]
    if spec.operator is not None:
        if factor != 1:
            raise UnsupportedError(
                f"the operator {spec.operator} has no scores to multiply", hint="leave scale and temperature at 1"
            )
        output = attend(query, key, value, spec)
        return Steps(_first(query), _first(key), value[0], None, visible, None, output[0])
    given = Matched(
        query,
        None if key is None else for_every_query_head(key, spec),
        len(x),
        len(x),
        extras=dict(layer.extras.items()),
    )
    scores = factor * reference.scores(given, spec, value)
    weights = spec.normaliser.weights(scores, visible)
    output = weights.to(value.dtype) @ for_every_query_head(value, spec)
    return Steps(_first(query), _first(key), value[0], scores[0], visible, weights[0], output[0])


def _first(vectors: Tensor | None) -> Tensor | None:
    return None if vectors is None else vectors[0]
