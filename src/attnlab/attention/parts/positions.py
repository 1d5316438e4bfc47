"""How attention learns where a token stands.

learned           a vector per position, added to the embedding by the model; attention itself does nothing
rope              q and k are rotated by an angle that grows with the position, so that q·k depends on the distance
                  alone (arXiv 2104.09864)
decoupled-rope    the last numbers of queries are rotated, and so is one vector of each token that all heads have as the
                  end of their key; for keys that are made from a latent (arXiv 2405.04434)
alibi             −slope·|i − j| is added to the scores, with a slope per head (arXiv 2108.12409)
none              nothing anywhere: only the causal mask breaks the symmetry (arXiv 2203.16634)

A position of one's own may add a bias to the scores (`bias`), by the places of query and key.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from attnlab.attention.parts.part import Biased, Declared, Number


class Position(Biased):
    """Where position enters; the base of all."""

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
        """Return what is done to queries and keys, in words."""
        usual = self.base == type(self).model_fields["base"].default
        return "q and k rotated by their position" + ("" if usual else f", base {self.base:g}")

    def rotate(self, vectors: Tensor, start: int) -> Tensor:
        """Rotate (batch, heads, tokens, width), whose first token stands at position `start`."""
        return _rotated(vectors, start, self.base)


class DecoupledRope(Position):
    """Rotary embedding of the last `width` numbers of a query, and of a key part that all heads share."""

    kind: ClassVar[str] = "decoupled-rope"
    relative: ClassVar[bool] = True

    width: PositiveInt = 32
    base: float = Field(default=10_000.0, gt=1)

    def rotate(self, vectors: Tensor, start: int) -> Tensor:
        """Rotate the last numbers of (batch, heads, tokens, …), whose first token stands at position `start`."""
        if vectors.shape[-1] == self.width:
            return _rotated(vectors, start, self.base)
        content, rotary = vectors[..., : -self.width], vectors[..., -self.width :]
        return torch.cat([content, _rotated(rotary, start, self.base)], dim=-1)


def _rotated(vectors: Tensor, start: int, base: float) -> Tensor:
    """Rotate (batch, heads, tokens, width) by positions from `start` on."""
    tokens, width = vectors.shape[-2:]
    exact = torch.float64 if vectors.dtype == torch.float64 else torch.float32
    frequency = base ** (-torch.arange(0, width, 2, device=vectors.device, dtype=exact) / width)
    angle = torch.outer(torch.arange(start, start + tokens, device=vectors.device, dtype=exact), frequency)
    cos, sin = (part.to(vectors.dtype)[:, None] for part in (angle.cos(), angle.sin()))  # (tokens, 1, width / 2)
    # Rotated in the layout that the projections leave, (batch, tokens, heads, width), so that joining the heads
    # behind the fused kernel needs no copy.
    first, second = vectors.transpose(1, 2).chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1).transpose(1, 2)


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
        """−|i − j| for all pairs of positions, (queries, keys)."""
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
