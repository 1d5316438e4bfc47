"""How well a query and a key match.

    scaled-dot           q·k / √D_k
    dot                  q·k
    cosine               q·k / (|q| |k|) / T          T fixed, or learned by each head
    l2                   −|q − k|² / √D_k
    synthesizer-dense    (ReLU(x A + b₁) B + b₂)_j    from the query's own token alone (arXiv 2005.00743)
    synthesizer-random   R_ij                         from no token at all

A score states its definition, materialised (`define`), and how to feed a kernel that multiplies matrices (`logits`):
all but the last are inner products once the vectors are prepared, some with a term for each query and each key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor

from attnlab.attention.gradients import direction
from attnlab.attention.parts.part import Declared, Part
from attnlab.errors import InputError

if TYPE_CHECKING:
    from attnlab.attention.spec import AttentionSpec


_TAY = "Tay et al. 2020, arXiv 2005.00743"


@dataclass(frozen=True)
class Matched:
    """What a score is made of. Queries and keys are (batch, heads, tokens, width) or absent, as the score wants."""

    query: Tensor | None
    key: Tensor | None
    num_queries: int
    num_keys: int
    query_start: int = 0
    extras: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def vectors(self) -> tuple[Tensor, Tensor]:
        if self.query is None or self.key is None:
            raise InputError("this score matches queries with keys, and one of them is missing", hint="give both")
        return self.query, self.key

    def extra(self, name: str, *lengths: int) -> Tensor:
        """A parameter of the score, refused if its context is shorter than the sequence."""
        if name not in self.extras:
            raise InputError(f"this score needs its parameter {name!r}", hint=f"pass extras={{{name!r}: …}}")
        tensor = self.extras[name]
        if any(length > size for length, size in zip(lengths, tensor.shape[1:], strict=False)):
            raise InputError(
                f"a sequence of {max(lengths)} tokens is longer than the context of {tensor.shape[1]}",
                hint="build the specification with a larger context_length, or cut the sequence",
            )
        return tensor


@dataclass(frozen=True)
class InnerProduct:
    """Scores that a matrix product makes: scale · query · keyᵀ, plus a term of the query's and one of the key's."""

    query: Tensor  # (batch, heads, queries, width)
    key: Tensor  # (batch or 1, heads, keys, width)
    scale: float = 1.0
    query_bias: Tensor | None = None  # (batch, heads, queries)
    key_bias: Tensor | None = None  # (batch or 1, heads, keys)


@dataclass(frozen=True)
class Table:
    """Scores that are given."""

    entries: Tensor  # (batch or 1, heads, queries, keys)


@dataclass(frozen=True)
class Extra:
    """A parameter that a score brings: its shape, and the normal distribution that it starts from."""

    shape: tuple[int, ...]
    std: float = 0.0
    mean: float = 0.0


class Score(Part):
    """The base: what is projected for it, the parameters it brings, its definition, and its form for the kernels."""

    family: ClassVar[str] = "score"
    equation: ClassVar[str]
    projects_query: ClassVar[bool] = True
    projects_key: ClassVar[bool] = True
    pure_product: ClassVar[bool] = False  # its logits are a product of query and key and nothing else
    needs_context: ClassVar[bool] = False  # its parameters are sized by the longest sequence
    sign: ClassVar[Literal["any", "never positive"]] = "any"

    @property
    def materialised(self) -> bool:
        """Whether a kernel gets all scores of a sequence at once, because the class does not state its `logits`."""
        return type(self).logits is Score.logits

    def extras(self, spec: AttentionSpec) -> dict[str, Extra]:  # noqa: ARG002
        """The parameters that the layer makes for this score."""
        return {}

    def multiply_adds(self, spec: AttentionSpec) -> int:
        """The multiply–adds of matrix products in one score: an inner product, unless a score says otherwise."""
        return spec.key_width if self.projects_query else 0

    def formula(self) -> str:
        """The equation with its numbers."""
        return self.equation

    def define(self, given: Matched) -> Tensor:
        """The scores (batch, heads, queries, keys), by their equation."""
        raise NotImplementedError

    def logits(self, given: Matched) -> InnerProduct | Table:
        """The same scores as a kernel takes them. A score of one's own that does not say is materialised."""
        return Table(self.define(given))


