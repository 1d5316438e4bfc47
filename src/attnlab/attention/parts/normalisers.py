"""Normalisers: from the scores of one query to the weights of its keys. Those with exact zeros are in `sparse.py`.

    softmax            p_j = e^(s_j) / Σ e^(s_l)
    softmax-plus-one   p_j = e^(s_j) / (1 + Σ e^(s_l))     a row may say "nothing here"
    sigmoid            p_j = σ(s_j − log n)                n keys visible (arXiv 2409.04431; without the bias it fails)
    relu               p_j = ReLU(s_j) / n                 (arXiv 2309.08586; without the division it fails)
    squared-relu       p_j = ReLU(s_j)² / n

`weights` is the definition. The rest is for the blocked kernel, which holds one block of scores at a time: it calls
`forward` in the forward pass and keeps the few numbers per row that it returns; in the backward pass it makes the
scores again, calls `recompute` with those numbers, and `backward` with the gradient of the weights. Scores that a query
does not see arrive as −∞.

A normaliser of one's own needs `weights` alone: the rest then follows by differentiating it, more slowly. What it
learns arrives by name in each of these functions, (heads, 1, 1) for a number per head; `backward` then returns the
gradients of those, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from attnlab.attention.parts.masks import Block
from attnlab.attention.parts.part import Declared, Part

ASKS = "0.11: alternatives to softmax"
_RAMAPURAM, _WORTSMAN = "Ramapuram et al. 2024, arXiv 2409.04431", "Wortsman et al. 2023, arXiv 2309.08586"


class Normaliser(Part):
    """The base of all normalisers. `statistics` is how many numbers per row it keeps for the backward pass."""

    family: ClassVar[str] = "normaliser"
    equation: ClassVar[str]
    group: ClassVar[Literal["exponential", "pointwise", "sparse", "other"]] = "other"
    sums_to_one: ClassVar[bool] = False
    shift_invariant: ClassVar[bool] = False  # adding a number to all scores of a row changes nothing
    only_positive: ClassVar[bool] = False  # scores up to 0 get no weight
    statistics: ClassVar[int] = 0
    blocks: ClassVar[int] = 2  # of scores that exist at once in the backward pass of the blocked kernel
    fused: ClassVar[Literal["no", "plain", "plus-one"]] = "no"  # how PyTorch's fused softmax serves it

    @property
    def order(self) -> float | None:
        """α of an α-entmax, whose threshold has to be searched; None for any other."""
        return None

    def formula(self) -> str:
        """The equation with its numbers."""
        return self.equation

    def weights(self, scores: Tensor, visible: Tensor, *args: Any, **own: Any) -> Tensor:
        """The definition: (…, queries, keys) → the same, exactly 0 where not visible."""
        raise NotImplementedError

    def defined(self, scores: Tensor, visible: Tensor, **own: Tensor) -> Tensor:
        """The definition, and zeros for a query that sees nothing, so that an equation need not think of that."""
        some = visible.any(-1, keepdim=True)
        weights = self.weights(scores.masked_fill(~some, 0.0), visible | ~some, **own)
        return weights.masked_fill(~some, 0.0)

    def _in_block(self, scores: Tensor, block: Block, own: Mapping[str, Tensor]) -> Tensor:
        return (self.defined if block.some_empty else self.weights)(scores, block.visible(), **own)

    def forward(self, scores: Tensor, block: Block, *args: Any, **own: Any) -> tuple[Tensor, Tensor | None]:
        """The weights of a block, and (heads, queries, statistics) numbers to keep. May write into `scores`."""
        del args
        return self._in_block(scores, block, own), None

    def recompute(
        self, scores: Tensor, kept: Tensor | None, block: Block, *args: Any, **own: Any
    ) -> tuple[Tensor, Tensor | None]:
        """The weights again, and one tensor that `backward` wants besides. May write into `scores`."""
        del kept, args
        return self._in_block(scores, block, own), scores

    def backward(
        self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block, *args: Any, **own: Any
    ) -> Tensor | tuple[Tensor, Mapping[str, Tensor]]:
        """The gradient of the scores from the gradient of the weights. May write into `gradient`.

        A normaliser that learns returns it with the gradients of what it learned, by name.
        """
        del weights, args
        assert context is not None
        with torch.enable_grad():
            scores = context.detach().requires_grad_()
            learned = {name: tensor.detach().requires_grad_() for name, tensor in own.items()}
            made = self._in_block(scores, block, learned)
            found = torch.autograd.grad(made, [scores, *learned.values()], gradient, materialize_grads=True)
        return (found[0], dict(zip(learned, found[1:], strict=True))) if own else found[0]


class _Exponential(Normaliser):
    """What softmax and softmax-plus-one share: ∂s = p (g − Σ p g). The row's maximum m is subtracted first."""

    group = "exponential"

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
    """For each row m and one over the sum are kept.

    With m = max(0, maximum), the 1 becomes e^(−m): public code that leaves it at 1 is wrong.
    """

    kind: ClassVar[str] = "softmax-plus-one"
    equation: ClassVar[str] = "e^s_j / (1 + Σ e^s_l)"
    fused: ClassVar[Literal["no", "plain", "plus-one"]] = "plus-one"
    statistics: ClassVar[int] = 2
    variants = (
        Declared(
            "softmax-plus-one",
            "Softmax with a 1 in the denominator: a head may attend to nothing.",
            "Miller 2023, “Attention is off by one”; arXiv 2410.17174",
            ASKS,
        ),
    )

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


class _Pointwise(Normaliser):
    """Looks at one score at a time, keeps no numbers, and needs the weights alone for its gradient.

    n is the number of keys that the query sees. Rows need not sum to 1, nor to anything.
    """

    group = "pointwise"

    def recompute(self, scores: Tensor, kept: Tensor | None, block: Block) -> tuple[Tensor, Tensor | None]:
        del kept
        return self.forward(scores, block)


class Sigmoid(_Pointwise):
    """The bias −log n starts a row's mass at about 1, as softmax does; `bias=False` leaves it out."""

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
    variants = (
        Declared("relu", "Positive scores, divided by the number of visible keys.", _WORTSMAN, ASKS),
        Declared("relu-undivided", "Positive scores as they are.", _WORTSMAN, ASKS, {"divide": False}),
    )

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


def hidden(scores: Tensor, visible: Tensor) -> Tensor:
    """The scores with −∞ where not visible."""
    return scores.masked_fill(~visible, float("-inf"))


def row_maximum(scores: Tensor) -> Tensor:
    """The largest score of each row, and 0 for a row with nothing visible."""
    largest = scores.amax(-1, keepdim=True)
    return largest.masked_fill_(largest == float("-inf"), 0.0)


def _visible_keys(visible: Tensor, like: Tensor) -> Tensor:
    """n, as a column; 1 for a row with nothing visible, whose weights are 0 anyway."""
    return visible.sum(-1, keepdim=True).clamp(min=1).to(like.dtype)
