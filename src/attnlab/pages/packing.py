"""Attention weights, packed into as few letters as a page can read back.

A map becomes whole numbers, of its visible cells only, row by row; they are compressed, and written as base64. With w
the size of a weight divided by the map's scale, which is the least power of 2 that no weight exceeds, and n the levels:

    code = √w / r                  below w = n s / 2, with r = √(s / 2n), so that the steps meet there
    code = n + (w − n s / 2) / s   from there on, each rounded

Most weights of a long text are small, so small ones get finer steps. None is larger than s, so that a weight is right
to half a thousandth of the scale whatever the page's size; `choose_levels` takes as many as the page has room for.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

STEP = 0.001  # s
# All even, so that the large steps are whole thousandths. With the first, all steps are small ones.
LEVELS = (2000, 1000, 500, 250, 126, 64, 44, 32, 22, 16, 12, 8, 4, 2)
NOT_A_NUMBER = 2**16 - 1
_SAMPLE = 16  # maps that are packed to learn how large all will be
_ROOM = 0.95  # of the space, as the others may be larger than those

Weights = NDArray[np.floating]
Cells = NDArray[np.bool_]


@dataclass(frozen=True)
class Quantiser:
    """Rounds the weights of a page, as a share of a map's scale, to codes with steps of two sizes."""

    levels: int

    @property
    def root(self) -> float:
        """Return r, the step of the roots of small weights."""
        return math.sqrt(STEP / (2 * self.levels))

    @property
    def knee(self) -> float:
        """Return the weight at which the large steps begin."""
        return self.levels * STEP / 2

    def encode(self, shares: Weights) -> NDArray[np.uint16]:
        """Return the codes of shares from 0 to 1."""
        small = shares < self.knee
        codes = np.where(small, np.sqrt(shares) / self.root, self.levels + (shares - self.knee) / STEP)
        return np.rint(codes).astype(np.uint16)

    def decode(self, codes: NDArray[np.uint16]) -> NDArray[np.float64]:
        steps = codes.astype(np.float64)
        small = codes < self.levels
        return np.where(small, (steps * self.root) ** 2, self.knee + (steps - self.levels) * STEP)

    def error(self, share: float) -> float:
        """Return the largest difference between a share and what is read back for it."""
        return min(STEP / 2, math.sqrt(share) * self.root + self.root**2 / 4)


@dataclass(frozen=True)
class PackedMap:
    """`data` is base64 of zlib of all low bytes, then all high bytes. Where `signed`, a code is twice the size of the
    weight, plus 1 if it is below 0."""

    data: str
    scale: float
    signed: bool


def pack(weights: Weights, visible: Cells, levels: int) -> PackedMap:
    """Pack the visible cells of a map, both (queries, keys)."""
    values = weights[visible].astype(np.float64)
    broken = ~np.isfinite(values)
    values[broken] = 0
    scale, signed = _scale(values), bool((values < 0).any())
    codes = Quantiser(levels).encode(np.abs(values) / scale)
    if signed:
        codes = 2 * codes + (values < 0).astype(np.uint16)
    codes[broken] = NOT_A_NUMBER
    planes = np.concatenate([codes & 255, codes >> 8]).astype(np.uint8)
    return PackedMap(base64.b64encode(_compress(planes.tobytes())).decode("ascii"), scale, signed)


def unpack(packed: PackedMap, visible: Cells, levels: int) -> NDArray[np.float64]:
    """Return what a page reads from a packed map; not a number where nothing is visible."""
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed.data)), dtype=np.uint8).reshape(2, -1)
    codes = planes[0].astype(np.uint16) | (planes[1].astype(np.uint16) << 8)
    values = packed.scale * Quantiser(levels).decode(codes >> 1 if packed.signed else codes)
    if packed.signed:
        values = np.where(codes & 1, -values, values)
    weights = np.full(visible.shape, np.nan)
    weights[visible] = np.where(codes == NOT_A_NUMBER, np.nan, values)
    return weights


def choose_levels(maps: Sequence[tuple[Weights, Cells]], room: int) -> int:
    """Return the most levels with which all maps take at most `room` letters, judged by some of them."""
    chosen = maps[:: math.ceil(len(maps) / _SAMPLE)] if maps else ()
    cells, sampled = (sum(weights.size for weights, _ in some) for some in (maps, chosen))
    for levels in LEVELS:
        letters = 0
        for weights, visible in chosen:
            letters += len(pack(weights, visible, levels).data)
            if letters * cells > _ROOM * room * sampled:
                break
        else:
            return levels
    return LEVELS[-1]


def _scale(values: NDArray[np.float64]) -> float:
    largest = float(np.abs(values).max(initial=0.0))
    return 2.0 ** math.ceil(math.log2(largest)) if largest > 0 else 1.0


def _compress(data: bytes) -> bytes:
    # Longer repetitions than those of one letter are chance in weights, and looking for them costs time and space.
    compressor = zlib.compressobj(6, zlib.DEFLATED, 15, 9, zlib.Z_RLE)
    return compressor.compress(data) + compressor.flush()
