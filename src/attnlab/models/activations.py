"""What a perceptron does between its two maps, and how a gradient goes back through it.

gelu           x Φ(x)                                                  arXiv 1606.08415
gelu-tanh      x (1 + tanh u) / 2 with u = √(2/π) (x + 0.044715 x³)    GPT-2's
relu-squared   max(0, x)²                                              arXiv 2109.08668

On a CPU tanh is the most expensive thing in a small model. (1 + tanh u) / 2 is the sigmoid s of 2u, which takes a third
of the time; and with s at hand the slope is cheap too: φ' = s + x s (1 − s) 2u', where x 2u' = 3 (2u) − 2 √(8/π) x. So
value and slope are made together, in pieces that stay in the processor's cache from one step to the next.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor

_LINEAR = 2 * math.sqrt(2 / math.pi)  # 2u = x (_LINEAR + _CUBIC x²)
_CUBIC = 0.044715 * _LINEAR
_PIECE = 1 << 18  # numbers


class Activation(ABC):
    """φ, elementwise."""

    @abstractmethod
    def apply(self, x: Tensor) -> Tensor:
        """φ(x)."""

    @abstractmethod
    def back(self, grad: Tensor, x: Tensor) -> Tensor:
        """The gradient of x from that of φ(x), which may be overwritten."""

    def with_slope(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        """φ(x) and φ'(x), where both together cost little more than one; x may be overwritten."""
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
            return F.gelu(x, approximate="tanh")  # where one kernel does it all
        return x * _doubled(x).sigmoid_()

    def back(self, grad: Tensor, x: Tensor) -> Tensor:
        if x.is_cuda:
            result: Tensor = torch.ops.aten.gelu_backward(grad, x, approximate="tanh")
            return result
        for part, its_grad in zip(_pieces(x), _pieces(grad), strict=True):
            gate, bend = _gate_and_bend(part)
            its_grad.mul_(gate.addcmul_(gate, bend))
        return grad

    def with_slope(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        if x.is_cuda:
            return None
        if x.numel() <= _PIECE:  # small enough to reuse the buffers of gate and bend, which are still in the cache
            gate, bend = _gate_and_bend(x)
            slope = torch.addcmul(gate, gate, bend, out=bend)
            return gate.mul_(x), slope
        value = torch.empty_like(x)
        for part, its_value in zip(_pieces(x), _pieces(value), strict=True):
            gate, bend = _gate_and_bend(part)
            torch.mul(part, gate, out=its_value)
            torch.addcmul(gate, gate, bend, out=part)
        return value, x


def _pieces(x: Tensor) -> tuple[Tensor, ...]:
    return torch.split(x.view(-1), _PIECE)


def _gate_and_bend(x: Tensor) -> tuple[Tensor, Tensor]:
    """s, and b with φ' = s + s b."""
    doubled = _doubled(x)
    gate = torch.sigmoid(doubled)
    steep = doubled.mul_(3).add_(x, alpha=-2 * _LINEAR)  # x 2u'
    return gate, steep.addcmul_(steep, gate, value=-1)


def _doubled(x: Tensor) -> Tensor:
    """2u."""
    return torch.addcmul(_linear(x.dtype, x.device), x, x, value=_CUBIC).mul_(x)


@functools.cache
def _linear(dtype: torch.dtype, device: torch.device) -> Tensor:
    """Made once: making it takes longer than a small product."""
    return torch.tensor(_LINEAR, dtype=dtype, device=device)


class ReluSquared(Activation):
    def apply(self, x: Tensor) -> Tensor:
        return x.clamp(min=0).square_()

    def back(self, grad: Tensor, x: Tensor) -> Tensor:
        return grad.mul_(x.clamp(min=0).mul_(2))


ACTIVATIONS: dict[str, Activation] = {"gelu": Gelu(), "gelu-tanh": GeluTanh(), "relu-squared": ReluSquared()}
