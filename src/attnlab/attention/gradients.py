"""Backward passes written by hand, for steps that would keep more or take longer if left to autograd.

once        a backward pass that refuses to be differentiated once more, where that could be asked for
direction   x / (|x| T), keeping the result alone
gated_norm  g ⊙ x / rms(x) ⊙ SiLU(z), keeping x and z alone
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


def gated_norm(vectors: Tensor, scale: Tensor, gate: Tensor, epsilon: float) -> Tensor:
    """Return g ⊙ x / √(mean x² + ε) ⊙ SiLU(z) for vectors x, a scale g and a gate z.

    With n the normed vectors, r = n / x, s = SiLU(z) and d the gradient of the result,

        ∂x = r (g s d − n mean(n g s d)),   ∂g = Σ d n s,   ∂z = SiLU′(z) d g n
    """
    if torch.compiler.is_compiling():  # the compiler decides what is kept
        return F.rms_norm(vectors, vectors.shape[-1:], scale, epsilon) * F.silu(gate)
    return _GatedNorm.apply(vectors, scale, gate, epsilon)  # type: ignore[no-any-return, no-untyped-call]


class _GatedNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, scale: Tensor, gate: Tensor, epsilon: float) -> Tensor:
        ctx.save_for_backward(vectors, scale, gate)
        ctx.epsilon = epsilon
        return F.rms_norm(vectors, vectors.shape[-1:], scale, epsilon).mul_(F.silu(gate))

    @staticmethod
    @once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        vectors, scale, gate = ctx.saved_tensors
        exact = torch.promote_types(vectors.dtype, torch.float32)
        x, d, z = (tensor.to(exact) for tensor in (vectors, gradient, gate))
        size = x.square().mean(dim=-1, keepdim=True).add_(ctx.epsilon).rsqrt_()
        normed = x * size
        of_gate = torch.ops.aten.silu_backward(d * normed * scale, z).to(gate.dtype)
        passed = F.silu(z).mul_(d)
        of_scale = (passed * normed).sum_to_size(scale.shape).to(scale.dtype)
        passed *= scale
        passed.addcmul_(normed, torch.linalg.vecdot(passed, normed).unsqueeze(-1) / x.shape[-1], value=-1)
        return passed.mul_(size).to(vectors.dtype), of_scale, of_gate, None


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
