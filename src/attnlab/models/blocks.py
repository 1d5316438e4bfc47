"""The transformer block that all models are built from.

x ← x + attention(norm(x))
x ← x + cross-attention(norm(x), memory)      in the decoder of an encoder–decoder
x ← x + mlp(norm(x))
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.attention import AttentionSpec, Cache, MultiHeadAttention, make_layer
from attnlab.attention.observer import Observed
from attnlab.attention.parts.values import FirstValues
from attnlab.models.mlp import MLP
from attnlab.models.spec import ModelSpec


class RMSNorm(nn.Module):
    """w ⊙ x / √(mean(x²) + ε), or the same without w (arXiv 1910.07467)."""

    def __init__(self, width: int, epsilon: float, *, weighted: bool = False) -> None:
        super().__init__()
        self.width = width
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(width)) if weighted else None

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (self.width,), self.weight, self.epsilon)

    def extra_repr(self) -> str:
        return f"{self.width}, epsilon={self.epsilon}"


def make_norm(spec: ModelSpec) -> nn.Module:
    """Return a norm as it precedes every part of a block, and follows the last block."""
    if spec.norm != "layer":
        return RMSNorm(spec.model_width, spec.norm_epsilon, weighted=spec.norm == "rms-weight")
    return nn.LayerNorm(spec.model_width, spec.norm_epsilon, bias=spec.bias)


class LayerCache:
    """The cache of one layer: its own tokens, and the other sequence if the layer has cross-attention."""

    def __init__(self) -> None:
        self.own = Cache()
        self.other = Cache()

    @property
    def nbytes(self) -> int:
        return self.own.nbytes + self.other.nbytes


class TransformerBlock(Observed):
    """Self-attention, optional cross-attention and an MLP, each with a norm and a residual connection."""

    reported: ClassVar[tuple[str, ...]] = (
        *("attention.in", "attention.output", "attention.residual"),
        *("cross_attention.in", "cross_attention.output", "cross_attention.residual"),
        *("mlp.in", "mlp.output", "residual"),
    )

    def __init__(self, spec: ModelSpec, attention: AttentionSpec, cross: AttentionSpec | None = None) -> None:
        super().__init__()
        self.attention_norm = make_norm(spec)
        self.attention = make_layer(attention)
        self.cross_norm = None if cross is None else make_norm(spec)
        self.cross_attention = None if cross is None else make_layer(cross)
        self.mlp_norm = make_norm(spec)
        self.mlp = MLP(spec)

    def borrow(self, lender: TransformerBlock) -> None:
        """Use the parameters of another block where they belong to the whole model."""
        pairs = ((self.attention, lender.attention), (self.cross_attention, lender.cross_attention))
        for own, other in pairs:
            if isinstance(own, MultiHeadAttention) and isinstance(other, MultiHeadAttention):
                own.borrow(other)

    def forward(
        self,
        x: Tensor,
        *,
        padding: Tensor | None = None,
        memory: Tensor | None = None,
        memory_padding: Tensor | None = None,
        cache: LayerCache | None = None,
        first_values: FirstValues | None = None,
    ) -> Tensor:
        """Return the output for `x`, both (batch, tokens, model width). All blocks share `first_values`, if any."""
        own, other = (None, None) if cache is None else (cache.own, cache.other)
        observer = self.observer
        y = self.attention_norm(x)
        if observer is not None:
            y = observer("attention.in", y)
        y = self.attention(y, padding=padding, cache=own, first_values=first_values)
        if observer is not None:
            y = observer("attention.output", y)
        x = x + y
        if observer is not None:
            x = observer("attention.residual", x)
        if self.cross_attention is not None:
            assert self.cross_norm is not None
            y = self.cross_norm(x)
            if observer is not None:
                y = observer("cross_attention.in", y)
            y = self.cross_attention(y, memory, padding=memory_padding, cache=other, first_values=first_values)
            if observer is not None:
                y = observer("cross_attention.output", y)
            x = x + y
            if observer is not None:
                x = observer("cross_attention.residual", x)
        y = self.mlp_norm(x)
        if observer is not None:
            y = observer("mlp.in", y)
        y = self.mlp(y)
        if observer is not None:
            y = observer("mlp.output", y)
        x = x + y
        return x if observer is None else observer("residual", x)
