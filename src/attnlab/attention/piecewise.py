"""A function of queries, keys and values computed for a few heads at a time, and again in the backward pass.

What a function keeps for its gradient then exists for those heads only, and mostly stays in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_CACHED = 2**18  # numbers of one tensor that are taken at once

Piece = Callable[[Tensor, Tensor, Tensor], Tensor]


def by_heads(function: Piece, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """function(query, key, value), all (batch, heads, tokens, width), where no head depends on another."""
    if torch.compiler.is_compiling():  # which keeps what it likes
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
