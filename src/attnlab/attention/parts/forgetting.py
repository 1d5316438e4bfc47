"""Forgetting attention: a forget gate on every token lowers the scores of all keys before it.

    s_ij = q_i·k_j / √D_k + Σ_{j < l ≤ i} log f_l,   f_l = σ(x_l·w + b)       w and b of each head    (arXiv 2503.02130)

With the sums c_i = Σ_{l ≤ i} log f_l the bias is c_i − c_j: a query term and a key term. Softmax does not depend on the
query term, but the gradient of a gate does, because the two cancel for most pairs. As in the authors' code, b starts at
0. The gate of padding is 1.

The cache keeps x·w of each key, not c: the sums start at the first cached key, so that they do not grow with the length
of a text of which only a window is kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention.parts.part import Declared, Parameter, Projection
from attnlab.attention.parts.scores import InnerProduct, Matched, Score


class Forgetting(Score):
    """The scaled dot product, lowered by the forget gates of the tokens after the key up to the query."""

    kind: ClassVar[str] = "forgetting"
    equation: ClassVar[str] = "q·k / √D_k + Σ log f_l over j < l ≤ i, f = σ(x·w_f + b_f)"
    looks_back: ClassVar[bool] = True
    learned: ClassVar[Mapping[str, Parameter]] = {"forget_bias": Parameter()}
    projected: ClassVar[Mapping[str, Projection]] = {"forget": Projection(of="key")}
    variants = (
        Declared(
            "forgetting",
            "A forget gate made from every token lowers the scores of all keys before it.",
            "Lin et al. 2025, arXiv 2503.02130",
            "0.3: what draws attention",
        ),
    )

    def define(self, given: Matched, forget: Tensor, forget_bias: Tensor) -> Tensor:
        query, key = given.vectors
        sums = _sums(given, forget, forget_bias)
        bias = _of_queries(sums, given)[..., None] - sums[..., None, :]
        return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + bias

    def logits(self, given: Matched, forget: Tensor, forget_bias: Tensor) -> InnerProduct:
        query, key = given.vectors
        sums = _sums(given, forget, forget_bias)
        scale = 1 / math.sqrt(query.shape[-1])
        return InnerProduct(query, key, scale, _of_queries(sums, given), -sums, cancels=True)


def _sums(given: Matched, forget: Tensor, bias: Tensor) -> Tensor:
    """Return c of every key, (batch, heads, keys), at least in float32."""
    closed = -(forget + bias)[..., 0].contiguous().to(torch.promote_types(forget.dtype, torch.float32))
    logarithms = -F.softplus(closed, threshold=40)
    if given.padding is not None:
        logarithms = logarithms.masked_fill(~given.padding[:, None], 0.0)
    return logarithms.cumsum(-1)


def _of_queries(sums: Tensor, given: Matched) -> Tensor:
    return sums[..., given.query_start : given.query_start + given.num_queries]
