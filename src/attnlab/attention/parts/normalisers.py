"""Normalisers turn the scores of a query into the weights of its keys. Here are the base and softmax variants.

    softmax            p_j = e^(s_j) / Σ e^(s_l)
    softmax-plus-one   p_j = e^(s_j) / (1 + Σ e^(s_l))     a query may attend to nothing
    softmax-sink       p_j = e^(s_j) / (e^b + Σ e^(s_l))   each head learns its b (arXiv 2508.10925)
    softmax-capped     p_j = e^(z_j) / Σ e^(z_l)           z = c tanh(s / c) (arXiv 2408.00118)
    scalable-softmax   p_j = e^(z_j) / Σ e^(z_l)           z = a s log n, each head learns its a (arXiv 2501.19399)
    differential       p_j = softmax(s)_j − λ softmax(s′)_j     the layer learns its λ (arXiv 2410.05258)

`weights` is the definition. The rest is for the blocked kernel, which holds one block of scores at a time: it calls
`forward` in the forward pass and saves the few numbers per row that this returns; in the backward pass it recomputes
the scores, calls `recompute` with those numbers, and `backward` with the gradient of the weights. Masked scores are
passed as −∞.

A user-defined normaliser only needs `weights`: autograd derives the rest from it, more slowly. Its parameters are
passed by name to each of these functions, (heads, 1, 1) for a number per head; `backward` then also returns their
gradients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor

from attnlab.attention.parts.masks import Block
from attnlab.attention.parts.part import Declared, Parameter, Part

if TYPE_CHECKING:
    from attnlab.attention.spec import AttentionSpec

ASKS = "0.11: alternatives to softmax"
Fused = Literal["no", "plain", "sink"]
Group = Literal["exponential", "capped", "pointwise", "sparse", "sequential", "difference", "other"]


class Normaliser(Part):
    """The base class of all normalisers. `statistics` is how many numbers per row are saved for the backward pass."""

    family: ClassVar[str] = "normaliser"
    equation: ClassVar[str]
    group: ClassVar[Group] = "other"
    sums_to_one: ClassVar[bool] = False
    shift_invariant: ClassVar[bool] = False  # adding a number to all scores of a row changes nothing
    only_positive: ClassVar[bool] = False  # scores up to 0 get no weight
    looks_back: ClassVar[bool] = False  # goes back from the query key by key: no key after it may be visible
    statistics: ClassVar[int] = 0
    blocks: ClassVar[int] = 2  # of scores that exist at once in the backward pass of the blocked kernel
    fused: ClassVar[Fused] = "no"  # how PyTorch's fused softmax can compute it
    maps: ClassVar[int] = 1  # softmax maps that `combine` combines; 2 halve queries and keys

    @property
    def order(self) -> float | None:
        """α of an α-entmax, whose threshold has to be searched; None for any other."""
        return None

    def formula(self) -> str:
        """Return the equation with its numbers."""
        return self.equation

    def row_factor(self, count: Tensor, *args: Any, **own: Any) -> Tensor:
        """Return the factor of all scores of a query that sees `count` keys, (heads, queries, 1), if there is one.

        For the fused kernel, queries are multiplied by it.
        """
        raise NotImplementedError

    def weights(self, scores: Tensor, visible: Tensor, *args: Any, **own: Any) -> Tensor:
        """Return the weights by their definition, (…, queries, keys) like the scores, exactly 0 where not visible."""
        raise NotImplementedError

    def defined(self, scores: Tensor, visible: Tensor, **own: Tensor) -> Tensor:
        """Return the weights as defined, with zeros for a query that sees nothing, which `weights` need not handle."""
        some = visible.any(-1, keepdim=True)
        weights = self.weights(scores.masked_fill(~some, 0.0), visible | ~some, **own)
        return weights.masked_fill(~some, 0.0)

    def combine(self, first: Tensor, second: Tensor, *args: Any, **own: Any) -> Tensor:
        """Combine the weights of two maps, or the head outputs that were made with them, into one."""
        raise NotImplementedError

    def _in_block(self, scores: Tensor, block: Block, own: Mapping[str, Tensor]) -> Tensor:
        return (self.defined if block.some_empty else self.weights)(scores, block.visible(), **own)

    def forward(self, scores: Tensor, block: Block, *args: Any, **own: Any) -> tuple[Tensor, Tensor | None]:
        """Return the weights of a block, and (heads, queries, statistics) numbers to keep. May write into `scores`."""
        del args
        return self._in_block(scores, block, own), None

    def recompute(
        self, scores: Tensor, kept: Tensor | None, block: Block, *args: Any, **own: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Return the weights again, and one more tensor that `backward` needs. May write into `scores`."""
        del kept, args
        return self._in_block(scores, block, own), scores

    def backward(
        self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block, *args: Any, **own: Any
    ) -> Tensor | tuple[Tensor, Mapping[str, Tensor]]:
        """Return the gradient of the scores from the gradient of the weights. May write into `gradient`.

        A normaliser with parameters returns it with their gradients, by name.
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
    """The base of softmax variants: ∂s = p (g − Σ p g). The row's maximum m is subtracted first."""

    group: ClassVar[Group] = "exponential"

    def backward(self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block) -> Tensor:
        del context, block
        return torch.ops.aten._softmax_backward_data(  # type: ignore[no-any-return]
            gradient, weights, -1, weights.dtype, grad_input=gradient
        )


