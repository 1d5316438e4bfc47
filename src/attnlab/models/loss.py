"""Cross-entropy from the final hidden states, without storing all logits.

    loss = mean over tokens of  log Σ_v exp(h·w_v) − h·w_target

For a large vocabulary the logits are by far the largest tensor of training. Here they are computed for a few rows at a
time, and their gradient p − onehot is immediately propagated to h and to the weight of the head.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention.gradients import once
from attnlab.corpora import IGNORED

_CHUNK_BYTES = 64 << 20
_ALIGNMENT = 64  # numbers: a CPU writes unaligned rows at two thirds of the speed
_TOKENS = 512  # whose losses are computed at a time
_WORDS = 1024  # vocabulary entries per block on a CPU, so that what is read again is still in the cache


def cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """Return the mean over the targets that are not `IGNORED`: hidden (tokens, width), weight (vocabulary, width)."""
    rows = rows_at_once(len(hidden), len(weight), hidden.element_size())
    if len(hidden) <= rows or torch.compiler.is_compiling():
        return F.cross_entropy(_logits(hidden, weight), targets, ignore_index=IGNORED)
    if not torch.is_grad_enabled():
        return _chunked(hidden, weight, targets, rows, None, None)
    result: Tensor = _ChunkedCrossEntropy.apply(hidden, weight, targets, rows)  # type: ignore[no-untyped-call]
    return result


@torch.no_grad()
def token_losses(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """Return the loss of each token, 0 where its target is `IGNORED`, of shape (tokens,); without gradients.

    Logits are computed for a block of tokens and of the vocabulary at a time, and log Σ exp is updated by each.
    """
    kind = torch.promote_types(hidden.dtype, torch.float32)
    real = targets != IGNORED
    goals = targets.masked_fill(~real, 0)
    found = []
    for seen, goal in zip(torch.split(hidden, _TOKENS), torch.split(goals, _TOKENS), strict=True):
        highest, mass = hidden.new_full((len(seen),), -torch.inf, dtype=kind), hidden.new_zeros(len(seen), dtype=kind)
        for words in torch.split(weight, _WORDS):
            logits = _logits(seen, words)
            before, highest = highest, torch.maximum(highest, logits.amax(-1))
            mass = mass * (before - highest).exp() + logits.sub_(highest[:, None]).exp_().sum(-1)
        at_goal = (seen.to(kind) * weight[goal]).sum(-1)
        found.append(highest + mass.log() - at_goal)
    return torch.cat(found).masked_fill(~real, 0.0)


def rows_at_once(tokens: int, vocabulary: int, bytes_per_number: int) -> int:
    """Return for how many tokens the logits are in memory at once: all, or about the same number each time."""
    most = max(1, _CHUNK_BYTES // (vocabulary * bytes_per_number))
    return -(-tokens // max(1, -(-tokens // most)))


def _logits(hidden: Tensor, weight: Tensor) -> Tensor:
    """Return the logits (rows, vocabulary), at least in float32: the loss is a difference of large numbers."""
    logits = F.linear(hidden, weight)
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _space(hidden: Tensor, weight: Tensor, rows: int) -> Tensor | None:
    """Return a buffer for the logits of `rows` rows, reused by every chunk; None where it cannot be used."""
    exact = hidden.dtype == weight.dtype and hidden.dtype in {torch.float32, torch.float64}
    if not hidden.is_cpu or not exact or torch.is_autocast_enabled("cpu"):
        return None
    return hidden.new_empty(rows, -(-len(weight) // _ALIGNMENT) * _ALIGNMENT)


def _logits_in(space: Tensor, hidden: Tensor, weight: Tensor) -> Tensor:
    logits = space[: len(hidden), : len(weight)]
    for words, part in zip(torch.split(weight, _WORDS), torch.split(logits, _WORDS, dim=1), strict=True):
        torch.mm(hidden, words.t(), out=part)
    return logits


def _chunked(
    hidden: Tensor, weight: Tensor, targets: Tensor, rows: int, hidden_grad: Tensor | None, weight_grad: Tensor | None
) -> Tensor:
    """Return the mean loss; write the gradients into the buffers that are given."""
    real = targets != IGNORED
    count = real.sum().clamp(min=1)
    total = torch.zeros((), dtype=torch.promote_types(hidden.dtype, torch.float32), device=hidden.device)
    space = _space(hidden, weight, rows)
    for start in range(0, len(hidden), rows):
        part = slice(start, start + rows)
        seen = hidden[part]
        logits = _logits(seen, weight) if space is None else _logits_in(space, seen, weight)
        goal = targets[part].masked_fill(~real[part], 0)[:, None]
        at_goal, highest = logits.gather(1, goal), logits.amax(-1, keepdim=True)
        masses = logits.sub_(highest).exp_()
        mass = masses.sum(-1, keepdim=True)
        total += ((highest + mass.log() - at_goal) * real[part, None]).sum()
        if hidden_grad is None or weight_grad is None:
            continue
        share = (real[part, None] / count).to(masses.dtype)
        grad = masses.mul_(share / mass).scatter_add_(1, goal, -share).to(hidden.dtype)
        torch.mm(grad, weight, out=hidden_grad[part])
        if start:
            weight_grad.addmm_(grad.t(), seen)
        else:
            torch.mm(grad.t(), seen, out=weight_grad)
    return total / real.sum()  # NaN if there are no targets, as in PyTorch


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, rows: int) -> Tensor:
        hidden_grad, weight_grad = torch.empty_like(hidden), torch.empty_like(weight)
        loss = _chunked(hidden, weight, targets, rows, hidden_grad, weight_grad)
        ctx.save_for_backward(hidden_grad, weight_grad)
        return loss

    @staticmethod
    @once
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden_grad, weight_grad = ctx.saved_tensors
        return hidden_grad * grad, weight_grad * grad, None, None
