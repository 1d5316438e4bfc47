"""PyTorch's fused softmax, and softmax with a sink by the same kernel.

Besides o = softmax(s) v, the fused kernel returns L, the logarithm of each row's Σ e^s. A sink adds e^b to the
denominator, where b is 0 for softmax-plus-one and learned by each head for softmax-sink:

    o₁ = o · Σ e^s / (e^b + Σ e^s) = o · σ(L − b)

The backward pass recomputes the weights as e^(s − L) and takes Σ p g from the output. It returns the exact gradient if
it is given o₁ and L₁ = log(e^b + e^L) instead of o and L. (This equals a key with score b and a value of 0 in front,
without the copies.) The gradient of the sink is ∂b = −Σ e^(b − L₁) o₁·g over all rows of a head.
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
    """Return the output of PyTorch's fused softmax, (batch, heads, queries, value width)."""
    query, key = logits.query.to(value.dtype), logits.key.to(value.dtype)
    grouped = key.shape[1] < query.shape[1]
    return F.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=logits.scale, enable_gqa=grouped)


def can_add_sink(value: Tensor) -> bool:
    """Return whether `fused_softmax_sink` works here: on a CPU, outside of a compiled graph, with values not empty."""
    return value.device.type == "cpu" and not torch.compiler.is_compiling() and 0 not in value.shape


def fused_softmax_sink(logits: InnerProduct, value: Tensor, sink: Tensor | None = None, *, causal: bool) -> Tensor:
    """Return the output (batch, heads, queries, value width). The sink is (heads, 1, 1), or None for zeros."""
    tensors = (_in_rows(vectors.to(value.dtype)) for vectors in (logits.query, logits.key, value))
    return _WithSink.apply(*tensors, sink, causal, logits.scale)  # type: ignore[no-any-return, no-untyped-call]


def _in_rows(vectors: Tensor) -> Tensor:
    """Return the vectors with the numbers of each contiguous in memory, as the kernel requires."""
    return vectors if vectors.stride(-1) == 1 else vectors.contiguous()


class _WithSink(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, sink: Tensor | None, causal: bool, scale: float
    ) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            output, logarithm = _forward(query, key, value, 0.0, causal, scale=scale)
        height = 0.0 if sink is None else sink[..., 0].to(logarithm.dtype)  # (heads, 1)
        above = logarithm if sink is None else logarithm - height
        output.mul_(above.sigmoid()[..., None].to(output.dtype))
        ctx.causal, ctx.scale = causal, scale
        ctx.save_for_backward(query, key, value, sink, output, F.softplus(above, threshold=40).add_(height))
        return output  # type: ignore[no-any-return]

    @staticmethod
    @once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, sink, output, logarithm = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            found = _backward(
                _in_rows(gradient), query, key, value, output, logarithm, 0.0, ctx.causal, scale=ctx.scale
            )
        return *found, None if sink is None else _slope(sink, output, gradient, logarithm), None, None


def _slope(sink: Tensor, output: Tensor, gradient: Tensor, logarithm: Tensor) -> Tensor:
    """Return the gradient of the sink, (heads, 1, 1)."""
    exact = logarithm.dtype
    share = (sink[..., 0].to(exact) - logarithm).exp_()  # (batch, heads, queries)
    along: Tensor = torch.linalg.vecdot(output.to(exact), gradient.to(exact))
    return -along.mul_(share).sum((0, 2)).view_as(sink).to(sink.dtype)
