"""Normalisers that look at one score at a time. n is the number of keys that the query sees.

    sigmoid        p_j = σ(s_j − log n)         (arXiv 2409.04431; without the bias it fails)
    relu           p_j = ReLU(s_j) / n          (arXiv 2309.08586; without the division it fails)
    squared-relu   p_j = ReLU(s_j)² / n

Their rows need not sum to 1, nor to anything.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from attnlab.attention.masks import Block
from attnlab.attention.normalisers.base import Normaliser


class _Pointwise(Normaliser):
    """What they share: no numbers to keep, and the weights alone give the gradient."""

    def recompute(self, scores: Tensor, kept: Tensor | None, block: Block) -> tuple[Tensor, Tensor | None]:
        del kept
        return self.forward(scores, block)


class Sigmoid(_Pointwise):
    """The bias −log n starts a row's mass at about 1, as softmax does; `bias=False` leaves it out."""

    kind: ClassVar[str] = "sigmoid"
    equation: ClassVar[str] = "σ(s_j − log n)"
    bias: bool = True

    def formula(self) -> str:
        return self.equation if self.bias else "σ(s_j)"

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        shift = _visible_keys(visible, scores).log() if self.bias else 0.0
        return torch.sigmoid(scores - shift).masked_fill(~visible, 0.0)

    def forward(self, scores: Tensor, block: Block) -> tuple[Tensor, Tensor | None]:
        if self.bias:
            scores.sub_(block.count.clamp(min=1).log())
        return scores.sigmoid_(), None

    def backward(self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block) -> Tensor:
        del context, block
        return torch.ops.aten.sigmoid_backward(gradient, weights, grad_input=gradient)  # type: ignore[no-any-return]


class Relu(_Pointwise):
    """`divide=False` leaves out the division by n."""

    kind: ClassVar[str] = "relu"
    only_positive: ClassVar[bool] = True
    equation: ClassVar[str] = "ReLU(s_j) / n"
    divide: bool = True

    def formula(self) -> str:
        return self.equation if self.divide else "ReLU(s_j)"

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        weights = scores.relu().masked_fill(~visible, 0.0)
        return weights / _visible_keys(visible, scores) if self.divide else weights

    def forward(self, scores: Tensor, block: Block) -> tuple[Tensor, Tensor | None]:
        weights = torch.relu_(scores)
        return (weights.div_(block.count.clamp(min=1)) if self.divide else weights), None

    def backward(self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block) -> Tensor:
        del context
        if self.divide:
            gradient.div_(block.count.clamp(min=1))
        return torch.ops.aten.threshold_backward(gradient, weights, 0, grad_input=gradient)  # type: ignore[no-any-return]


class SquaredRelu(_Pointwise):
    kind: ClassVar[str] = "squared-relu"
    only_positive: ClassVar[bool] = True
    equation: ClassVar[str] = "ReLU(s_j)² / n"

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.relu().square().masked_fill(~visible, 0.0) / _visible_keys(visible, scores)

    def forward(self, scores: Tensor, block: Block) -> tuple[Tensor, Tensor | None]:
        return torch.relu_(scores).square_().div_(block.count.clamp(min=1)), None

    def recompute(self, scores: Tensor, kept: Tensor | None, block: Block) -> tuple[Tensor, Tensor | None]:
        """Besides the weights, ReLU(s) / n: half of their derivative."""
        del kept
        slope = torch.relu_(scores) / block.count.clamp(min=1)
        return scores.mul_(slope), slope

    def backward(self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block) -> Tensor:
        del weights, block
        assert context is not None
        return gradient.mul_(context).mul_(2)


def _visible_keys(visible: Tensor, like: Tensor) -> Tensor:
    """n, as a column; 1 for a row with nothing visible, whose weights are 0 anyway."""
    return visible.sum(-1, keepdim=True).clamp(min=1).to(like.dtype)
