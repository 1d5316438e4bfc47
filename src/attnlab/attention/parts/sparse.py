"""Normalisers that give exact zeros: α-entmax, between softmax (α = 1) and sparsemax (α = 2), and softpick.

    α-entmax   p_j = ReLU((α − 1) s_j − τ)^(1/(α − 1)),   τ such that Σ p_j = 1      (arXiv 1602.02068, 1905.05702)
    softpick   p_j = ReLU(e^(s_j) − 1) / (ε + Σ |e^(s_l) − 1|)                       (arXiv 2504.20966)

With z = (α − 1)(s − max s) and ρ = 1/(α − 1), the row's threshold τ is the root of ‖ReLU(z − τ)‖_ρ = 1 in [−1, 0]. This
norm is convex and decreases with τ, so Newton's method from τ = −1 increases to the root without passing it, in about
five steps. The gradient needs only the weights: with t = p^(2 − α), ∂s = t (g − Σ t g / Σ t), which is 0 off the
support.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor

from attnlab.attention.parts.masks import Block
from attnlab.attention.parts.normalisers import ASKS, Normaliser, Softmax, hidden, row_maximum
from attnlab.attention.parts.part import Declared, Number

_MOST_STEPS = 64  # of Newton's method, besides one for each key


class _Entmax(Normaliser):
    """The base of the α-entmax family; `order` is α."""

    group = "sparse"
    sums_to_one: ClassVar[bool] = True
    shift_invariant: ClassVar[bool] = True
    statistics: ClassVar[int] = 2
    blocks = 3

    @property
    def order(self) -> float:
        raise NotImplementedError

    @property
    def rho(self) -> float:
        return 1 / (self.order - 1)

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        scores = hidden(scores, visible)
        z = (self.order - 1) * (scores - row_maximum(scores.detach()))
        low = torch.full_like(z[..., :1], -1.0)
        high = torch.zeros_like(low)
        for _ in range(64 if z.dtype == torch.float64 else 32):  # bisect the interval that contains τ
            middle = (low + high) / 2
            too_low = (z.detach() - middle).relu().pow(self.rho).sum(-1, keepdim=True) > 1
            low, high = torch.where(too_low, middle, low), torch.where(too_low, high, middle)
        # One differentiable Newton step, which has τ's gradient by the implicit function theorem.
        above = (z - low).relu()
        slope = torch.where(above > 0, self.rho * above.pow(self.rho - 1), 0.0).sum(-1, keepdim=True).detach()
        some = visible.any(-1, keepdim=True)
        miss = above.pow(self.rho).sum(-1, keepdim=True) - 1
        threshold = low + torch.where(some, miss / slope.clamp(min=1e-30), 0.0)
        return (z - threshold).relu().pow(self.rho).masked_fill(~visible, 0.0)

    def forward(self, scores: Tensor, block: Block) -> tuple[Tensor, Tensor | None]:
        del block
        largest = row_maximum(scores)
        z = scores.sub_(largest).mul_(self.order - 1)
        threshold = self._threshold(z)
        return self._power(z.sub_(threshold).clamp_(min=0))[0], torch.cat([largest, threshold], dim=-1)

    def recompute(self, scores: Tensor, kept: Tensor | None, block: Block) -> tuple[Tensor, Tensor | None]:
        """Return the weights and t = p^(2 − α)."""
        del block
        assert kept is not None
        largest, threshold = kept[..., :1], kept[..., 1:]
        return self._power(scores.sub_(largest).mul_(self.order - 1).sub_(threshold).clamp_(min=0))

    def backward(self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block) -> Tensor:
        del weights, block
        assert context is not None
        mean = torch.linalg.vecdot(context, gradient).div_(context.sum(-1).clamp_(min=1e-30))
        return gradient.sub_(mean.unsqueeze(-1)).mul_(context)

    def _power(self, above: Tensor) -> tuple[Tensor, Tensor]:
        """Return r^ρ and r^(ρ − 1) of the part r above the threshold; by products where ρ is a small whole number."""
        whole = round(self.rho)
        if whole == 1 and self.order == 2:
            return above, above.sign()
        if abs(self.rho - whole) < 1e-9 and whole <= 8:
            lower = above
            for _ in range(whole - 2):
                lower = lower * above
            return lower * above, lower
        positive = above.clamp(min=torch.finfo(above.dtype).tiny)  # the logarithm of 0 is slow
        lower = positive.log2_().mul_(self.rho - 1).exp2_().mul_(above.sign())
        return lower * above, lower

    def _threshold(self, z: Tensor) -> Tensor:
        """Return τ of each row of z, whose maximum is 0; any finite number for a row with nothing visible."""
        threshold = torch.full_like(z[..., :1], -1.0)
        above = torch.empty_like(z)
        active = torch.ones_like(threshold, dtype=torch.bool)
        # For ρ ≥ 2 convergence is quadratic: after a step of √ε / 4, only rounding error is left.
        rounding = torch.finfo(z.dtype).eps
        close = rounding**0.5 / 4 if self.rho >= 2 else 4 * rounding
        for _ in range(_MOST_STEPS + z.shape[-1]):  # sparsemax may need a step for each key; five are usual
            torch.sub(z, threshold, out=above).clamp_(min=0)
            power, lower = self._power(above)
            norm = power.sum(-1, keepdim=True).pow_(1 / self.rho)
            step = (norm - 1).mul_(norm.pow(self.rho - 1)).div_(lower.sum(-1, keepdim=True).clamp_(min=1e-30))
            # A converged row is not moved any more, so that its result does not depend on other rows.
            threshold += step.mul_(active)
            active = step > close
            if not bool(active.any()):
                break
        return threshold


class Sparsemax(_Entmax):
    """The Euclidean projection of the scores onto the simplex: α = 2."""

    kind: ClassVar[str] = "sparsemax"
    equation: ClassVar[str] = "ReLU(s_j − τ), Σ = 1"
    variants = (
        Declared(
            "sparsemax",
            "The nearest point of the simplex: most weights are exactly 0.",
            "Martins and Astudillo 2016, arXiv 1602.02068",
            ASKS,
        ),
    )

    @property
    def order(self) -> float:
        return 2.0


class Entmax15(_Entmax):
    """α = 1.5."""

    kind: ClassVar[str] = "entmax15"
    equation: ClassVar[str] = "ReLU(s_j / 2 − τ)², Σ = 1"
    variants = (
        Declared("entmax15", "Halfway between softmax and sparsemax.", "Peters et al. 2019, arXiv 1905.05702", ASKS),
    )

    @property
    def order(self) -> float:
        return 1.5


class Entmax(_Entmax):
    """Any α in [1, 2]; α = 1 is softmax and computed as such."""

    kind: ClassVar[str] = "entmax"
    equation: ClassVar[str] = "ReLU((α − 1) s_j − τ)^(1/(α − 1)), Σ = 1"
    blocks = 5
    variants = (
        Declared(
            "entmax",
            "α-entmax at α = 1.25, nearer to softmax.",
            "Correia et al. 2019, arXiv 1909.00015",
            ASKS,
            number=Number("alpha", "1.3", "α-entmax at α = {}, from softmax at 1 to sparsemax at 2."),
        ),
    )

    alpha: float = Field(default=1.25, ge=1, le=2)

    def formula(self) -> str:
        return f"{self.equation}, α = {self.alpha:g}"

    @property
    def order(self) -> float:
        return self.alpha

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return Softmax().weights(scores, visible) if self.alpha == 1 else super().weights(scores, visible)

    def forward(self, scores: Tensor, block: Block) -> tuple[Tensor, Tensor | None]:
        if self.alpha > 1:
            return super().forward(scores, block)
        return Softmax().forward(scores, block)[0], scores.new_zeros(*scores.shape[:-1], self.statistics)

    def recompute(self, scores: Tensor, kept: Tensor | None, block: Block) -> tuple[Tensor, Tensor | None]:
        return Softmax().forward(scores, block) if self.alpha == 1 else super().recompute(scores, kept, block)

    def backward(self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block) -> Tensor:
        softmax = self.alpha == 1
        return (Softmax().backward if softmax else super().backward)(weights, gradient, context, block)


class Softpick(Normaliser):
    """Rectified softmax: scores below 0 get no weight, but still add to the denominator."""

    kind: ClassVar[str] = "softpick"
    only_positive: ClassVar[bool] = True
    equation: ClassVar[str] = "ReLU(e^s_j − 1) / (ε + Σ |e^s_l − 1|)"
    group = "sparse"
    blocks = 4
    variants = (
        Declared(
            "softpick",
            "Rectified softmax: negative scores get nothing, and no sink is needed.",
            "Zuhri et al. 2025, arXiv 2504.20966",
            ASKS,
            number=Number("epsilon", "1e-6", "Rectified softmax: negative scores get nothing, with ε = {}."),
        ),
    )

    epsilon: PositiveFloat = 1e-6

    def formula(self) -> str:
        usual = self.epsilon == type(self).model_fields["epsilon"].default
        return self.equation if usual else f"{self.equation}, ε = {self.epsilon:g}"

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
        """Return the weights and c = sign(s) e^s / D, so that ∂s = ReLU(c) g − c Σ p g."""
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
        """Return e^(s−m), e^(s−m) − e^(−m) with zeros where hidden, and one over the row's total."""
        largest = scores.amax(-1, keepdim=True).clamp_(min=0)
        one = largest.neg().exp_()
        raised = scores.sub_(largest).exp_()
        lifted = block.conceal_(raised - one)
        total = torch.linalg.vector_norm(lifted, 1, dim=-1, keepdim=True).add_(one, alpha=self.epsilon)
        return raised, lifted, total.reciprocal_()
