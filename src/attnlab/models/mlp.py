"""The two-layer perceptron of a block: y = φ(x W₁ᵀ + b₁) W₂ᵀ + b₂.

Its backward pass is written by hand, for the sake of memory: φ is computed again from what goes into it instead of
being kept, which saves a third of what a block keeps, and its gradient is written where the incoming one was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from attnlab.models.spec import ModelSpec


class MLP(nn.Module):
    """Widen, bend, narrow."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.activation = spec.activation
        self.widen = nn.Linear(spec.model_width, spec.mlp_width, spec.bias)
        self.narrow = nn.Linear(spec.mlp_width, spec.model_width, spec.bias)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(…, model width) → the same."""
        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            y = self.narrow(activate(self.widen(x), self.activation))
        else:
            weights = self.widen.weight, self.widen.bias, self.narrow.weight, self.narrow.bias
            y = _Perceptron.apply(x.flatten(0, -2), *weights, self.activation).view_as(x)  # type: ignore[no-untyped-call]
        result: Tensor = self.dropout(y)
        return result


def activate(x: Tensor, activation: str) -> Tensor:
    """φ(x)."""
    return _ACTIVATIONS[activation][0](x)


def _relu_squared_backward(grad: Tensor, x: Tensor) -> Tensor:
    return grad.mul_(x.clamp(min=0).mul_(2))


# φ, and what turns the gradient of φ(x), which it may overwrite, and x into the gradient of x.
_ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    "gelu": (F.gelu, torch.ops.aten.gelu_backward),
    "gelu-tanh": (
        lambda x: F.gelu(x, approximate="tanh"),
        lambda grad, x: torch.ops.aten.gelu_backward(grad, x, approximate="tanh"),
    ),
    "relu-squared": (lambda x: x.clamp(min=0).square_(), _relu_squared_backward),
}


class _Perceptron(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w1: Tensor, b1: Tensor | None, w2: Tensor, b2: Tensor | None, activation: str
    ) -> Tensor:
        bent = F.linear(x, w1, b1)  # (tokens, mlp width)
        ctx.save_for_backward(x, bent, w1, w2)
        ctx.activation = activation
        ctx.biased = b1 is not None
        return F.linear(activate(bent, activation), w2, b2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, bent, w1, w2 = ctx.saved_tensors
        x, w1, w2 = (tensor.to(bent.dtype) for tensor in (x, w1, w2))  # autocast cast them on the way forward
        w2_grad = grad.t() @ activate(bent, ctx.activation)
        bent_grad = _ACTIVATIONS[ctx.activation][1](grad @ w2, bent)
        biases = (bent_grad.sum(0), grad.sum(0)) if ctx.biased else (None, None)
        return bent_grad @ w1, bent_grad.t() @ x, biases[0], w2_grad, biases[1], None
