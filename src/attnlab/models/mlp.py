"""The two-layer perceptron of a block: y = φ(x W₁ᵀ + b₁) W₂ᵀ + b₂.

Its backward pass is written by hand: of what lies between the maps it keeps φ and its slope, where making both at once
is cheap, and else what goes into φ. Where that is large it keeps what goes into φ alone, and makes the rest again: this
saves a third of what a block keeps.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.attention.gradients import once
from attnlab.attention.linear import Linear, weight_gradients
from attnlab.attention.observer import Observed
from attnlab.models.activations import ACTIVATIONS
from attnlab.models.spec import ModelSpec

_LARGE = 16 << 20  # bytes, above which the slope is made again


class MLP(Observed):
    """Up-projection, activation, down-projection."""

    reported: ClassVar[tuple[str, ...]] = ("before", "hidden")

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.activation = spec.activation
        self.widen = Linear(spec.model_width, spec.mlp_width, spec.bias)
        self.narrow = Linear(spec.mlp_width, spec.model_width, spec.bias)
        self.dropout = nn.Dropout(spec.dropout)
        self.drops = spec.dropout > 0

    def forward(self, x: Tensor) -> Tensor:
        """(…, model width) → the same."""
        observer = self.observer
        fused = torch.is_grad_enabled() and not torch.compiler.is_compiling()
        if fused and observer is None:
            weights = self.widen.weight, self.widen.bias, self.narrow.weight, self.narrow.bias
            y: Tensor = _Perceptron.apply(x, *weights, self.activation)  # type: ignore[no-untyped-call]
        else:
            rows = x.flatten(0, -2) if fused else x  # in the shapes of `_Perceptron`, for the same rounding
            before = self.widen(rows)
            if observer is not None:
                before = observer("before", before.view(*x.shape[:-1], -1))
            hidden = ACTIVATIONS[self.activation].apply(before)
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
        bent = F.linear(x.flatten(0, -2), w1, b1)  # (tokens, mlp width)
        both = activation.with_slope(bent) if bent.nbytes <= _LARGE else None
        value, bent = (None, bent) if both is None else both
        ctx.save_for_backward(x, bent, value, w1, w2)
        ctx.activation = activation
        ctx.biased = b1 is not None
        return F.linear(activation.apply(bent) if value is None else value, w2, b2).view(x.shape)

    @staticmethod
    @once
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, bent, value, w1, w2 = ctx.saved_tensors
        if w1.dtype != bent.dtype:  # autocast cast them on the way forward
            x, w1, w2 = (tensor.to(bent.dtype) for tensor in (x, w1, w2))
        shape = grad.shape
        x, grad = x.flatten(0, -2), grad.flatten(0, -2)
        (w2_grad,) = weight_gradients([w2], grad, ctx.activation.apply(bent) if value is None else value)
        bent_grad = grad @ w2
        # With the value at hand, the slope took the place of what is bent.
        bent_grad = ctx.activation.back(bent_grad, bent) if value is None else bent_grad.mul_(bent)
        biases = (bent_grad.sum(0), grad.sum(0)) if ctx.biased else (None, None)
        (w1_grad,) = weight_gradients([w1], bent_grad, x)
        return (bent_grad @ w1).view(shape), w1_grad, biases[0], w2_grad, biases[1], None
