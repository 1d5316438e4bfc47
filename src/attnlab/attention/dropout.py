"""Dropout of attention weights, drawn from a counter.

Whether the weight of query i on key j of head h is dropped is a pure function of (seed, h, i, j). So the backward pass,
which makes the weights again block by block, drops the same ones without having stored which; so does the reference,
whatever the block size.

A row and a column each get a random odd 32-bit number by mixing their index with the seed; the product of the two, mixed
once more, is compared with the rate. (Mixing: the finaliser of MurmurHash3, in wrapping arithmetic.)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_FIRST, _SECOND = -2048144789, -1028477387  # 0x85EBCA6B and 0xC2B2AE35 as signed 32-bit numbers
_GOLDEN = -1640531527  # 0x9E3779B9


@dataclass(frozen=True)
class WeightDropout:
    """Keeps a weight with probability 1 − rate, and multiplies what is kept by 1 / (1 − rate)."""

    rate: float
    seed: Tensor  # one 64-bit integer

    @property
    def scale(self) -> float:
        return 1 / (1 - self.rate)

    def kept(self, heads: slice, queries: slice, keys: slice) -> Tensor:
        """True for the weights that stay, (heads, queries, keys); heads count over batch × heads."""
        rows = self._numbers(torch.arange(heads.start, heads.stop, device=self.seed.device)[:, None], 1)
        rows = _mix(rows ^ self._numbers(torch.arange(queries.start, queries.stop, device=self.seed.device), 2)) | 1
        columns = self._numbers(torch.arange(keys.start, keys.stop, device=self.seed.device), 3) | 1
        grid = rows[:, :, None] * columns
        grid.bitwise_xor_(grid >> 15).mul_(_SECOND)
        return grid >= int(self.rate * 2**32) - 2**31

    def _numbers(self, index: Tensor, stream: int) -> Tensor:
        """A random 32-bit number for each index, another set for each stream and seed."""
        low, high = (self.seed & 0x7FFFFFFF).to(torch.int32), (self.seed >> 31 & 0x7FFFFFFF).to(torch.int32)
        mixed = _mix(index.to(torch.int32) * _GOLDEN + low)
        return _mix(mixed ^ _mix(high + stream * _GOLDEN))


def _mix(x: Tensor) -> Tensor:
    for shift, factor in ((16, _FIRST), (13, _SECOND)):
        x = (x ^ (x >> shift & (1 << 32 - shift) - 1)) * factor
    return x ^ (x >> 16 & 0xFFFF)


def draw_seed(device: torch.device) -> Tensor:
    """A seed from PyTorch's own generator, so that `torch.manual_seed` governs it."""
    return torch.randint(0, 2**62, (), device=device)
