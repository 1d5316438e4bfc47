"""Dropout of attention weights, drawn from a counter.

Whether the weight of query i on key j of head h is dropped is a pure function of (seed, h, i, j). The backward pass,
which recomputes the weights block by block, therefore drops the same ones without storing a mask; so does the
reference, whatever the block size.

A row (h, i) and a column j each get a random odd 32-bit number by mixing their index with the seed (the finaliser of
MurmurHash3, in wrapping arithmetic); the product of the two, mixed once more, is compared with the rate.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch
from torch import Tensor

# The factors 0x85EBCA6B, 0xC2B2AE35 and 0x9E3779B9 as signed 32-bit numbers.
_FIRST, _SECOND, _GOLDEN = -2048144789, -1028477387, -1640531527
_AS_BITS = {torch.float32: torch.int32, torch.float64: torch.int64}


@dataclass(frozen=True)
class WeightDropout:
    """Keeps a weight with probability 1 − rate, and scales kept weights by 1 / (1 − rate)."""

    rate: float
    seed: Tensor  # one 64-bit integer

    @property
    def scale(self) -> float:
        return 1 / (1 - self.rate)

    def grid(self, heads: int, queries: int, keys: int) -> DropoutGrid:
        """Return the draws for weights (heads, queries, keys), where heads count over batch × heads."""
        chance = random.Random(int(self.seed))
        of_heads, of_queries, of_keys = (
            _mix(torch.arange(count, dtype=torch.int32, device=self.seed.device) * _GOLDEN + _any_number(chance))
            for count in (heads, queries, keys)
        )
        return DropoutGrid(_mix(of_heads[:, None] ^ of_queries) | 1, of_keys | 1, int(self.rate * 2**31) - 2**30)


@dataclass(frozen=True)
class DropoutGrid:
    """The random draws of one call, computed block by block on request."""

    rows: Tensor  # (heads, queries)
    columns: Tensor  # (keys,)
    limit: int  # 31-bit numbers below this are dropped

    def bits(self, heads: slice, queries: slice, keys: slice) -> Tensor:
        """Return all ones for a weight that is kept and all zeros for one that is dropped, as 32-bit integers."""
        draw = self.rows[heads, queries, None] * self.columns[keys]
        draw.bitwise_xor_(draw >> 15).mul_(_SECOND).bitwise_right_shift_(1)
        return torch.rsub(draw, self.limit - 1).bitwise_right_shift_(31)

    @staticmethod
    def apply_(weights: Tensor, bits: Tensor) -> Tensor:
        """Zero the dropped weights in place; the caller applies the scale."""
        kind = _AS_BITS[weights.dtype]
        weights.view(kind).bitwise_and_(bits.to(kind))
        return weights


def _mix(x: Tensor) -> Tensor:
    """Mix the bits of 32-bit integers, so that no trace of their order is left."""
    for shift, factor in ((16, _FIRST), (13, _SECOND)):
        x = (x ^ (x >> shift)) * factor
    return x ^ (x >> 16)


def _any_number(chance: random.Random) -> int:
    return chance.getrandbits(32) - 2**31


def draw_seed(device: torch.device) -> Tensor:
    """Draw a seed from PyTorch's own generator, so that `torch.manual_seed` governs it."""
    return torch.randint(0, 2**62, (), device=device)
