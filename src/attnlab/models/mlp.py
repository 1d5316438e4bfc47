"""The MLP of a block, y = φ(x W₁ᵀ + b₁) W₂ᵀ + b₂, and its activations φ.

    gelu           x Φ(x)                                                  arXiv 1606.08415
    gelu-tanh      x (1 + tanh u) / 2 with u = √(2/π) (x + 0.044715 x³)    GPT-2's
    relu-squared   max(0, x)²                                              arXiv 2109.08668
    silu           x σ(x)                                                  arXiv 1702.03118

A gated MLP is y = (φ(x W_gᵀ + b_g) ⊙ (x W₁ᵀ + b₁)) W₂ᵀ + b₂: SwiGLU for silu (arXiv 2002.05202).

The backward pass is written by hand. Between the two projections it stores φ and its derivative if computing both at
once is cheap, and otherwise the pre-activation. If that is large it stores the pre-activation alone and recomputes the
rest: this saves a third of the activation memory of a block.

On a CPU, tanh is the most expensive operation of a small model. (1 + tanh u) / 2 is the sigmoid s of 2u, which takes a
third of the time; and given s, φ' is cheap too: φ' = s + x s (1 − s) 2u', where x 2u' = 3 (2u) − 2 √(8/π) x.
So value and derivative are computed together, in pieces that stay in the processor's cache from one step to the next.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.attention.gradients import once
from attnlab.attention.linear import Linear, weight_gradients
from attnlab.attention.observer import Observed
from attnlab.models.spec import ModelSpec

_LARGE = 16 << 20  # bytes of pre-activations, above which the derivative is recomputed
_LINEAR = 2 * math.sqrt(2 / math.pi)  # 2u = x (_LINEAR + _CUBIC x²)
_CUBIC = 0.044715 * _LINEAR
_PIECE = 1 << 18  # numbers


class MLP(Observed):
    """Up-projection, activation, down-projection."""

    reported: ClassVar[tuple[str, ...]] = ("before", "hidden")

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.activation = spec.activation
        self.gate = Linear(spec.model_width, spec.mlp_width, spec.bias) if spec.gated else None
        self.widen = Linear(spec.model_width, spec.mlp_width, spec.bias)
        self.narrow = Linear(spec.mlp_width, spec.model_width, spec.bias)
        self.dropout = nn.Dropout(spec.dropout)
        self.drops = spec.dropout > 0

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for `x`, both (…, model width)."""
        observer = self.observer
        fused = self.gate is None and torch.is_grad_enabled() and not torch.compiler.is_compiling()
        if fused and observer is None:
            weights = self.widen.weight, self.widen.bias, self.narrow.weight, self.narrow.bias
            y: Tensor = _Perceptron.apply(x, *weights, self.activation)  # type: ignore[no-untyped-call]
        else:
            rows = x.flatten(0, -2) if fused else x  # in the shapes of `_Perceptron`, for the same rounding
            before = (self.gate or self.widen)(rows)
            if observer is not None:
                before = observer("before", before.view(*x.shape[:-1], -1))
            hidden = ACTIVATIONS[self.activation].apply(before)
            if self.gate is not None:
                hidden = hidden * self.widen(rows)
            if observer is not None:
                hidden = observer("hidden", hidden).view(*rows.shape[:-1], -1)
            y = self.narrow(hidden)
            if fused:
                y = y.view_as(x)
        return self.dropout(y) if self.drops else y


class _Perceptron(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w1: Tensor, b1: Tensor | None, w2: Tensor, b2: Tensor | None, name: str) -> Tensor:
        activation = ACTIVATIONS[name]
        before = F.linear(x.flatten(0, -2), w1, b1)  # (tokens, mlp width)
        both = activation.with_derivative(before) if before.nbytes <= _LARGE else None
        value, before = (None, before) if both is None else both
        ctx.save_for_backward(x, before, value, w1, w2)
        ctx.activation = activation
        ctx.biased = b1 is not None
        return F.linear(activation.apply(before) if value is None else value, w2, b2).view(x.shape)

    @staticmethod
    @once
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, before, value, w1, w2 = ctx.saved_tensors
        if w1.dtype != before.dtype:  # autocast cast them in the forward pass
            x, w1, w2 = (tensor.to(before.dtype) for tensor in (x, w1, w2))
        shape = grad.shape
        x, grad = x.flatten(0, -2), grad.flatten(0, -2)
        (w2_grad,) = weight_gradients([w2], grad, ctx.activation.apply(before) if value is None else value)
        before_grad = grad @ w2
        # If the value was stored, `before` holds the derivative and not the pre-activation.
        before_grad = ctx.activation.back(before_grad, before) if value is None else before_grad.mul_(before)
        biases = (before_grad.sum(0), grad.sum(0)) if ctx.biased else (None, None)
        (w1_grad,) = weight_gradients([w1], before_grad, x)
        return (before_grad @ w1).view(shape), w1_grad, biases[0], w2_grad, biases[1], None


