"""x / (|x| T), keeping the result alone.

Written out, the division keeps several tensors as large as x for its gradient. With y = x / (|x| T) and g its gradient,

    ∂x = (g − T² y (y·g)) / (|x| T),   ∂T = −Σ y·g / T

and y is kept anyway by the product that it goes into. The direction of a zero vector is zero.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention.once import once


def direction(vectors: Tensor, temperature: Tensor | float = 1.0) -> Tensor:
    """The unit vectors, divided by a temperature that may be a number for each head, (heads, 1, 1)."""
    if torch.compiler.is_compiling():  # which keeps what it likes
        return F.normalize(vectors, dim=-1) / temperature
    return _Direction.apply(vectors, temperature)  # type: ignore[no-any-return, no-untyped-call]


class _Direction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, temperature: Tensor | float) -> Tensor:
        length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True).clamp_(min=1e-12).mul_(temperature)
        result: Tensor = vectors / length
        learned = isinstance(temperature, Tensor)
        ctx.fixed = None if learned else temperature
        ctx.save_for_backward(result, length, temperature if learned else None)
        return result

    @staticmethod
    @once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None]:
        result, length, learned = ctx.saved_tensors
        temperature = learned if ctx.fixed is None else ctx.fixed
        along = torch.linalg.vecdot(result, gradient).unsqueeze(-1)
        vectors = torch.addcmul(gradient, result, along * temperature**2, value=-1).div_(length)
        if ctx.fixed is not None:
            return vectors, None
        return vectors, -(along / learned).sum_to_size(learned.shape)