class ScaledDot(Score):
    """Dividing by √D_k keeps the variance of the scores at 1 for queries and keys of unit variance."""

    kind: ClassVar[str] = "scaled-dot"
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


class Cosine(Score):
    """Direction alone, divided by a temperature.

    A learned temperature starts at 1/√D_k, where vectors of independent unit-variance entries get the same scores as
    from the scaled dot product. It is kept as its logarithm, so that it stays positive.
    """

    kind: ClassVar[str] = "cosine"
    pure_product: ClassVar[bool] = True
    equation: ClassVar[str] = "q·k / (|q| |k| T)"
    variants = (
        Declared(
            "cosine",
            "Scores are the cosine of query and key: direction without length.",
            "the notes",
            "0.2, 0.3, 0.11: normalise the dot product",
        ),
        Declared(
            "cosine-learned",
            "The cosine divided by a temperature that each head learns.",
            "Henry et al. 2020, arXiv 2010.04245",
            "0.11: the normalised dot product, with room to be sharp",
            {"temperature": "learned"},
        ),
    )

    temperature: PositiveFloat | Literal["learned"] = 1.0

    def formula(self) -> str:
        if self.temperature == "learned":
            return f"{self.equation}, each head with a T of its own"
        return "q·k / (|q| |k|)" if self.temperature == 1 else f"{self.equation}, T = {self.temperature:g}"

    def extras(self, spec: AttentionSpec) -> dict[str, Extra]:
        if self.temperature != "learned":
            return {}
        return {"log_temperature": Extra((spec.num_heads,), mean=-0.5 * math.log(spec.key_width))}

    def define(self, given: Matched) -> Tensor:
        query, key = (F.normalize(vectors, dim=-1) for vectors in given.vectors)
        return query @ key.transpose(-2, -1) / self._temperature(given)

    def logits(self, given: Matched) -> InnerProduct:
        query, key = given.vectors
        if self.temperature == "learned":
            return InnerProduct(direction(query, self._temperature(given)), direction(key))
        return InnerProduct(direction(query), direction(key), 1 / self.temperature)

    def _temperature(self, given: Matched) -> Tensor | float:
        if self.temperature == "learned":
            return given.extra("log_temperature").exp()[:, None, None]
        return self.temperature


class SquaredDistance(Score):
    """Near is alike. −|q − k|² = 2 q·k − |q|² − |k|²."""

    kind: ClassVar[str] = "l2"
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
    """Each token says by itself how much of which place it wants; A is the query's projection, B and b₂ are extras."""

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

    def extras(self, spec: AttentionSpec) -> dict[str, Extra]:
        places = spec.num_heads, spec.context_length or 0
        return {"places": Extra((*places, spec.key_width), std=0.02), "place_bias": Extra(places)}

    def define(self, given: Matched) -> Tensor:
        hidden, places, bias = self._pieces(given)
        return hidden @ places.transpose(-2, -1) + bias[:, None, :]

    def logits(self, given: Matched) -> InnerProduct:
        hidden, places, bias = self._pieces(given)
        return InnerProduct(hidden, places[None], key_bias=bias[None])

    def _pieces(self, given: Matched) -> tuple[Tensor, Tensor, Tensor]:
        if given.query is None:
            raise InputError("a dense synthesizer is made from the queries, and they are missing", hint="give query")
        places, bias = given.extra("places", given.num_keys), given.extra("place_bias")
        if given.num_keys < places.shape[1]:  # the gradient of a slice is a copy of the whole
            places, bias = places[:, : given.num_keys], bias[:, : given.num_keys]
        return F.relu(given.query), places, bias


class RandomSynthesizer(Score):
    """One learned table for all sentences."""

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

    def extras(self, spec: AttentionSpec) -> dict[str, Extra]:
        context = spec.context_length or 0
        return {"table": Extra((spec.num_heads, context, context), std=0.02)}

    def define(self, given: Matched) -> Tensor:
        stop = given.query_start + given.num_queries
        return given.extra("table", stop, given.num_keys)[None, :, given.query_start : stop, : given.num_keys]


def _squared(vectors: Tensor) -> Tensor:
    """|x|², at least in float32: the squares are to cancel against a product that is."""
    return vectors.to(torch.promote_types(vectors.dtype, torch.float32)).square().sum(-1, keepdim=True)