class Activation(ABC):
    """φ, elementwise."""

    @abstractmethod
    def apply(self, x: Tensor) -> Tensor:
        """Return φ(x)."""

    @abstractmethod
    def back(self, grad: Tensor, x: Tensor) -> Tensor:
        """Return the gradient of x from that of φ(x), which may be overwritten."""

    def with_derivative(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return φ(x) and φ'(x), if both together cost little more than one, else None; x may be overwritten."""
        del x
        return None


class Gelu(Activation):
    def apply(self, x: Tensor) -> Tensor:
        return F.gelu(x)

    def back(self, grad: Tensor, x: Tensor) -> Tensor:
        result: Tensor = torch.ops.aten.gelu_backward(grad, x)
        return result


class GeluTanh(Activation):
    def apply(self, x: Tensor) -> Tensor:
        if x.is_cuda or torch.compiler.is_compiling():
            return F.gelu(x, approximate="tanh")  # where one kernel computes all of it
        return x * _doubled(x).sigmoid_()

    def back(self, grad: Tensor, x: Tensor) -> Tensor:
        if x.is_cuda:
            result: Tensor = torch.ops.aten.gelu_backward(grad, x, approximate="tanh")
            return result
        for part, its_grad in zip(_pieces(x), _pieces(grad), strict=True):
            gate, rest = _gate_and_rest(part)
            its_grad.mul_(gate.addcmul_(gate, rest))
        return grad

    def with_derivative(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        if x.is_cuda:
            return None
        if x.numel() <= _PIECE:  # small enough to reuse the buffers of gate and rest, which are still in the cache
            gate, rest = _gate_and_rest(x)
            derivative = torch.addcmul(gate, gate, rest, out=rest)
            return gate.mul_(x), derivative
        value = torch.empty_like(x)
        for part, its_value in zip(_pieces(x), _pieces(value), strict=True):
            gate, rest = _gate_and_rest(part)
            torch.mul(part, gate, out=its_value)
            torch.addcmul(gate, gate, rest, out=part)
        return value, x


def _pieces(x: Tensor) -> tuple[Tensor, ...]:
    return torch.split(x.view(-1), _PIECE)


def _gate_and_rest(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return s, and b with φ' = s + s b."""
    doubled = _doubled(x)
    gate = torch.sigmoid(doubled)
    steep = doubled.mul_(3).add_(x, alpha=-2 * _LINEAR)  # x 2u'
    return gate, steep.addcmul_(steep, gate, value=-1)


def _doubled(x: Tensor) -> Tensor:
    """Return 2u."""
    return torch.addcmul(_linear(x.dtype, x.device), x, x, value=_CUBIC).mul_(x)


@functools.cache
def _linear(dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the coefficient of x in 2u as a tensor, cached: making it takes longer than a small product."""
    return torch.tensor(_LINEAR, dtype=dtype, device=device)


class ReluSquared(Activation):
    def apply(self, x: Tensor) -> Tensor:
        return x.clamp(min=0).square_()

    def back(self, grad: Tensor, x: Tensor) -> Tensor:
        return grad.mul_(x.clamp(min=0).mul_(2))


class Silu(Activation):
    def apply(self, x: Tensor) -> Tensor:
        return F.silu(x)

    def back(self, grad: Tensor, x: Tensor) -> Tensor:
        result: Tensor = torch.ops.aten.silu_backward(grad, x)
        return result


ACTIVATIONS: dict[str, Activation] = {
    "gelu": Gelu(),
    "gelu-tanh": GeluTanh(),
    "relu-squared": ReluSquared(),
    "silu": Silu(),
}
