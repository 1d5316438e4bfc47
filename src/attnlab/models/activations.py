"""What a perceptron does between its two maps, and how a gradient goes back through it.

gelu           x Φ(x)                                                  arXiv 1606.08415
gelu-tanh      x (1 + tanh u) / 2 with u = √(2/π) (x + 0.044715 x³)    GPT-2's
relu-squared   max(0, x)²                                              arXiv 2109.08668

On a CPU tanh is the most expensive thing in a small model. (1 + tanh u) / 2 is the sigmoid of 2u, which takes a third
of the time; kept as the *gate* of x, it also makes the way back cheap: φ' = s + x s (1 − s) · 2u' with s the gate.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor

_LINEAR = 2 * math.sqrt(2 / math.pi)  # 2u = x (_LINEAR + _CUBIC x²)
_CUBIC = 0.044715 * _LINEAR


class Activation(ABC):
    """φ, elementwise."""

    def gate(self, x: Tensor) -> Tensor | None:
        """What is worth keeping for the way back, if anything is."""
        del x
        return None

    @abstractmethod
    def apply(self, x: Tensor, gate: Tensor | None) -> Tensor:
        """φ(x)."""

    @abstractmethod
    def back(self, grad: Tensor, x: Tensor, gate: Tensor | None) -> Tensor:
        """The gradient of x from that of φ(x), which may be overwritten."""


class Gelu(Activation):
    def apply(self, x: Tensor, gate: Tensor | None) -> Tensor:
        del gate
        return F.gelu(x)

    def back(self, grad: Tensor, x: Tensor, gate: Tensor | None) -> Tensor:
        del gate
        result: Tensor = torch.ops.aten.gelu_backward(grad, x)
        return result


class GeluTanh(Activation):
    def gate(self, x: Tensor) -> Tensor | None:
        if x.is_cuda:
            return None  # where one kernel does it all
        return torch.addcmul(x.new_tensor(_LINEAR), x, x, value=_CUBIC).mul_(x).sigmoid_()

    def apply(self, x: Tensor, gate: Tensor | None) -> Tensor:
        return F.gelu(x, approximate="tanh") if gate is None else x * gate

    def back(self, grad: Tensor, x: Tensor, gate: Tensor | None) -> Tensor:
        if gate is None:
            result: Tensor = torch.ops.aten.gelu_backward(grad, x, approximate="tanh")
            return result
        slope = torch.addcmul(x.new_tensor(_LINEAR), x, x, value=3 * _CUBIC).mul_(x)  # x · 2u'
        return grad.mul_(torch.addcmul(gate, slope, torch.addcmul(gate, gate, gate, value=-1)))


class ReluSquared(Activation):
    def apply(self, x: Tensor, gate: Tensor | None) -> Tensor:
        del gate
        return x.clamp(min=0).square_()

    def back(self, grad: Tensor, x: Tensor, gate: Tensor | None) -> Tensor:
        del gate
        return grad.mul_(x.clamp(min=0).mul_(2))


ACTIVATIONS: dict[str, Activation] = {"gelu": Gelu(), "gelu-tanh": GeluTanh(), "relu-squared": ReluSquared()}


def activate(x: Tensor, name: str) -> Tensor:
    """φ(x) by its name."""
    activation = ACTIVATIONS[name]
    if torch.compiler.is_compiling() or torch.is_grad_enabled():
        return activation.apply(x, None)
    return activation.apply(x, activation.gate(x))
