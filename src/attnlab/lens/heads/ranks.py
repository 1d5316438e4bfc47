"""Ranks: how many directions a head reads and writes, as the effective rank of its two matrices.

    QK_h = W_Qᵀ W_K          what a query's token asks of a key's, (model width, model width)
    OV_h = W_O W_V           what a key's token becomes for the query's
    effective rank = exp(−Σ s log s)          s the singular values divided by their sum      Roy and Vetterli 2007

The gain of the norm in front is part of W. A rotation by position is not, nor are biases.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from attnlab.attention import MultiHeadAttention
from attnlab.lens.taps import Place, attention_layers
from attnlab.models import LanguageModel

_NONE = 1e-30  # of the largest singular value, below which a matrix is zero


def head_ranks(model: LanguageModel, of: Place = "self") -> list[tuple[Tensor, Tensor]]:
    """Return for each layer the effective ranks of QK and OV, (heads,) each, not a number for a missing matrix."""
    stack: Any = model.encoder if of == "encoder" else model.stack
    found = []
    for layer, block in zip(attention_layers(model, of), stack.blocks, strict=True):
        norm = block.cross_norm if of == "cross" else block.attention_norm
        with torch.no_grad():
            found.append(_ranks(layer, getattr(norm, "weight", None)))
    return found


def _ranks(layer: MultiHeadAttention, gain: Tensor | None) -> tuple[Tensor, Tensor]:
    spec = layer.spec
    other = None if spec.source == "cross" else gain  # what is read of another sequence has its norm behind it
    value = _projection(layer, ("value", "key", "query"), spec.num_key_value_heads, spec.value_width, other)
    out = _outputs(layer)
    values = torch.linalg.svdvals(value) if out is None else _singular_values(out.mT, value)
    ov = effective_rank(values)
    if not (spec.score.projects_query and spec.score.projects_key):
        return torch.full_like(ov, math.nan), ov
    query = _projection(layer, ("query",), spec.num_heads, spec.key_width, gain)
    key = _projection(layer, ("key", "query"), spec.num_key_value_heads, spec.key_width, other)
    return effective_rank(_singular_values(query, key)), ov


def effective_rank(singular_values: Tensor) -> Tensor:
    """Return the effective rank, (…, values) → (…), not a number for a matrix of zeros."""
    total = singular_values.sum(-1, keepdim=True)
    shares = singular_values / total.where(total > _NONE, math.nan)
    nats: Tensor = torch.special.entr(shares).sum(-1)
    return nats.exp()


def _projection(
    layer: MultiHeadAttention, names: tuple[str, ...], count: int, width: int, gain: Tensor | None
) -> Tensor:
    """Return the first of these projections that the layer has, for every query head: (heads, width, model width)."""
    spec = layer.spec
    made: list[Any] = [layer.projections[name] for name in names if name in layer.projections]
    like = layer.output.weight if layer.output is not None else gain
    # Where there is none, the tokens themselves are divided among the heads.
    weight = made[0].weight if made else torch.eye(spec.model_width, device=None if like is None else like.device)
    weight = weight.double() if gain is None else weight.double() * gain.double()
    return weight.view(count, width, spec.model_width).repeat_interleave(spec.num_heads // count, dim=0)


def _outputs(layer: MultiHeadAttention) -> Tensor | None:
    """Return the columns of W_O for each head, (heads, model width, value width); None where there is no W_O."""
    spec = layer.spec
    if layer.output is None:
        return None
    weight = layer.output.weight.double()
    if spec.join == "average":
        return weight.expand(spec.num_heads, -1, -1)
    return weight.view(spec.model_width, spec.num_heads, spec.value_width).transpose(0, 1)


def _singular_values(a: Tensor, b: Tensor) -> Tensor:
    """Return the singular values of aᵀ b that are not 0 for its rank alone, a and b (heads, width, model width).

    With aᵀ = Q R and bᵀ = P S, aᵀ b = Q (R Sᵀ) Pᵀ has the singular values of R Sᵀ, which is small.
    """
    r, s = (torch.linalg.qr(matrix.mT, mode="r").R for matrix in (a, b))
    values: Tensor = torch.linalg.svdvals(r @ s.mT)
    return values
