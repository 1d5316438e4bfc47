"""Attention as a function of queries, keys and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, overload

from torch import Tensor

from attnlab.attention import kernels, reference
from attnlab.attention.cache import Cache
from attnlab.attention.groups import repeated
from attnlab.attention.kernels.dropout import WeightDropout, draw_seed
from attnlab.attention.parts.masks import Visibility
from attnlab.attention.parts.scores import Matched
from attnlab.attention.spec import AttentionSpec
from attnlab.errors import InputError, UnsupportedError


@overload
def attend(
    query: Tensor | None,
    key: Tensor | None,
    value: Tensor,
    spec: AttentionSpec,
    *,
    num_queries: int | None = ...,
    query_start: int = ...,
    extras: Mapping[str, Tensor] | None = ...,
    padding: Tensor | None = ...,
    visible: Tensor | None = ...,
    training: bool = ...,
    return_weights: Literal[False] = ...,
) -> Tensor: ...
@overload
def attend(
    query: Tensor | None,
    key: Tensor | None,
    value: Tensor,
    spec: AttentionSpec,
    *,
    num_queries: int | None = ...,
    query_start: int = ...,
    extras: Mapping[str, Tensor] | None = ...,
    padding: Tensor | None = ...,
    visible: Tensor | None = ...,
    training: bool = ...,
    return_weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...
def attend(
    query: Tensor | None,
    key: Tensor | None,
    value: Tensor,
    spec: AttentionSpec,
    *,
    num_queries: int | None = None,
    query_start: int = 0,
    extras: Mapping[str, Tensor] | None = None,
    padding: Tensor | None = None,
    visible: Tensor | None = None,
    training: bool = False,
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the output of attention for each query, (batch, heads, queries, value width).

    Parameters
    ----------
    query
        (batch, heads, queries, key width); None if the score uses no queries; then give `num_queries`.
    key
        (batch, key-value heads, keys, key width); None if the score uses no keys.
    value
        (batch, key-value heads, keys, value width).
    spec
        Its score, normaliser, mask, biases, weight dropout, operator and head output are used. Projections and
        rotations are left to the caller; `MultiHeadAttention` applies them.
    num_queries
        The number of queries, if there is no `query`.
    query_start
        The position of the first query among the keys, when decoding.
    extras
        The parameters of the parts, such as a temperature, and their projections of the tokens, such as a gate, by the
        names of `spec.parameters` and `spec.projections`.
    padding
        (batch, keys), True for each real token.
    visible
        (batch or 1, heads or 1, queries, keys), True where a query may attend, on top of the spec's mask.
    training
        Whether weight dropout is applied.
    return_weights
        Whether the weights (batch, heads, queries, keys) are returned beside the output.
    """
    _check(query, key, value, spec)
    count = num_queries if query is None else query.shape[-2]
    if count is None:
        raise InputError("without queries, their number is unknown", hint="give num_queries")
    if visible is not None and spec.score.looks_back:
        raise InputError(f"the score {spec.score} does not accept your own mask", hint="give padding instead")
    visibility = Visibility(spec.mask, count, value.shape[-2], query_start, padding, visible)
    visibility.check(value.shape[0], spec.num_heads)
    given = Matched(query, key, count, value.shape[-2], query_start, extras or {}, padding)
    drops = training and spec.weight_dropout > 0
    dropout = WeightDropout(spec.weight_dropout, draw_seed(value.device)) if drops else None
    maps, one_map = by_maps(given, spec), spec.one_map
    if not return_weights:
        outputs = [kernels.attend(one, value, one_map, visibility, dropout) for one in maps]
        return finish(combined(outputs, spec, given.extras), spec, given.extras, value, query_start)
    if spec.operator is not None:
        raise UnsupportedError(
            f"the operator {spec.operator} has no attention weights to return", hint="ask for the output alone"
        )
    pairs = [reference.attend(one, value, one_map, visibility, dropout) for one in maps]
    heads, weights = (combined(made, spec, given.extras) for made in zip(*pairs, strict=True))
    return finish(heads, spec, given.extras, value, query_start), weights


