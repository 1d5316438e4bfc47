"""Pointwise normalisers, which act on one score at a time. Rows need not sum to 1.

sigmoid         p_j = σ(s_j − log n)      n visible keys (arXiv 2409.04431; without the bias it fails)
relu            p_j = ReLU(s_j) / n       (arXiv 2309.08586; without the division it fails)
squared-relu    p_j = ReLU(s_j)² / n
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from attnlab.attention.parts.masks import Block
from attnlab.attention.parts.normalisers import ASKS, Normaliser, visible_keys
from attnlab.attention.parts.part import Declared

_RAMAPURAM, _WORTSMAN = "Ramapuram et al. 2024, arXiv 2409.04431", "Wortsman et al. 2023, arXiv 2309.08586"


class _Pointwise(Normaliser):
    """Acts on one score at a time, saves no statistics, and needs only the weights for its gradient.

    n is the number of keys that the query sees.
    """

    group = "pointwise"

    def recompute(self, scores: Tensor, kept: Tensor | None, block: Block) -> tuple[Tensor, Tensor | None]:
        del kept
        return self.forward(scores, block)


class Sigmoid(_Pointwise):
    """With the bias −log n, rows sum to about 1 at the start of training, as in softmax; `bias=False` omits it."""

    kind: ClassVar[str] = "sigmoid"
    equation: ClassVar[str] = "σ(s_j − log n)"
    variants = (
        Declared("sigmoid", "Each key is weighed by itself, with a bias of −log n.", _RAMAPURAM, ASKS),
        Declared(
            "sigmoid-no-bias",
            "The sigmoid without its bias: early rows sum to about n/2.",
            _RAMAPURAM,
            ASKS,
            {"bias": False},
        ),
    )

    bias: bool = True

    def formula(self) -> str:
        return self.equation if self.bias else "σ(s_j)"

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        shift = visible_keys(visible, scores).log() if self.bias else 0.0
        return torch.sigmoid(scores - shift).masked_fill(~visible, 0.0)

    def forward(self, scores: Tensor, block: Block) -> tuple[Tensor, Tensor | None]:
        if self.bias:
            scores.sub_(block.count.clamp(min=1).log())
        return scores.sigmoid_(), None

    def backward(self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block) -> Tensor:
        del context, block
        return torch.ops.aten.sigmoid_backward(gradient, weights, grad_input=gradient)  # type: ignore[no-any-return]


class Relu(_Pointwise):
    """ReLU of the scores, divided by n; `divide=False` omits the division."""

    kind: ClassVar[str] = "relu"
    only_positive: ClassVar[bool] = True
    equation: ClassVar[str] = "ReLU(s_j) / n"
    variants = (
        Declared("relu", "Positive scores, divided by the number of visible keys.", _WORTSMAN, ASKS),
        Declared("relu-undivided", "Positive scores as they are.", _WORTSMAN, ASKS, {"divide": False}),
    )

    divide: bool = True

    def formula(self) -> str:
        return self.equation if self.divide else "ReLU(s_j)"

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        weights = scores.relu().masked_fill(~visible, 0.0)
        return weights / visible_keys(visible, scores) if self.divide else weights

    def forward(self, scores: Tensor, block: Block) -> tuple[Tensor, Tensor | None]:
        weights = torch.relu_(scores)
        return (weights.div_(block.count.clamp(min=1)) if self.divide else weights), None

    def backward(self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block) -> Tensor:
        del context
        if self.divide:
            gradient.div_(block.count.clamp(min=1))
        return torch.ops.aten.threshold_backward(gradient, weights, 0, grad_input=gradient)  # type: ignore[no-any-return]


class SquaredRelu(_Pointwise):
    """Positive scores squared, divided by the number of visible keys."""

    kind: ClassVar[str] = "squared-relu"
    only_positive: ClassVar[bool] = True
    equation: ClassVar[str] = "ReLU(s_j)² / n"
    blocks = 3
    variants = (
        Declared(
            "squared-relu",
            "Positive scores squared, divided by the number of visible keys.",
            "Hua et al. 2022, arXiv 2202.10447",
            ASKS,
        ),
    )

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.relu().square().masked_fill(~visible, 0.0) / visible_keys(visible, scores)

    def forward(self, scores: Tensor, block: Block) -> tuple[Tensor, Tensor | None]:
        return torch.relu_(scores).square_().div_(block.count.clamp(min=1)), None

    def recompute(self, scores: Tensor, kept: Tensor | None, block: Block) -> tuple[Tensor, Tensor | None]:
        """Return the weights and ReLU(s) / n, half of their derivative."""
        del kept
        slope = torch.relu_(scores) / block.count.clamp(min=1)
        return scores.mul_(slope), slope

    def backward(self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block) -> Tensor:
        del weights, block
        assert context is not None
        return gradient.mul_(context).mul_(2)