class Softmax(_Exponential):
    """Softmax: weights are exponentials of the scores, divided by their sum."""

    kind: ClassVar[str] = "softmax"
    equation: ClassVar[str] = "e^s_j / Σ e^s_l"
    sums_to_one: ClassVar[bool] = True
    shift_invariant: ClassVar[bool] = True
    fused: ClassVar[Fused] = "plain"

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        # A row with nothing visible is 0/0: it is set to zeros, in the result and in the gradient.
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


class _WithSink(_Exponential):
    """The base of softmax-plus-one and softmax-sink: e^b in the denominator, like a key with score b and value 0.

    For each row, m and the reciprocal of the sum are saved. With m = max(b, maximum), the term of the sink becomes
    e^(b − m): public code that leaves it at e^b is wrong.
    """

    fused: ClassVar[Fused] = "sink"
    statistics: ClassVar[int] = 2

    def weights(self, scores: Tensor, visible: Tensor, sink: Tensor | float = 0.0) -> Tensor:
        scores = hidden(scores, visible)
        largest = scores.amax(-1, keepdim=True).clamp(min=sink).detach()
        raised = torch.exp(scores - largest)
        return raised / (raised.sum(-1, keepdim=True) + torch.exp(sink - largest))

    def forward(self, scores: Tensor, block: Block, sink: Tensor | float = 0.0) -> tuple[Tensor, Tensor | None]:
        del block
        largest = scores.amax(-1, keepdim=True).clamp_(min=sink)
        raised = scores.sub_(largest).exp_()
        share = raised.sum(-1, keepdim=True).add_((sink - largest).exp_()).reciprocal_()
        return raised.mul_(share), torch.cat([largest, share], dim=-1)

    def recompute(
        self, scores: Tensor, kept: Tensor | None, block: Block, sink: Tensor | float = 0.0
    ) -> tuple[Tensor, Tensor | None]:
        """Return the weights and the share of the sink, (heads, queries, 1)."""
        del block
        assert kept is not None
        largest, share = kept[..., :1], kept[..., 1:]
        return scores.sub_(largest).exp_().mul_(share), (sink - largest).exp_().mul_(share)


class SoftmaxPlusOne(_WithSink):
    """Softmax with 1 added to the denominator, so that a row may sum to less than 1."""

    kind: ClassVar[str] = "softmax-plus-one"
    equation: ClassVar[str] = "e^s_j / (1 + Σ e^s_l)"
    variants = (
        Declared(
            "softmax-plus-one",
            "Softmax with a 1 in the denominator: a head may attend to nothing.",
            "Miller 2023, “Attention is off by one”; arXiv 2410.17174",
            ASKS,
        ),
    )


