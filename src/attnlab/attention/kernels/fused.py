"""PyTorch's fused softmax, and softmax-plus-one by the same kernel.

The fused kernel gives, besides o = softmax(s) v, the logarithm L of each row's Σ e^s. For softmax-plus-one

    o₁ = o · Σ e^s / (1 + Σ e^s) = o · σ(L)

and its backward pass, which makes the weights again as e^(s − L) and takes Σ p g from the output, gives the gradient of
softmax-plus-one exactly if it is told o₁ and L₁ = log(1 + e^L) in place of o and L. (It is the same as a zero key and
value in front, without the copies.)
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention.gradients import once
from attnlab.attention.parts.scores import InnerProduct

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def fused_softmax(logits: InnerProduct, value: Tensor, *, causal: bool) -> Tensor:
    """(batch, heads, queries, value width)."""
    query, key = logits.query.to(value.dtype), logits.key.to(value.dtype)
    return F.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=logits.scale)


def can_add_one(value: Tensor) -> bool:
    """Whether `fused_softmax_plus_one` works here: on a CPU, and outside of a compiled graph."""
    return value.device.type == "cpu" and not torch.compiler.is_compiling() and 0 not in value.shape


def fused_softmax_plus_one(logits: InnerProduct, value: Tensor, *, causal: bool) -> Tensor:
    """(batch, heads, queries, value width)."""
    tensors = (_in_rows(vectors.to(value.dtype)) for vectors in (logits.query, logits.key, value))
    return _PlusOne.apply(*tensors, causal, logits.scale)  # type: ignore[no-any-return, no-untyped-call]


def _in_rows(vectors: Tensor) -> Tensor:
    """With the numbers of a vector one after another, which the kernel takes for granted."""
    return vectors if vectors.stride(-1) == 1 else vectors.contiguous()


class _PlusOne(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            output, logarithm = _forward(query, key, value, 0.0, causal, scale=scale)
        output.mul_(logarithm.sigmoid()[..., None].to(output.dtype))
        ctx.causal, ctx.scale = causal, scale
        ctx.save_for_backward(query, key, value, output, F.softplus(logarithm, threshold=40))
        return output  # type: ignore[no-any-return]

    @staticmethod
    @once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, output, logarithm = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            found = _backward(
                _in_rows(gradient), query, key, value, output, logarithm, 0.0, ctx.causal, scale=ctx.scale
            )
        return *found, None, None
