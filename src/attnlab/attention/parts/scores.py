"""Scores: how well a query and a key match.

    scaled-dot           q·k / √D_k
    dot                  q·k
    biased-dot           q·k / √D_k + b               each head learns b, for normalisers that are not shift-invariant
    cosine               q·k / (|q| |k|) / T          T fixed, or learned by each head
    qk-norm              (g ⊙ q / rms(q))·(h ⊙ k / rms(k)) / √D_k     g and h learned (arXiv 2302.05442)
    l2                   −|q − k|² / √D_k
    synthesizer-dense    (ReLU(x A + b₁) B + b₂)_j    from the query's own token alone (arXiv 2005.00743)
    synthesizer-random   R_ij                         from no token at all

A score has a materialised definition (`define`) and a form for kernels that multiply matrices (`logits`): all but the
last are inner products of prepared vectors, some with a term for each query and each key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor

from attnlab.attention.gradients import direction
from attnlab.attention.parts.part import Declared, Number, Parameter, Part
from attnlab.attention.parts.positions import Rope
from attnlab.errors import InputError

if TYPE_CHECKING:
    from attnlab.attention.spec import AttentionSpec


_TAY = "Tay et al. 2020, arXiv 2005.00743"


@dataclass(frozen=True)
class Matched:
    """The inputs of a score. Queries and keys are (batch, heads, tokens, width), or None if it does not use them.

    Keys have as many heads as queries, or fewer that groups of query heads share, if the score supports this.
    """

    query: Tensor | None
    key: Tensor | None
    num_queries: int
    num_keys: int
    query_start: int = 0
    extras: Mapping[str, Tensor] = field(default_factory=dict)  # parameters and projections, by the layer's names
    padding: Tensor | None = None  # (batch, keys), True for a real token

    @property
    def vectors(self) -> tuple[Tensor, Tensor]:
        if self.query is None or self.key is None:
            raise InputError("this score matches queries with keys, and one of them is missing", hint="give both")
        return self.query, self.key


@dataclass(frozen=True)
class InnerProduct:
    """Scores from a matrix product: scale · query · keyᵀ, plus a query term and a key term."""

    query: Tensor  # (batch, heads, queries, width)
    key: Tensor  # (batch or 1, heads or key heads, keys, width)
    scale: float = 1.0
    query_bias: Tensor | None = None  # (batch, heads, queries)
    key_bias: Tensor | None = None  # (batch or 1, as many heads as the key, keys)
    cancels: bool = False  # whether the gradients of the two terms cancel, so that neither may be left out


@dataclass(frozen=True)
class Table:
    """Precomputed scores."""

    entries: Tensor  # (batch or 1, heads, queries, keys)


class Score(Part):
    """The base class: which projections a score uses, its definition, and its form for the kernels."""

    family: ClassVar[str] = "score"
    equation: ClassVar[str]
    projects_query: ClassVar[bool] = True
    projects_key: ClassVar[bool] = True
    pure_product: ClassVar[bool] = False  # its logits are a product of query and key and nothing else
    takes_groups: ClassVar[bool] = False  # its `logits` accept keys with fewer heads than queries
    needs_context: ClassVar[bool] = False  # its parameters are sized by the longest sequence
    looks_back: ClassVar[bool] = False  # sums over the tokens from key to query: no key after it may be visible
    sign: ClassVar[Literal["any", "never positive"]] = "any"

    @property
    def materialised(self) -> bool:
        """Return whether a kernel gets all scores of a sequence at once, because the class does not define `logits`."""
        return type(self).logits is Score.logits

    def multiply_adds(self, spec: AttentionSpec) -> int:
        """Return the multiply–adds of matrix products in one score, by default those of an inner product."""
        return spec.key_width if self.projects_query else 0

    def formula(self) -> str:
        """Return the equation with its numbers."""
        return self.equation

    def define(self, given: Matched, *args: Any, **own: Any) -> Tensor:
        """Return the scores (batch, heads, queries, keys) by their equation; parameters are passed by name."""
        raise NotImplementedError

    def logits(self, given: Matched, *args: Any, **own: Any) -> InnerProduct | Table:
        """Return the same scores in the form for a kernel: by default materialised, as a table."""
        return Table(self.define(given, *args, **own))


class ScaledDot(Score):
    """Dividing by √D_k keeps the variance of the scores at 1 for queries and keys of unit variance."""

    kind: ClassVar[str] = "scaled-dot"
    takes_groups: ClassVar[bool] = True
    pure_product: ClassVar[bool] = True
    equation: ClassVar[str] = "q·k / √D_k"

    def define(self, given: Matched) -> Tensor:
        query, key = given.vectors
        return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])

    def logits(self, given: Matched) -> InnerProduct:
        query, key = given.vectors
        return InnerProduct(query, key, 1 / math.sqrt(query.shape[-1]))


class Dot(Score):
    """The raw product: its variance grows with D_k, and the softmax saturates."""

    kind: ClassVar[str] = "dot"
    takes_groups: ClassVar[bool] = True
    pure_product: ClassVar[bool] = True
    equation: ClassVar[str] = "q·k"
    variants = (
        Declared(
            "dot",
            "Scores are not divided by √D_k, so that softmax saturates.",
            "Luong et al. 2015, arXiv 1508.04025",
            "0.4, 2a–c: what does the division do?",
        ),
    )

    def define(self, given: Matched) -> Tensor:
        query, key = given.vectors
        return query @ key.transpose(-2, -1)

    def logits(self, given: Matched) -> InnerProduct:
        return InnerProduct(*given.vectors)


class BiasedDot(Score):
    """The scaled dot product plus a bias that each head learns, which a retrofit fits to another normaliser."""

    kind: ClassVar[str] = "biased-dot"
    takes_groups: ClassVar[bool] = True
    equation: ClassVar[str] = "q·k / √D_k + b, each head with a b of its own"
    learned: ClassVar[Mapping[str, Parameter]] = {"bias": Parameter()}

    def define(self, given: Matched, bias: Tensor) -> Tensor:
        return ScaledDot().define(given) + bias

    def logits(self, given: Matched, bias: Tensor) -> InnerProduct:
        query, key = given.vectors
        return InnerProduct(query, key, 1 / math.sqrt(query.shape[-1]), bias[..., 0].expand(query.shape[:3]))


class Cosine(Score):
    """The cosine of query and key, divided by a temperature.

    A learned temperature starts at 1/√D_k, where vectors of independent unit-variance entries get the same scores as
    from the scaled dot product. It is stored as its logarithm, so that it stays positive.
    """

    kind: ClassVar[str] = "cosine"
    takes_groups: ClassVar[bool] = True
    pure_product: ClassVar[bool] = True
    equation: ClassVar[str] = "q·k / (|q| |k| T)"
    variants = (
        Declared(
            "cosine",
            "Scores are the cosine of query and key: direction without length.",
            "docs/claims.md",
            "0.2, 0.3, 0.11: normalise the dot product",
            number=Number("temperature", "0.5", "The cosine of query and key, divided by a temperature of {}."),
        ),
        Declared(
            "cosine-learned",
            "The cosine divided by a temperature that each head learns.",
            "Henry et al. 2020, arXiv 2010.04245",
            "0.11: the normalised dot product, with a learned sharpness",
            {"temperature": "learned"},
        ),
    )

    temperature: PositiveFloat | Literal["learned"] = 1.0

    def formula(self) -> str:
        if self.temperature == "learned":
            return f"{self.equation}, each head with a T of its own"
        return "q·k / (|q| |k|)" if self.temperature == 1 else f"{self.equation}, T = {self.temperature:g}"

    def parameters(self, spec: AttentionSpec) -> dict[str, Parameter]:
        if self.temperature != "learned":
            return {}
        return {"log_temperature": Parameter(initial=-0.5 * math.log(spec.key_width))}

    def define(self, given: Matched, log_temperature: Tensor | None = None) -> Tensor:
        query, key = (F.normalize(vectors, dim=-1) for vectors in given.vectors)
        return query @ key.transpose(-2, -1) / self._temperature(log_temperature)

    def logits(self, given: Matched, log_temperature: Tensor | None = None) -> InnerProduct:
        query, key = given.vectors
        temperature = self._temperature(log_temperature)
        if isinstance(temperature, Tensor):
            return InnerProduct(direction(query, temperature), direction(key))
        return InnerProduct(direction(query), direction(key), 1 / temperature)

    def _temperature(self, log_temperature: Tensor | None) -> Tensor | float:
        if self.temperature != "learned":
            return self.temperature
        assert log_temperature is not None
        return log_temperature.exp()


class QueryKeyNorm(Score):
    """The scaled dot product of normalised queries and keys, so that scores cannot grow without bound.

    As in the paper, the norm is LayerNorm without centring and bias, which is RMSNorm, over the dimensions of a head,
    with gains g and h that the heads of a layer share and that start at 1. With RoPE the two dimensions of a rotated
    pair share a gain, so that rotating first makes no difference: scores still depend only on distances. As
    rms(x) = |x| / √D_k, the score is √D_k times the cosine with gains; only their products g h matter.
    """

    kind: ClassVar[str] = "qk-norm"
    takes_groups: ClassVar[bool] = True
    pure_product: ClassVar[bool] = True
    equation: ClassVar[str] = "(g ⊙ q / rms(q))·(h ⊙ k / rms(k)) / √D_k"
    variants = (
        Declared(
            "qk-norm",
            "Queries and keys are normed with learned gains, which bounds the scores.",
            "Dehghani et al. 2023, arXiv 2302.05442",
            "0.2, 0.11: the normalised dot product, with a gain for each number",
        ),
    )

    def parameters(self, spec: AttentionSpec) -> dict[str, Parameter]:
        count = spec.key_width // 2 if isinstance(spec.position, Rope) else spec.key_width
        gain = Parameter(initial=1.0, shape=(count,), per="layer")
        return {"query_gain": gain, "key_gain": gain}

    def define(self, given: Matched, query_gain: Tensor, key_gain: Tensor) -> Tensor:
        query, key = (F.normalize(vectors, dim=-1) for vectors in given.vectors)
        width = query.shape[-1]
        query, key = query * _for_pairs(query_gain, width), key * _for_pairs(key_gain, width)
        return math.sqrt(width) * query @ key.transpose(-2, -1)

    def logits(self, given: Matched, query_gain: Tensor, key_gain: Tensor) -> InnerProduct:
        query, key = (direction(vectors) for vectors in given.vectors)
        width = query.shape[-1]
        return InnerProduct(query * _for_pairs(query_gain * key_gain, width), key, math.sqrt(width))


class SquaredDistance(Score):
    """The negative squared distance, −|q − k|² = 2 q·k − |q|² − |k|²."""

    kind: ClassVar[str] = "l2"
    takes_groups: ClassVar[bool] = True
    sign: ClassVar[Literal["any", "never positive"]] = "never positive"
    equation: ClassVar[str] = "−|q − k|² / √D_k"
    variants = (
        Declared(
            "l2",
            "Scores fall with the squared distance of query and key.",
            "Kim et al. 2020, arXiv 2006.04710",
            "0.3: does length draw attention?",
        ),
    )

    def define(self, given: Matched) -> Tensor:
        query, key = given.vectors
        lengths = _squared(query) + _squared(key).transpose(-2, -1)
        return (2 * query @ key.transpose(-2, -1) - lengths) / math.sqrt(query.shape[-1])

    def logits(self, given: Matched) -> InnerProduct:
        query, key = given.vectors
        root = math.sqrt(query.shape[-1])
        return InnerProduct(query, key, 2 / root, -_squared(query)[..., 0] / root, -_squared(key)[..., 0] / root)


class DenseSynthesizer(Score):
    """Each token predicts its scores for all positions; A is the query projection, B and b₂ are learned."""

    kind: ClassVar[str] = "synthesizer-dense"
    equation: ClassVar[str] = "(ReLU(x A + b₁) B + b₂)_j"
    variants = (
        Declared(
            "synthesizer-dense",
            "Each token predicts its scores by itself, without looking at keys.",
            _TAY,
            "syn: cannot compare pairs in one layer",
        ),
    )
    projects_key: ClassVar[bool] = False
    needs_context: ClassVar[bool] = True

    def parameters(self, spec: AttentionSpec) -> dict[str, Parameter]:
        context = spec.context_length or 0
        return {
            "places": Parameter(std=0.02, shape=(context, spec.key_width)),
            "place_bias": Parameter(shape=(context,)),
        }

    def define(self, given: Matched, places: Tensor, place_bias: Tensor) -> Tensor:
        hidden, places, bias = self._pieces(given, places, place_bias)
        return hidden @ places.transpose(-2, -1) + bias

    def logits(self, given: Matched, places: Tensor, place_bias: Tensor) -> InnerProduct:
        hidden, places, bias = self._pieces(given, places, place_bias)
        return InnerProduct(hidden, places[None], key_bias=bias.transpose(0, 1))

    def _pieces(self, given: Matched, places: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if given.query is None:
            raise InputError("a dense synthesizer is made from the queries, and they are missing", hint="give query")
        _check_context(places.shape[1], given.num_keys)
        if given.num_keys < places.shape[1]:  # the gradient of a slice is a copy of the whole
            places, bias = places[:, : given.num_keys], bias[..., : given.num_keys]
        return F.relu(given.query), places, bias


class RandomSynthesizer(Score):
    """One learned table of scores for all texts."""

    kind: ClassVar[str] = "synthesizer-random"
    equation: ClassVar[str] = "R_ij"
    variants = (
        Declared(
            "synthesizer-random",
            "One learned table of scores for every text.",
            _TAY,
            "syn: cannot compare pairs in one layer",
        ),
    )
    projects_query: ClassVar[bool] = False
    projects_key: ClassVar[bool] = False
    needs_context: ClassVar[bool] = True

    def parameters(self, spec: AttentionSpec) -> dict[str, Parameter]:
        context = spec.context_length or 0
        return {"table": Parameter(std=0.02, shape=(context, context))}

    def define(self, given: Matched, table: Tensor) -> Tensor:
        stop = given.query_start + given.num_queries
        _check_context(table.shape[1], max(stop, given.num_keys))
        return table[None, :, given.query_start : stop, : given.num_keys]


def _check_context(context: int, tokens: int) -> None:
    """Refuse a sequence that is longer than the context of a score's parameters."""
    if tokens > context:
        raise InputError(
            f"a sequence of {tokens} tokens is longer than the context of {context}",
            hint="build the specification with a larger context_length, or cut the sequence",
        )


def _for_pairs(gain: Tensor, width: int) -> Tensor:
    """Return a gain for each number, from one for each or from one for each pair (x[i], x[i + width / 2])."""
    return gain if gain.shape[0] == width else gain.repeat(2)


def _squared(vectors: Tensor) -> Tensor:
    """Return |x|², at least in float32, like the kernel's product that it has to cancel against."""
    return vectors.to(torch.promote_types(vectors.dtype, torch.float32)).square().sum(-1, keepdim=True)
