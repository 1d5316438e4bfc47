"""Cross-entropy from what the head reads, without holding all logits.

    loss = mean over tokens of  log Σ_v exp(h·w_v) − h·w_target

For a large vocabulary the logits are by far the largest tensor of training. Here they are made for a few rows at a
time, and while they are there their gradient p − onehot is taken at once: into that of h, and into that of the head's
weight.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnlab.corpora import IGNORED

_CHUNK_BYTES = 64 << 20


def cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """The mean over the targets that are not `IGNORED`: hidden (tokens, width), weight (vocabulary, width)."""
    rows = max(1, _CHUNK_BYTES // (weight.shape[0] * hidden.element_size()))
    if len(hidden) <= rows or torch.compiler.is_compiling():
        return F.cross_entropy(_logits(hidden, weight), targets, ignore_index=IGNORED)
    if not torch.is_grad_enabled():
        return _chunked(hidden, weight, targets, rows, None, None)
    result: Tensor = _ChunkedCrossEntropy.apply(hidden, weight, targets, rows)  # type: ignore[no-untyped-call]
    return result


def _logits(hidden: Tensor, weight: Tensor) -> Tensor:
    """(rows, vocabulary), at least in float32: the loss is a difference of large numbers."""
    logits = F.linear(hidden, weight)
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _chunked(
    hidden: Tensor, weight: Tensor, targets: Tensor, rows: int, hidden_grad: Tensor | None, weight_grad: Tensor | None
) -> Tensor:
    """The loss; gradients are written where they are wanted."""
    real = targets != IGNORED
    count = real.sum().clamp(min=1)
    total = torch.zeros((), dtype=torch.promote_types(hidden.dtype, torch.float32), device=hidden.device)
    for start in range(0, len(hidden), rows):
        part = slice(start, start + rows)
        logits = _logits(hidden[part], weight)
        goal = targets[part].masked_fill(~real[part], 0)[:, None]
        height = logits.logsumexp(-1, keepdim=True)
        total += ((height - logits.gather(1, goal)) * real[part, None]).sum()
        if hidden_grad is None or weight_grad is None:
            continue
        grad = logits.sub_(height).exp_()
        grad.scatter_add_(1, goal, torch.full_like(height, -1.0))
        grad = grad.mul_((real[part, None] / count).to(grad.dtype)).to(hidden.dtype)
        torch.mm(grad, weight, out=hidden_grad[part])
        weight_grad.addmm_(grad.t(), hidden[part])
    return total / real.sum()  # not a number where there is no target, as in PyTorch


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, rows: int) -> Tensor:
        hidden_grad, weight_grad = torch.empty_like(hidden), torch.zeros_like(weight)
        loss = _chunked(hidden, weight, targets, rows, hidden_grad, weight_grad)
        ctx.save_for_backward(hidden_grad, weight_grad)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden_grad, weight_grad = ctx.saved_tensors
        return hidden_grad * grad, weight_grad * grad, None, None
