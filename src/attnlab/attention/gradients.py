"""Hand-written backward passes, for operations where autograd would save more tensors or take longer.

once        a wrapper for backward passes that refuses a second derivative
direction   x / (|x| T), saving only the result and |x| T
head_norm   g ⊙ x / rms(x), times SiLU(z) if there is a gate z, saving only x and z
exclude     y − (y·v) v / |v|², saving v and the result
by_heads    a function of queries, keys and values, for a few heads at a time, recomputed in the backward pass
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnlab.attention.groups import repeated, run_length, shared_by

Backward = Callable[..., Any]
Piece = Callable[[Tensor, Tensor, Tensor], Tensor]

_CACHED = 2**18  # elements of one tensor that are processed at once


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
    """Return the unit vectors, divided by a temperature that may differ per head, (heads, 1, 1).

    With plain autograd, the division saves several tensors as large as x. With y = x / (|x| T) and g its gradient,

        ∂x = (g − T² y (y·g)) / (|x| T),   ∂T = −Σ y·g / T

    and y is saved anyway by the matrix product that uses it. The direction of a zero vector is zero.
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


def head_norm(vectors: Tensor, scale: Tensor, gate: Tensor | None = None, *, epsilon: float) -> Tensor:
    """Return g ⊙ x / √(mean x² + ε) for vectors x and a scale g, times SiLU(z) if there is a gate z.

    With n the normed vectors, r = n / x, s = SiLU(z), or 1 without a gate, and d the gradient of the result,

        ∂x = r (g s d − n mean(n g s d)),   ∂g = Σ d n s,   ∂z = SiLU′(z) d g n
    """
    if torch.compiler.is_compiling():  # the compiler decides what is kept
        return _normed(vectors, scale, epsilon) * (1 if gate is None else F.silu(gate))
    return _HeadNorm.apply(vectors, scale, gate, epsilon)  # type: ignore[no-any-return, no-untyped-call]


def _normed(vectors: Tensor, scale: Tensor, epsilon: float) -> Tensor:
    return F.rms_norm(vectors, vectors.shape[-1:], scale.to(vectors.dtype), epsilon)


class _HeadNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, scale: Tensor, gate: Tensor | None, epsilon: float) -> Tensor:
        ctx.save_for_backward(vectors, scale, gate)
        ctx.epsilon = epsilon
        result = _normed(vectors, scale, epsilon)
        return result if gate is None else result.mul_(F.silu(gate))

    @staticmethod
    @once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        vectors, scale, gate = ctx.saved_tensors
        exact = torch.promote_types(vectors.dtype, torch.float32)
        x, d = vectors.to(exact), gradient.to(exact)
        size = x.square().mean(dim=-1, keepdim=True).add_(ctx.epsilon).rsqrt_()
        normed = x * size
        if gate is None:
            of_gate, passed = None, d
        else:
            z = gate.to(exact)
            of_gate = torch.ops.aten.silu_backward(d * normed * scale, z).to(gate.dtype)
            passed = F.silu(z).mul_(d)
        of_scale = (passed * normed).sum_to_size(scale.shape).to(scale.dtype)
        passed = passed * scale if gate is None else passed.mul_(scale)
        passed.addcmul_(normed, torch.linalg.vecdot(passed, normed).unsqueeze(-1) / x.shape[-1], value=-1)
        return passed.mul_(size).to(vectors.dtype), of_scale, of_gate, None


def exclude(vectors: Tensor, along: Tensor) -> Tensor:
    """Return the component of the vectors y that is orthogonal to v; all of y where v is zero.

    With a = y·v / |v|², z = y − a v the result, g its gradient and b = g·v / |v|²,

        ∂y = g − b v,   ∂v = −(b z + a ∂y)
    """
    if torch.compiler.is_compiling():  # the compiler decides what is kept
        return vectors - (vectors * along).sum(-1, keepdim=True) / _squared_length(along) * along
    return _Exclude.apply(vectors, along)  # type: ignore[no-any-return, no-untyped-call]


def _squared_length(vectors: Tensor) -> Tensor:
    """Return |v|², (…, 1), clamped to the smallest positive normal number, for zero vectors."""
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
        # In token-major layout, which the fused kernel reads without a copy.
        vectors = torch.empty_like(gradient.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)
        torch.addcmul(gradient, along, other, value=-1, out=vectors)
        return vectors, (result * -other).addcmul_(vectors, share, value=-1)


def by_heads(function: Piece, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return function(query, key, value), all (batch, heads, tokens, width), where no head depends on another.

    Keys and values may have fewer heads, which groups of query heads share; the function gets them repeated. The
    tensors that it saves for its gradient exist for a few heads at a time, and mostly fit in the CPU cache.
    """
    if torch.compiler.is_compiling():  # the compiler decides what is kept
        return _repeating(function, query, key, value)
    return _ByHeads.apply(function, query, key, value)  # type: ignore[no-any-return, no-untyped-call]


def _repeating(function: Piece, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return function(query, repeated(key, query.shape[1]), repeated(value, query.shape[1]))


def _runs(query: Tensor, key: Tensor) -> Iterator[tuple[slice, slice, slice]]:
    """Yield runs of heads, as slices of the query, key and value heads."""
    batch, heads, tokens, width = query.shape
    group = heads // key.shape[1]
    step = run_length(max(1, _CACHED // max(1, batch * tokens * width)), group)
    for start in range(0, heads, step):
        run = slice(start, min(start + step, heads))
        shared = shared_by(run, group)
        yield run, shared, shared


class _ByHeads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, function: Piece, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        ctx.function = function
        ctx.save_for_backward(query, key, value)
        output = query.new_empty(*query.shape[:3], value.shape[-1])
        for heads, shared, _ in _runs(query, key):
            output[:, heads] = _repeating(function, query[:, heads], key[:, shared], value[:, shared])
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs = ctx.saved_tensors
        grouped = inputs[1].shape[1] < inputs[0].shape[1]  # then several runs may add to one head
        gradients = [torch.zeros_like(tensor) if grouped else torch.empty_like(tensor) for tensor in inputs]
        for runs in _runs(*inputs[:2]):
            with torch.enable_grad():
                pieces = [tensor[:, run].detach().requires_grad_() for tensor, run in zip(inputs, runs, strict=True)]
                output = _repeating(ctx.function, *pieces)
            found = torch.autograd.grad(output, pieces, gradient[:, runs[0]])
            for whole, run, part in zip(gradients, runs, found, strict=True):
                whole[:, run] = whole[:, run] + part if grouped else part
        return None, *gradients
