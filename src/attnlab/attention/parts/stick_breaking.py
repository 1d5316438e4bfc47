"""Stick-breaking attention: from the query back, each key takes its share of what the later keys left.

    p_j = β_j Π_{l > j} (1 − β_l),   β = σ(s)          over the keys that the query sees       (arXiv 2410.17980)

The mask decides whether the query's own key is included; every causal mask here includes it. The paper excludes it by
default; its code calls this choice `attend_current`. The rest that no key takes, Π (1 − β_l), is dropped.

The definition sums logarithms. The kernel multiplies, which is as exact and needs no logarithm: both factors are
sigmoids, 1 − β = σ(−s), and where a product underflows, so does its weight. A masked score, −∞, takes nothing. In the
backward pass, u = p g and ∂s_m = u_m − β_m Σ_{j ≤ m} u_j.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention.parts.masks import Block
from attnlab.attention.parts.normalisers import ASKS, Group, Normaliser
from attnlab.attention.parts.part import Declared


class StickBreaking(Normaliser):
    """Nearer keys come first, so that no positional encoding is needed. Keys after the query are not allowed."""

    kind: ClassVar[str] = "stick-breaking"
    equation: ClassVar[str] = "β_j Π (1 − β_l) over l > j, β = σ(s)"
    group: ClassVar[Group] = "sequential"
    looks_back: ClassVar[bool] = True
    blocks = 5
    variants = (
        Declared(
            "stick-breaking",
            "Looking back from the query, each key takes its share of what the later ones left.",
            "Tan et al. 2024, arXiv 2410.17980",
            ASKS,
        ),
    )

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        left = F.logsigmoid(-scores).masked_fill(~visible, 0.0)  # log(1 − β)
        after = left.flip(-1).cumsum(-1).flip(-1) - left
        return torch.exp(F.logsigmoid(scores) + after).masked_fill(~visible, 0.0)

    def forward(self, scores: Tensor, block: Block) -> tuple[Tensor, Tensor | None]:
        del block
        return _shared_out(scores)[0], None

    def recompute(self, scores: Tensor, kept: Tensor | None, block: Block) -> tuple[Tensor, Tensor | None]:
        """Return the weights and β."""
        del kept, block
        return _shared_out(scores)

    def backward(self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block) -> Tensor:
        del block
        assert context is not None
        slope = gradient.mul_(weights)
        return slope.addcmul_(context, slope.cumsum(-1), value=-1)


def _shared_out(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Write the weights over the scores, and return them with β."""
    share = scores.sigmoid()
    left = scores.neg_().sigmoid_().flip(-1).cumprod_(-1).flip(-1)  # Π_{l ≥ j} (1 − β_l)
    scores.copy_(share)[..., :-1].mul_(left[..., 1:])
    return scores, share
