"""Backward passes written by hand, for steps that would keep more or take longer if left to autograd.

once        a backward pass that refuses to be differentiated once more, where that could be asked for
direction   x / (|x| T), keeping the result alone
exclude     y − (y·v) v / |v|², keeping v and the result
by_heads    a function of queries, keys and values for a few heads at a time, and again in the backward pass
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

Backward = Callable[..., Any]
Piece = Callable[[Tensor, Tensor, Tensor], Tensor]

_CACHED = 2**18  # numbers of one tensor that are taken at once


def once(backward: Backward) -> Backward:
    """Wrap a backward pass in PyTorch's `once_differentiable`, where a second derivative could be asked for.

    `once_differentiable` disables gradients in every call, which takes 9 µs. A backward pass that builds no graph has
    them disabled already.
    """
    guarded = once_differentiable(backward)

    @functools.wraps(backward)
    def wrapper(ctx: Any, *gradients: Any) -> Any:
        return guarded(ctx, *gradients) if torch.is_grad_enabled() else backward(ctx, *gradients)

    return wrapper


def direction(vectors: Tensor, temperature: Tensor | float = 1.0) -> Tensor:
    """Return the unit vectors, divided by a temperature that may be a number for each head, (heads, 1, 1).

    Written out, the division keeps several tensors as large as x for its gradient. With y = x / (|x| T) and g its
    gradient,

        ∂x = (g − T² y (y·g)) / (|x| T),   ∂T = −Σ y·g / T

    and y is kept anyway by the product that it goes into. The direction of a zero vector is zero.
    """
    if torch.compiler.is_compiling():  # the compiler decides what is kept
        return F.normalize(vectors, dim=-1) / temperature
    return _Direction.apply(vectors, temperature)  # type: ignore[no-any-return, no-untyped-call]


class _Direction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, temperature: Tensor | float) -> Tensor:
        length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True).clamp_(min=1e-12).mul_(temperature)
        result: Tensor = vectors / length
        learned = isinstance(temperature, Tensor)
        ctx.fixed = None if learned else temperature
        ctx.save_for_backward(result, length, temperature if learned else None)
        return result

    @staticmethod
    @once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None]:
        result, length, learned = ctx.saved_tensors
        temperature = learned if ctx.fixed is None else ctx.fixed
        along = torch.linalg.vecdot(result, gradient).unsqueeze(-1)
        vectors = torch.addcmul(gradient, result, along * temperature**2, value=-1).div_(length)
        if ctx.fixed is not None:
            return vectors, None
        return vectors, -(along / learned).sum_to_size(learned.shape)


def exclude(vectors: Tensor, along: Tensor) -> Tensor:
    """Return what of the vectors y is orthogonal to others, v; all of it where v is zero.

    With a = y·v / |v|², z = y − a v the result, g its gradient and b = g·v / |v|²,

        ∂y = g − b v,   ∂v = −(b z + a ∂y)
    """
    if torch.compiler.is_compiling():  # the compiler decides what is kept
        return vectors - (vectors * along).sum(-1, keepdim=True) / _squared_length(along) * along
    return _Exclude.apply(vectors, along)  # type: ignore[no-any-return, no-untyped-call]


def _squared_length(vectors: Tensor) -> Tensor:
    """|v|², and the smallest number above 0 for a zero vector."""
    length: Tensor = torch.linalg.vecdot(vectors, vectors).unsqueeze(-1)
    return length.clamp(min=torch.finfo(vectors.dtype).tiny)


class _Exclude(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, along: Tensor) -> Tensor:
        length = _squared_length(along)
        share = torch.linalg.vecdot(vectors, along).unsqueeze(-1).div_(length)
        result = torch.addcmul(vectors, along, share, value=-1)
        ctx.save_for_backward(result, along, share, length)
        return result

    @staticmethod
    @once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        result, along, share, length = ctx.saved_tensors
        other = torch.linalg.vecdot(gradient, along).unsqueeze(-1).div_(length)
        vectors = torch.addcmul(gradient, along, other, value=-1)
        return vectors, (result * -other).addcmul_(vectors, share, value=-1)


def by_heads(function: Piece, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return function(query, key, value), all (batch, heads, tokens, width), where no head depends on another.

    What the function keeps for its gradient exists for a few heads only, and mostly stays in the processor's cache.
    """
    if torch.compiler.is_compiling():  # the compiler decides what is kept
        return function(query, key, value)
    return _ByHeads.apply(function, query, key, value)  # type: ignore[no-any-return, no-untyped-call]


def _runs(query: Tensor) -> Iterator[slice]:
    batch, heads, tokens, width = query.shape
    step = max(1, _CACHED // max(1, batch * tokens * width))
    return (slice(start, min(start + step, heads)) for start in range(0, heads, step))


class _ByHeads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, function: Piece, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        ctx.function = function
        ctx.save_for_backward(query, key, value)
        output = query.new_empty(*query.shape[:3], value.shape[-1])
        for heads in _runs(query):
            output[:, heads] = function(query[:, heads], key[:, heads], value[:, heads])
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        gradients = [torch.empty_like(tensor) for tensor in inputs]
        for heads in _runs(inputs[0]):
            with torch.enable_grad():
                pieces = [tensor[:, heads].detach().requires_grad_() for tensor in inputs]
                output = ctx.function(*pieces)
            for whole, part in zip(gradients, torch.autograd.grad(output, pieces, gradient[:, heads]), strict=True):
                whole[:, heads] = part
        return None, *gradients
