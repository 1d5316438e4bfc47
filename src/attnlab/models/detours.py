"""The ways that the layers of a tapped model take: their own steps, with every result shown to the taps.

Each function here says the same as the method that it stands for, which stays free of taps. It uses the same kernels on
the same shapes, so that reading changes no bit; the tests hold the two together for every variant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.attention import Cache, MultiHeadAttention, Rope, attend
from attnlab.attention.functional import for_every_query_head
from attnlab.corpora import IGNORED
from attnlab.errors import UnsupportedError
from attnlab.models.activations import ACTIVATIONS

if TYPE_CHECKING:
    from attnlab.models.blocks import Block, LayerCache
    from attnlab.models.language_model import LanguageModel, Stack
    from attnlab.models.mlp import MLP
    from attnlab.models.tapping import At

Method = Callable[..., Tensor]
Detour = tuple[nn.Module, str, Callable[..., Any]]  # of which module, which method, and the other way
_INSIDE_ATTENTION = ("query", "key", "value", "weights")


def detours(model: LanguageModel, at: At) -> Iterator[Detour]:
    """The methods whose results are wanted at a tap."""
    if at.wants("logits"):
        yield model, "forward", _around(model.forward, after=partial(at, "logits"))
        yield model, "_cross_entropy", partial(_cross_entropy, model, at)
    for stack, here in ((model.encoder, at.under("encoder.")), (model.stack, at)):
        if stack is not None:
            yield from _detours_of_stack(stack, here)


def _detours_of_stack(stack: Stack, at: At) -> Iterator[Detour]:
    if at.wants("embedding"):
        yield stack, "forward", _around(stack.forward, before=partial(at, "embedding"))
    if at.wants("position"):
        yield stack, "place", _around(stack.place, after=partial(at, "position"))
    if at.wants("residual"):
        yield stack.dropout, "forward", _around(stack.dropout.forward, after=partial(at, "residual"))
    for number, block in enumerate(stack.blocks):
        yield from _detours_of_block(block, at.under(f"blocks.{number}."))
    if at.wants("norm.in", "norm.output"):
        ends = {"before": partial(at, "norm.in"), "after": partial(at, "norm.output")}
        yield stack.norm, "forward", _around(stack.norm.forward, **ends)


def _detours_of_block(block: Any, at: At) -> Iterator[Detour]:
    parts = [part for part in ("attention", "cross_attention", "mlp") if getattr(block, part) is not None]
    if at.wants("residual", *(f"{part}.{point}" for part in parts for point in ("in", "output", "residual"))):
        yield block, "forward", partial(_block, block, at)
    for part in parts[:-1]:
        layer, within = getattr(block, part), at.under(part + ".")
        if within.wants("heads"):
            yield layer, "_joined", _around(layer._joined, before=partial(within, "heads"))
        if within.wants(*_INSIDE_ATTENTION):
            yield layer, "forward", partial(_attention, layer, within)
    if at.wants("mlp.before", "mlp.hidden"):
        yield block.mlp, "forward", partial(_mlp, block.mlp, at.under("mlp."))


def _around(
    method: Callable[..., Tensor],
    before: Callable[..., Tensor] | None = None,
    after: Callable[..., Tensor] | None = None,
) -> Callable[..., Tensor]:
    """A method whose first argument or whose result passes by a tap."""

    def way(first: Any, *others: Any, **keywords: Any) -> Tensor:
        result = method(first if before is None else before(first), *others, **keywords)
        return result if after is None else after(result)

    return way


def _block(
    block: Block,
    at: At,
    x: Tensor,
    *,
    padding: Tensor | None = None,
    memory: Tensor | None = None,
    memory_padding: Tensor | None = None,
    cache: LayerCache | None = None,
) -> Tensor:
    """`Block.forward`."""
    own, other = (None, None) if cache is None else (cache.own, cache.other)
    made = block.attention(at("attention.in", block.attention_norm(x)), padding=padding, cache=own)
    x = at("attention.residual", x + at("attention.output", made))
    if block.cross_attention is not None:
        assert block.cross_norm is not None
        y = at("cross_attention.in", block.cross_norm(x))
        made = block.cross_attention(y, memory, padding=memory_padding, cache=other)
        x = at("cross_attention.residual", x + at("cross_attention.output", made))
    made = block.mlp(at("mlp.in", block.mlp_norm(x)))
    return at("residual", x + at("mlp.output", made))


def _attention(
    layer: MultiHeadAttention,
    at: At,
    x: Tensor,
    source: Tensor | None = None,
    *,
    padding: Tensor | None = None,
    visible: Tensor | None = None,
    cache: Cache | None = None,
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """`MultiHeadAttention.forward`, of whole sequences."""
    if cache is not None:
        raise UnsupportedError(
            f"{', '.join(_INSIDE_ATTENTION)} of a layer cannot be tapped while it decodes with a cache",
            hint="give whole sequences without a cache, or tap heads or output",
        )
    spec = layer.spec
    made = zip(("query", "key", "value"), layer.project(x, source), strict=True)
    query, key, value = (None if vectors is None else at(name, vectors) for name, vectors in made)
    assert value is not None
    if isinstance(spec.position, Rope):
        query, key = (None if vectors is None else spec.position.rotate(vectors, 0) for vectors in (query, key))
    extras = dict(layer.extras.items())
    call = partial(
        attend, query, key, value, spec, num_queries=x.shape[1], extras=extras, padding=padding, visible=visible
    )
    weights = None
    if at.wants("weights"):
        weights = at.offer("weights", call(return_weights=True)[1])
    if weights is not None:
        heads = weights.to(value.dtype) @ for_every_query_head(value, spec)
    elif return_weights:
        heads, weights = call(training=layer.training, return_weights=True)
    else:
        heads = call(training=layer.training)
    joined = layer._joined(heads)
    return (joined, weights) if return_weights and weights is not None else joined


def _mlp(mlp: MLP, at: At, x: Tensor) -> Tensor:
    """`MLP.forward`, its backward pass by PyTorch."""
    rows = x.flatten(0, -2) if torch.is_grad_enabled() else x  # in the shapes of `MLP.forward`, for the same rounding
    bent = at("before", mlp.widen(rows).view(*x.shape[:-1], -1))
    hidden = at("hidden", ACTIVATIONS[mlp.activation].apply(bent))
    result: Tensor = mlp.dropout(mlp.narrow(hidden.view(*rows.shape[:-1], -1)).view_as(x))
    return result


def _cross_entropy(model: LanguageModel, at: At, hidden: Tensor, targets: Tensor) -> Tensor:
    """`LanguageModel._cross_entropy`."""
    logits = at.offer("logits", F.linear(hidden, model.head_weight))
    if logits is None:
        return type(model)._cross_entropy(model, hidden, targets)
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(exact.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
