"""Positional encodings.

learned           a vector per position, added to the embedding by the model; attention itself does nothing
rope              q and k are rotated by an angle that grows with the position, so that q·k depends only on the
                  distance (arXiv 2104.09864)
rope-linear, rope-llama3    the same with slower rotations, for texts longer than those in training
decoupled-rope    the last dimensions of queries are rotated, and so is one vector of each token that all heads append
                  to their keys; for keys that are computed from a latent (arXiv 2405.04434)
alibi             −slope·|i − j| is added to the scores, with a slope per head (arXiv 2108.12409)
none              no encoding: only the causal mask breaks the symmetry (arXiv 2203.16634)

A user-defined position may add a bias to the scores (`bias`), by the positions of query and key.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Self

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor

from attnlab.attention.parts.part import Biased, Declared, Number
from attnlab.errors import SpecError


class Position(Biased):
    """The base class of all positional encodings."""

    family: ClassVar[str] = "position"
    relative: ClassVar[bool] = False  # acts inside attention, by the distance between query and key


class Learned(Position):
    """A learned vector for each position, added to the embedding, as in GPT-2."""

    kind: ClassVar[str] = "learned"


class Rope(Position):
    """Rotary embedding: the pair (x[i], x[i + d/2]) is rotated by position · base^(−2i/d)."""

    kind: ClassVar[str] = "rope"
    relative: ClassVar[bool] = True
    variants = (
        Declared(
            "rope",
            "Queries and keys are rotated by their position.",
            "Su et al. 2021, arXiv 2104.09864",
            "pre: the assignment's own third model",
            number=Number("base", "500000", "Queries and keys are rotated by their position, with base {}."),
        ),
    )

    base: float = Field(default=10_000.0, gt=1)

    def formula(self) -> str:
        """Describe what is done to queries and keys."""
        usual = self.base == type(self).model_fields["base"].default
        return "q and k rotated by their position" + ("" if usual else f", base {self.base:g}")

    def frequencies(self, exponents: Tensor) -> Tensor:
        """Return the radians per position of each pair, from 2i/d."""
        return self.base**-exponents

    def rotate(self, vectors: Tensor, start: int) -> Tensor:
        """Rotate (batch, heads, tokens, width), with the first token at position `start`."""
        return _rotated(vectors, start, self.frequencies)


class DecoupledRope(Position):
    """Rotary embedding of the last `width` dimensions of a query, and of a key part that all heads share."""

    kind: ClassVar[str] = "decoupled-rope"
    relative: ClassVar[bool] = True

    width: PositiveInt = 32
    base: float = Field(default=10_000.0, gt=1)

    def rotate(self, vectors: Tensor, start: int) -> Tensor:
        """Rotate the last dimensions of (batch, heads, tokens, …), with the first token at position `start`."""
        if vectors.shape[-1] == self.width:
            return _rotated(vectors, start, self._frequencies)
        content, rotary = vectors[..., : -self.width], vectors[..., -self.width :]
        return torch.cat([content, _rotated(rotary, start, self._frequencies)], dim=-1)

    def _frequencies(self, exponents: Tensor) -> Tensor:
        return self.base**-exponents


def _rotated(vectors: Tensor, start: int, frequencies: Callable[[Tensor], Tensor]) -> Tensor:
    """Rotate (batch, heads, tokens, width) by positions from `start` on, each pair at its frequency."""
    tokens, width = vectors.shape[-2:]
    exact = torch.float64 if vectors.dtype == torch.float64 else torch.float32
    frequency = frequencies(torch.arange(0, width, 2, device=vectors.device, dtype=exact) / width)
    angle = torch.outer(torch.arange(start, start + tokens, device=vectors.device, dtype=exact), frequency)
    cos, sin = (part.to(vectors.dtype)[:, None] for part in (angle.cos(), angle.sin()))  # (tokens, 1, width / 2)
    # Rotated in the layout of the projections, (batch, tokens, heads, width), so that joining the heads
    # after the fused kernel needs no copy.
    first, second = vectors.transpose(1, 2).chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1).transpose(1, 2)


class LinearRope(Rope):
    """Position interpolation: every frequency is divided by `factor` (arXiv 2306.15595)."""

    kind: ClassVar[str] = "rope-linear"

    factor: float = Field(ge=1)

    def formula(self) -> str:
        return f"{super().formula()}, {self.factor:g} times slower"

    def frequencies(self, exponents: Tensor) -> Tensor:
        return super().frequencies(exponents) / self.factor


class Llama3Rope(Rope):
    """Llama 3's scaling: slow rotations are divided by `factor`, fast ones are kept, with a ramp between.

    With n = original_context_length · frequency / 2π rotations over the original context, a frequency is divided by
    `factor` below n = low_rotations, kept above n = high_rotations, and interpolated linearly in n between.
    """

    kind: ClassVar[str] = "rope-llama3"

    factor: float = Field(ge=1)
    low_rotations: float = Field(default=1.0, gt=0)
    high_rotations: float = Field(default=4.0, gt=0)
    original_context_length: PositiveInt = 8192

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low_rotations < self.high_rotations:
            raise SpecError(
                f"low_rotations must be below high_rotations, got {self.low_rotations:g} and {self.high_rotations:g}",
                hint="Llama 3 has 1 and 4",
            )
        return self

    def formula(self) -> str:
        return f"{super().formula()}, slow rotations {self.factor:g} times slower"

    def frequencies(self, exponents: Tensor) -> Tensor:
        plain = super().frequencies(exponents)
        rotations = self.original_context_length * plain / (2 * math.pi)
        kept = ((rotations - self.low_rotations) / (self.high_rotations - self.low_rotations)).clamp(0, 1)
        return plain * (kept + (1 - kept) / self.factor)


class Alibi(Position):
    """Linear biases: head h of H has the slope 2^(−8h/H), h = 1 … H."""

    kind: ClassVar[str] = "alibi"
    relative: ClassVar[bool] = True
    equation: ClassVar[str] = "−slope·|i − j|"
    variants = (
        Declared(
            "alibi",
            "Scores fall linearly with distance.",
            "Press et al. 2021, arXiv 2108.12409",
            "0.3: what draws attention",
        ),
    )

    def bias(self, queries: Tensor, keys: Tensor, num_heads: int) -> Tensor:
        distance = self.distance(queries, keys, torch.float64)
        return self.slopes(num_heads, distance)[:, None, None] * distance

    @staticmethod
    def slopes(num_heads: int, like: Tensor) -> Tensor:
        heads = torch.arange(1, num_heads + 1, device=like.device, dtype=torch.float64)
        return torch.exp2(-8.0 * heads / num_heads).to(like.dtype)

    @staticmethod
    def distance(queries: Tensor, keys: Tensor, dtype: torch.dtype) -> Tensor:
        """Return −|i − j| for all pairs of positions, (queries, keys)."""
        return -(queries[:, None] - keys).abs().to(dtype)


class NoPosition(Position):
    """No position: only the causal mask tells tokens where they are."""

    kind: ClassVar[str] = "none"
    variants = (
        Declared(
            "no-position",
            "Nothing tells tokens where they stand but the causal mask.",
            "Haviv et al. 2022, arXiv 2203.16634",
            "1.5: masking breaks the symmetry",
        ),
    )
