"""From the scores of one query to the weights of its keys: the contract.

`weights` is the definition. The rest is for the blocked kernel, which holds one block of scores at a time: it calls
`forward` in the forward pass and keeps the few numbers per row that it returns; in the backward pass it makes the
scores again, calls `recompute` with those numbers, and `backward` with the gradient of the weights. Scores that a query
does not see arrive as −∞.

A normaliser of one's own needs `weights` alone: the rest then follows by differentiating it, more slowly.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from attnlab.attention.masks import Block
from attnlab.attention.parts import Part


class Normaliser(Part):
    """The base of all normalisers. `statistics` is how many numbers per row it keeps for the backward pass."""

    family: ClassVar[str] = "normaliser"
    equation: ClassVar[str]
    sums_to_one: ClassVar[bool] = False
    shift_invariant: ClassVar[bool] = False  # adding a number to all scores of a row changes nothing
    only_positive: ClassVar[bool] = False  # scores up to 0 get no weight
    statistics: ClassVar[int] = 0
    fused: ClassVar[Literal["no", "plain", "plus-one"]] = "no"  # how PyTorch's fused softmax serves it

    def formula(self) -> str:
        """The equation with its numbers."""
        return self.equation

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        """The definition: (…, queries, keys) → the same, exactly 0 where not visible."""
        raise NotImplementedError

    def forward(self, scores: Tensor, block: Block) -> tuple[Tensor, Tensor | None]:
        """The weights of a block, and (heads, queries, statistics) numbers to keep. May write into `scores`."""
        return self.weights(scores, block.visible()), None

    def recompute(self, scores: Tensor, kept: Tensor | None, block: Block) -> tuple[Tensor, Tensor | None]:
        """The weights again, and one tensor that `backward` wants besides. May write into `scores`."""
        del kept
        return self.weights(scores, block.visible()), scores

    def backward(self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block) -> Tensor:
        """The gradient of the scores from the gradient of the weights. May write into `gradient`."""
        del weights
        assert context is not None
        with torch.enable_grad():
            scores = context.detach().requires_grad_()
            (result,) = torch.autograd.grad(self.weights(scores, block.visible()), scores, gradient)
        return result


def hidden(scores: Tensor, visible: Tensor) -> Tensor:
    """The scores with −∞ where not visible."""
    return scores.masked_fill(~visible, float("-inf"))


def row_maximum(scores: Tensor) -> Tensor:
    """The largest score of each row, and 0 for a row with nothing visible."""
    largest = scores.amax(-1, keepdim=True)
    return largest.masked_fill_(largest == float("-inf"), 0.0)