class SoftmaxSink(_WithSink):
    """Softmax with a sink: each head learns its b, which starts at 0, where this is softmax-plus-one.

    The share of the sink is p_b = e^b / (e^b + Σ e^s_l), and ∂b = −Σ p_b Σ_j p_j g_j over all rows of a head.
    """

    kind: ClassVar[str] = "softmax-sink"
    equation: ClassVar[str] = "e^s_j / (e^b + Σ e^s_l), each head with a b of its own"
    learned: ClassVar[Mapping[str, Parameter]] = {"sink": Parameter()}
    variants = (
        Declared(
            "softmax-sink",
            "Softmax with a sink that each head learns, as gpt-oss has it: how much goes to nothing.",
            "OpenAI 2025, gpt-oss, arXiv 2508.10925",
            ASKS,
        ),
    )

    def backward(  # type: ignore[override]
        self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block, sink: Tensor
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        del block, sink
        assert context is not None
        mean = torch.linalg.vecdot(weights, gradient).unsqueeze(-1)
        learned = {"sink": -(context * mean).sum(1, keepdim=True)}
        return gradient.sub_(mean).mul_(weights), learned


class SoftmaxCapped(_Exponential):
    """Softmax of scores that a tanh bounds to −c … c; below c / 4 they hardly change.

    With t = tanh(s / c), ∂s = (1 − t²) times the gradient of softmax. The tanh maps a masked score to −c, so
    that it must be masked again.
    """

    kind: ClassVar[str] = "softmax-capped"
    equation: ClassVar[str] = "e^z_j / Σ e^z_l, z = c tanh(s / c)"
    sums_to_one: ClassVar[bool] = True
    group: ClassVar[Group] = "capped"
    blocks = 3
    variants = (
        Declared(
            "softmax-capped",
            "Softmax of scores that a tanh keeps within ±50.",
            "Gemma Team 2024, Gemma 2, arXiv 2408.00118",
            ASKS,
        ),
    )

    cap: PositiveFloat = 50.0

    def formula(self) -> str:
        return f"{self.equation}, c = {self.cap:g}"

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return Softmax().weights(self.cap * torch.tanh(scores / self.cap), visible)

    def forward(self, scores: Tensor, block: Block) -> tuple[Tensor, Tensor | None]:
        capped = block.hide_(scores.div_(self.cap).tanh_().mul_(self.cap))
        return Softmax().forward(capped, block)

    def recompute(self, scores: Tensor, kept: Tensor | None, block: Block) -> tuple[Tensor, Tensor | None]:
        """Return the weights and t."""
        del kept
        tanh = scores.div_(self.cap).tanh_()
        return Softmax().forward(block.hide_(tanh * self.cap), block)[0], tanh

    def backward(self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block) -> Tensor:
        assert context is not None
        slope = super().backward(weights, gradient, None, block)
        return torch.ops.aten.tanh_backward(slope, context, grad_input=slope)  # type: ignore[no-any-return]


class ScalableSoftmax(_Exponential):
    """Softmax flattens as n grows; with scores times log n, the largest keeps its weight. Each head learns its a.

    n is the number of keys that the query sees. The catalogue starts a at one over the mean of log n over a context,
    so that training starts about as sharp as softmax. With z = f s and f = a log n, ∂s = f ∂z and ∂a = Σ ∂z s log n.
    """

    kind: ClassVar[str] = "scalable-softmax"
    equation: ClassVar[str] = "e^z_j / Σ e^z_l, z = a s log n, each head with an a of its own"
    sums_to_one: ClassVar[bool] = True
    shift_invariant: ClassVar[bool] = True
    fused: ClassVar[Fused] = "plain"
    blocks = 3
    variants = (
        Declared(
            "scalable-softmax",
            "Scores times a learned number and log n, so that long rows stay sharp.",
            "Nakanishi 2025, arXiv 2501.19399",
            ASKS,
            {"initial": lambda context: round(context / math.lgamma(context + 1), 4) if context > 1 else 1.0},
        ),
    )

    initial: PositiveFloat = 0.1685

    def parameters(self, spec: AttentionSpec) -> Mapping[str, Parameter]:
        del spec
        return {"sharpness": Parameter(initial=self.initial)}

    def row_factor(self, count: Tensor, sharpness: Tensor) -> Tensor:
        return sharpness * count.clamp(min=1).log()

    def weights(self, scores: Tensor, visible: Tensor, sharpness: Tensor) -> Tensor:
        count = visible.sum(-1, keepdim=True).to(torch.promote_types(scores.dtype, torch.float32))
        return Softmax().weights(scores * self.row_factor(count, sharpness).to(scores.dtype), visible)

    def forward(self, scores: Tensor, block: Block, sharpness: Tensor) -> tuple[Tensor, Tensor | None]:
        scaled = block.conceal_(scores).mul_(self.row_factor(block.count, sharpness))
        return Softmax().forward(block.hide_(scaled), block)

    def recompute(
        self, scores: Tensor, kept: Tensor | None, block: Block, sharpness: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Return the weights and the scores, 0 where hidden."""
        del kept
        scores = block.conceal_(scores)
        scaled = scores * self.row_factor(block.count, sharpness)
        return Softmax().forward(block.hide_(scaled), block)[0], scores

    def backward(  # type: ignore[override]
        self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block, sharpness: Tensor
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        assert context is not None
        slope = super().backward(weights, gradient, None, block)
        along = torch.linalg.vecdot(slope, context).unsqueeze(-1).mul_(block.count.clamp(min=1).log())
        return slope.mul_(self.row_factor(block.count, sharpness)), {"sharpness": along.sum(1, keepdim=True)}


class Differential(Normaliser):
    """The difference of two attention maps: noise that is in both cancels.

    The even dimensions of queries and keys give s, the odd ones s′, so that the pairs that RoPE rotates stay together.
    λ = e^(a·b) − e^(a′·b′) + c with learned vectors a, b, a′, b′ that the heads of a layer share. In the paper c grows
    with the layer l, 0.8 − 0.6 e^(−0.3 (l − 1)), with l from 1; a spec does not know its layer, so here c is the same
    for all layers. As in the paper, the catalogue halves the number of heads, so that projections keep their size, and
    normalises each head, times 1 − c.
    """

    kind: ClassVar[str] = "differential"
    equation: ClassVar[str] = "softmax(s)_j − λ softmax(s′)_j, s and s′ of the halves of q and k"
    shift_invariant: ClassVar[bool] = True
    group: ClassVar[Group] = "difference"
    maps: ClassVar[int] = 2

    initial: float = Field(default=0.8, gt=0, lt=1)

    def formula(self) -> str:
        return f"{self.equation}, λ = e^(a·b) − e^(a′·b′) + {self.initial:g}"

    def parameters(self, spec: AttentionSpec) -> Mapping[str, Parameter]:
        vector = Parameter(std=0.1, shape=(spec.key_width // self.maps,), per="layer")
        return dict.fromkeys(("first_query", "first_key", "second_query", "second_key"), vector)

    def combine(
        self,
        first: Tensor,
        second: Tensor,
        first_query: Tensor,
        first_key: Tensor,
        second_query: Tensor,
        second_key: Tensor,
    ) -> Tensor:
        share = (first_query * first_key).sum().exp() - (second_query * second_key).sum().exp() + self.initial
        return first - share.to(second.dtype) * second


def hidden(scores: Tensor, visible: Tensor) -> Tensor:
    """Return the scores with −∞ where not visible."""
    return scores.masked_fill(~visible, float("-inf"))


def row_maximum(scores: Tensor) -> Tensor:
    """Return the largest score of each row, and 0 for a row with nothing visible."""
    largest = scores.amax(-1, keepdim=True)
    return largest.masked_fill_(largest == float("-inf"), 0.0)


def visible_keys(visible: Tensor, like: Tensor) -> Tensor:
    """Return how many keys each row sees, as a column; 1 for a row with nothing visible, whose weights are 0."""
    return visible.sum(-1, keepdim=True).clamp(min=1).to(like.dtype)