def by_maps(given: Matched, spec: AttentionSpec) -> Sequence[Matched]:
    """Return the inputs of the score for each of the softmax maps that the normaliser combines."""
    count = spec.normaliser.maps
    if count == 1:
        return [given]
    query, key = given.vectors
    return [replace(given, query=query[..., one::count], key=key[..., one::count]) for one in range(count)]


def combined(made: Sequence[Tensor], spec: AttentionSpec, extras: Mapping[str, Tensor]) -> Tensor:
    """Return the weights, or the head outputs, of all maps combined into one."""
    if spec.normaliser.maps == 1:
        return made[0]
    return spec.normaliser.combine(*made, **spec.own(spec.normaliser, extras))


def finish(
    heads: Tensor, spec: AttentionSpec, extras: Mapping[str, Tensor], value: Tensor, query_start: int = 0
) -> Tensor:
    """Apply the spec's head output to the heads; `value` has one head per query head or per group."""
    part = spec.head_output
    if part is None:
        return heads
    own = spec.own(part, extras)
    if part.takes_value:
        mine = value[..., query_start : query_start + heads.shape[-2], :]
        own["value"] = repeated(mine, heads.shape[1])
    return part.apply(heads, **own)


def check_tokens(spec: AttentionSpec, x: Tensor, source: Tensor | None, cache: Cache | None) -> None:
    """Refuse tokens that a layer of this spec cannot take."""
    width = spec.model_width
    for name, tokens in (("x", x), ("source", source)):
        if tokens is None:
            continue
        if not tokens.is_floating_point():
            raise InputError(f"{name} is of type {tokens.dtype}, not floating", hint=f"{name} = {name}.float()")
        if tokens.dim() != 3 or tokens.shape[-1] != width or tokens.shape[0] != x.shape[0]:
            raise InputError(
                f"{name} has shape {tuple(tokens.shape)}, not (batch, tokens, model width {width})",
                hint="reshape it, or build the spec for this width",
            )
    if source is not None and spec.source == "self":
        raise InputError("this layer attends to its own sequence and takes no source", hint='say source="cross"')
    known = cache is not None and cache.length > 0
    if source is None and spec.source == "cross" and not known:
        raise InputError("cross-attention needs the other sequence", hint="give source=…")


def _check(query: Tensor | None, key: Tensor | None, value: Tensor, spec: AttentionSpec) -> None:
    if spec.layer is not None:
        raise InputError(
            f"the layer {spec.layer} is no function of queries, keys and values", hint="use make_layer(spec) instead"
        )
    wanted = {
        "query": (query, spec.num_heads, spec.key_width, spec.score.projects_query),
        "key": (key, spec.num_key_value_heads, spec.key_width, spec.score.projects_key),
        "value": (value, spec.num_key_value_heads, spec.value_width, True),
    }
    for name, (tensor, heads, width, needed) in wanted.items():
        if tensor is None:
            if needed:
                raise InputError(f"{spec.score.kind} needs a {name}, and it is missing", hint=f"give {name}")
            continue
        if not tensor.is_floating_point():
            raise InputError(f"{name} is of type {tensor.dtype}, not floating", hint=f"{name} = {name}.float()")
        if tensor.dim() != 4 or tensor.shape[1] != heads or tensor.shape[3] != width:
            raise InputError(
                f"{name} has shape {tuple(tensor.shape)}, not (batch, {heads} heads, tokens, width {width})",
                hint="reshape it, or build the spec for these heads and widths",
            )
        if tensor.shape[0] != value.shape[0]:
            raise InputError(
                f"{name} holds {tensor.shape[0]} sequences and value {value.shape[0]}", hint="give as many of each"
            )
        if tensor.device != value.device:
            raise InputError(f"{name} is on {tensor.device} and value on {value.device}", hint="move one of them")
    if key is not None and key.shape[2] != value.shape[2]:
        raise InputError(
            f"there are {key.shape[2]} keys and {value.shape[2]} values in a sequence", hint="give as many of each"
        )
