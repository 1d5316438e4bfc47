"""Linear layers, optimised for training on many tokens and for decoding a single one.

`Linear`    for a single row, y = W x reads every weight once, so that memory bandwidth is the limit. PyTorch runs this
            product on one core, which cannot use the full bandwidth. Here the rows of W are split into a few pieces and
            multiplied as a batch, so that several cores read at once.
`together`  several projections of the same input, whose gradients take two products in all instead of two each.

In training, the gradient of a weight is a matrix product that is then added to `weight.grad`. Inside
`adding_to_gradients` the product accumulates into `weight.grad` directly, which saves memory traffic. Autograd then
returns no gradient for the weight, so use it only with `backward()` and `.grad`.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.attention.gradients import once

PIECES = 4
_SMALLEST = 1 << 15  # weights; below this, starting the threads costs more than it saves


class Linear(nn.Linear):
    """`nn.Linear` with a faster path for decoding on a CPU."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x Wᵀ + b, for x (…, columns) and weight (rows, columns)."""
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
    """View a matrix (rows, columns) as a batch (pieces, columns, rows / pieces), to multiply a row vector by."""
    return weight.view(PIECES, -1, weight.shape[1]).transpose(1, 2)


def in_heads(x: Tensor, width: int) -> Tensor:
    """Split into heads: (batch, tokens, heads · width) → (batch, heads, tokens, width)."""
    batch, tokens, columns = x.shape
    return x.view(batch, tokens, columns // width, width).transpose(1, 2)


def together(x: Tensor, maps: Sequence[nn.Linear], widths: Sequence[int]) -> tuple[Tensor, ...]:
    """Apply each layer to x (batch, tokens, columns) and split into heads: (batch, heads, tokens, width)."""
    plain = torch.compiler.is_compiling() or torch.is_autocast_enabled(x.device.type)
    if len(maps) < 2 or plain or not torch.is_grad_enabled():
        return tuple(in_heads(map_(x), width) for map_, width in zip(maps, widths, strict=True))
    weights = [map_.weight for map_ in maps]
    biases: list[Tensor | None] = [map_.bias for map_ in maps]
    if biases[0] is None:
        biases = []
    made: tuple[Tensor, ...] = _Together.apply(x, widths, *weights, *biases)  # type: ignore[no-untyped-call]
    return made


class _Together(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, widths: Sequence[int], *parameters: Tensor) -> tuple[Tensor, ...]:
        count = len(widths)
        weights, biases = parameters[:count], parameters[count:]
        ctx.save_for_backward(x, *weights)
        ctx.biased = bool(biases)
        # Not one product: its parts could only be freed together, and some are not needed in the backward pass.
        made = map(F.linear, [x] * count, weights, biases or [None] * count)
        return tuple(map(in_heads, made, widths))

    @staticmethod
    @once
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights = ctx.saved_tensors
        rows = [grad.transpose(1, 2).flatten(2) for grad in grads]
        grad = torch.cat(rows, dim=-1).flatten(0, -2)  # (tokens, all rows)
        weight_grads = weight_gradients(weights, grad, x.flatten(0, -2))
        bias_grads = _parts(grad.sum(0), weights) if ctx.biased else ()
        return (grad @ torch.cat(weights)).view_as(x), None, *weight_grads, *bias_grads


_here = threading.local()  # a backward pass on a CPU runs in the thread that calls it
_WORTH = 1 << 17  # weights; below this, the separate addition is faster than checking `weight.grad`


@contextmanager
def adding_to_gradients() -> Iterator[None]:
    """Make backward passes inside accumulate the gradients of weights directly into `weight.grad`."""
    before, _here.adding = getattr(_here, "adding", False), True
    try:
        yield
    finally:
        _here.adding = before


def weight_gradients(weights: Sequence[Tensor], grad: Tensor, x: Tensor) -> Sequence[Tensor | None]:
    """Return gradᵀ x for the weights of several projections of x, concatenated in grad; None where added."""
    homes = [home for weight in weights if (home := _home(weight, grad)) is not None]
    if len(homes) < len(weights):
        return _parts(grad.t() @ x, weights)
    whole = _joined(homes)
    for home, part in zip(whole, torch.split(grad, [len(home) for home in whole], dim=1), strict=True):
        home.addmm_(part.t(), x)
    return [None] * len(weights)


def _parts(rows: Tensor, weights: Sequence[Tensor]) -> Sequence[Tensor]:
    """Divide rows that follow each other among the weights that they belong to."""
    return (rows,) if len(weights) == 1 else rows.split_with_sizes([weight.shape[0] for weight in weights])


def _home(weight: Tensor, grad: Tensor) -> Tensor | None:
    """Return `weight.grad` if a product may be added to it in place, else None."""
    if weight.numel() < _WORTH or not getattr(_here, "adding", False) or not weight.is_leaf or weight.grad is None:
        return None
    return weight.grad if weight.grad.dtype == grad.dtype else None


def _joined(homes: list[Tensor]) -> list[Tensor]:
    """Return matrices that follow each other in memory as one, else as they are."""
    follows = all(
        after.untyped_storage().data_ptr() == before.untyped_storage().data_ptr()
        and after.storage_offset() == before.storage_offset() + before.numel()
        and before.is_contiguous()
        and after.is_contiguous()
        for before, after in itertools.pairwise(homes)
    )
    if len(homes) == 1 or not follows:
        return homes
    return [homes[0].as_strided((sum(map(len, homes)), homes[0].shape[1]), homes[0].stride())]
