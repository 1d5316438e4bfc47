"""Linear maps for the two things that models do all day: training on many tokens, and decoding one.

`Linear`    for a single row, y = W x reads every weight once and does nothing else, so that memory sets the pace.
            PyTorch hands such a product to one core, which cannot read as fast as memory delivers. Here the rows of W
            are cut into a few pieces, which are multiplied as a batch: several cores read at once.
`together`  several maps of the same input, whose gradients take two products instead of two for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

PIECES = 4
_SMALLEST = 1 << 15  # weights; below, starting the threads costs more than it gains


class Linear(nn.Linear):
    """`nn.Linear`, with another way for decoding on a CPU."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b, for x (…, columns) and weight (rows, columns)."""
    rows, columns = weight.shape
    alone = x.numel() == columns and weight.numel() >= _SMALLEST
    if not alone or torch.is_grad_enabled() or not x.is_cpu or torch.compiler.is_compiling() or x.dtype != weight.dtype:
        return F.linear(x, weight, bias)
    whole = rows - rows % PIECES
    y = torch.bmm(x.reshape(1, 1, columns).expand(PIECES, 1, columns), in_pieces(weight[:whole])).view(whole)
    if whole < rows:
        y = torch.cat([y, torch.mv(weight[whole:], x.reshape(columns))])
    return (y if bias is None else y.add_(bias)).view(*x.shape[:-1], rows)


def in_pieces(weight: Tensor) -> Tensor:
    """A matrix (rows, columns) as a batch (pieces, columns, rows / pieces) that a row is multiplied with."""
    return weight.view(PIECES, -1, weight.shape[1]).transpose(1, 2)


def together(x: Tensor, maps: Sequence[nn.Linear]) -> tuple[Tensor, ...]:
    """What each of the maps makes of x (batch, tokens, columns)."""
    plain = torch.compiler.is_compiling() or torch.is_autocast_enabled(x.device.type)
    if len(maps) < 2 or plain or not torch.is_grad_enabled():
        return tuple(map_(x) for map_ in maps)
    weights = [map_.weight for map_ in maps]
    biases: list[Tensor | None] = [map_.bias for map_ in maps]
    if biases[0] is None:
        biases = []
    made: tuple[Tensor, ...] = _Together.apply(x, len(maps), *weights, *biases)  # type: ignore[no-untyped-call]
    return made


class _Together(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, count: int, *parameters: Tensor) -> tuple[Tensor, ...]:
        weights, biases = parameters[:count], parameters[count:]
        ctx.save_for_backward(x, *weights)
        ctx.biased = bool(biases)
        # Not one product here: its parts could only be freed together, and some are not kept for the way back.
        return tuple(map(F.linear, [x] * count, weights, biases or [None] * count))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights = ctx.saved_tensors
        widths = [len(weight) for weight in weights]
        grad = torch.cat(grads, dim=-1).flatten(0, -2)  # (tokens, all rows)
        weight_grads = torch.split(grad.t() @ x.flatten(0, -2), widths)
        bias_grads = torch.split(grad.sum(0), widths) if ctx.biased else ()
        return (grad @ torch.cat(weights)).view_as(x), None, *weight_grads, *bias_grads
