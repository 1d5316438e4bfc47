"""Normalisers made of exponentials.

    softmax            p_j = e^(s_j) / Σ e^(s_l)
    softmax-plus-one   p_j = e^(s_j) / (1 + Σ e^(s_l))             a row may say "nothing here"
    softpick           p_j = ReLU(e^(s_j) − 1) / (ε + Σ |e^(s_l) − 1|)          (arXiv 2504.20966)

Each subtracts the row's maximum m first. For the second, m = max(0, maximum), and the 1 becomes e^(−m): public code
that leaves it at 1 is wrong.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor

from attnlab.attention.masks import Block
from attnlab.attention.normalisers.base import Normaliser, hidden


class _Exponential(Normaliser):
    """What softmax and softmax-plus-one share: ∂s = p (g − Σ p g)."""

    def backward(self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block) -> Tensor:
        del context, block
        return torch.ops.aten._softmax_backward_data(  # type: ignore[no-any-return]
            gradient, weights, -1, weights.dtype, grad_input=gradient
        )


class Softmax(_Exponential):
    kind: ClassVar[str] = "softmax"
    equation: ClassVar[str] = "e^s_j / Σ e^s_l"
    sums_to_one: ClassVar[bool] = True
    shift_invariant: ClassVar[bool] = True
    fused: ClassVar[Literal["no", "plain", "plus-one"]] = "plain"

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        # A row with nothing visible is 0/0: it is made all zeros, in the result and in the gradient.
        some = visible.any(-1, keepdim=True)
        return torch.softmax(hidden(scores, visible | ~some), dim=-1) * some

    def forward(self, scores: Tensor, block: Block) -> tuple[Tensor, Tensor | None]:
        weights = torch.softmax(scores, dim=-1, out=scores)
        if block.some_empty:
            weights = weights.masked_fill_(block.count == 0, 0.0)
        return weights, None

    def recompute(self, scores: Tensor, kept: Tensor | None, block: Block) -> tuple[Tensor, Tensor | None]:
        del kept
        return self.forward(scores, block)


class SoftmaxPlusOne(_Exponential):
    """For each row the maximum m and one over the sum are kept."""

    kind: ClassVar[str] = "softmax-plus-one"
    equation: ClassVar[str] = "e^s_j / (1 + Σ e^s_l)"
    fused: ClassVar[Literal["no", "plain", "plus-one"]] = "plus-one"
    statistics: ClassVar[int] = 2

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        scores = hidden(scores, visible)
        largest = scores.detach().amax(-1, keepdim=True).clamp(min=0)
        raised = torch.exp(scores - largest)
        return raised / (raised.sum(-1, keepdim=True) + torch.exp(-largest))

    def forward(self, scores: Tensor, block: Block) -> tuple[Tensor, Tensor | None]:
        del block
        largest = scores.amax(-1, keepdim=True).clamp_(min=0)
        raised = scores.sub_(largest).exp_()
        share = raised.sum(-1, keepdim=True).add_(largest.neg().exp_()).reciprocal_()
        return raised.mul_(share), torch.cat([largest, share], dim=-1)

    def recompute(self, scores: Tensor, kept: Tensor | None, block: Block) -> tuple[Tensor, Tensor | None]:
        del block
        assert kept is not None
        return scores.sub_(kept[..., :1]).exp_().mul_(kept[..., 1:]), None


class Softpick(Normaliser):
    """Rectified softmax: scores below 0 get no weight, but still make the others smaller."""

    kind: ClassVar[str] = "softpick"
    only_positive: ClassVar[bool] = True
    equation: ClassVar[str] = "ReLU(e^s_j − 1) / (ε + Σ |e^s_l − 1|)"
    epsilon: PositiveFloat = 1e-6

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        scores = hidden(scores, visible)
        largest = scores.detach().amax(-1, keepdim=True).clamp(min=0)
        one = torch.exp(-largest)
        lifted = (torch.exp(scores - largest) - one).masked_fill(~visible, 0.0)
        return lifted.relu() / (lifted.abs().sum(-1, keepdim=True) + self.epsilon * one)

    def forward(self, scores: Tensor, block: Block) -> tuple[Tensor, Tensor | None]:
        _, lifted, total = self._row(scores, block)
        return torch.relu_(lifted).mul_(total), None

    def recompute(self, scores: Tensor, kept: Tensor | None, block: Block) -> tuple[Tensor, Tensor | None]:
        """Besides the weights, c = sign(s) e^s / D, so that ∂s = ReLU(c) g − c Σ p g."""
        del kept
        raised, lifted, total = self._row(scores, block)
        signed = raised.mul_(total).mul_(lifted.sign())
        return torch.relu_(lifted).mul_(total), signed

    def backward(self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block) -> Tensor:
        del block
        assert context is not None
        shared = torch.linalg.vecdot(weights, gradient).unsqueeze(-1)
        return gradient.mul_(context.relu()).addcmul_(context, shared, value=-1)

    def _row(self, scores: Tensor, block: Block) -> tuple[Tensor, Tensor, Tensor]:
        """e^(s−m), e^(s−m) − e^(−m) with zeros where hidden, and one over the row's total."""
        largest = scores.amax(-1, keepdim=True).clamp_(min=0)
        one = largest.neg().exp_()
        raised = scores.sub_(largest).exp_()
        lifted = block.conceal_(raised - one)
        total = torch.linalg.vector_norm(lifted, 1, dim=-1, keepdim=True).add_(one, alpha=self.epsilon)
        return raised, lifted, total.reciprocal_()
