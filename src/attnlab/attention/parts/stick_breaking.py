"""Stick-breaking: the query looks back from key to key, and each takes its share of what the later ones left.

    p_j = β_j Π_{l > j} (1 − β_l),   β = σ(s)          over the keys that the query sees       (arXiv 2410.17980)

The mask decides whether the query's own key takes part, and every causal mask here shows it. The paper leaves it out
by default; its code calls this choice `attend_current`. What no key took, Π (1 − β_l), goes to nothing.

The definition adds logarithms. The kernel multiplies, which is as exact and needs no logarithm: both factors are
sigmoids, 1 − β = σ(−s), and a product that underflows belongs to a weight that does. A hidden score, −∞, takes nothing.
Backward, u = p g and ∂s_m = u_m − β_m Σ_{j ≤ m} u_j.
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
    """Nearer keys come first, so that no other position is needed. Keys after the query would have no place."""

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
