"""Attention maps on a page: a grid of small maps, each of which opens enlarged.

    MapGrid("decoder", queries, keys, [MapRow("layer 0", [HeadMap("head 0", weights, numbers), …], visible), …])

The code that draws them is in `templates/maps`. The grid has ARIA grid markup, arrow-key navigation and labels for
screen readers.

Weights are packed into as few characters as possible. A map becomes integers, of its visible cells only, row by row;
they are compressed and encoded as base64. With w the absolute value of a weight divided by the map's scale, which is
the least power of 2 that no weight exceeds, and n the levels:

    code = √w / r                  below w = n s / 2, with r = √(s / 2n), so that the steps meet there
    code = n + (w − n s / 2) / s   from there on, each rounded

Most weights of a long text are small, so small ones get finer steps. No step is larger than s, so that every weight is
accurate to half a thousandth of the scale; `choose_levels` chooses as many levels as the size limit of a page allows.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from attnlab.errors import InputError

STEP = 0.001  # s
# All even, so that the large steps are whole thousandths. With the first, there are only small steps.
LEVELS = (2000, 1000, 500, 250, 126, 64, 44, 32, 22, 16, 12, 8, 4, 2)
NOT_A_NUMBER = 2**16 - 1
_SAMPLE = 16  # maps that are packed to estimate the total size
_ROOM = 0.95  # of the limit, because the other maps may be larger than the sample

Weights = NDArray[np.floating]
Cells = NDArray[np.bool_]


@dataclass(frozen=True)
class Quantiser:
    """Rounds weights, as a share of a map's scale, to codes with two step sizes."""

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
    """Return the weights that a page reads from a packed map; NaN where nothing is visible."""
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed.data)), dtype=np.uint8).reshape(2, -1)
    codes = planes[0].astype(np.uint16) | (planes[1].astype(np.uint16) << 8)
    values = packed.scale * Quantiser(levels).decode(codes >> 1 if packed.signed else codes)
    if packed.signed:
        values = np.where(codes & 1, -values, values)
    weights = np.full(visible.shape, np.nan)
    weights[visible] = np.where(codes == NOT_A_NUMBER, np.nan, values)
    return weights


def choose_levels(maps: Sequence[tuple[Weights, Cells]], room: int) -> int:
    """Return the most levels with which all maps take at most `room` characters, estimated from some of them."""
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
    # Repetitions other than runs of one byte are chance in weights, and searching for them costs time and space.
    compressor = zlib.compressobj(6, zlib.DEFLATED, 15, 9, zlib.Z_RLE)
    return compressor.compress(data) + compressor.flush()


ROOM = 14_000_000  # characters for all maps of a page
_UNITY = 1e-3  # deviation of a row's sum from 1 above which it is shown


@dataclass(frozen=True, eq=False)
class HeadMap:
    """The weights of one head, (queries, keys), with its statistics."""

    name: str
    weights: Weights
    numbers: Mapping[str, str] = field(default_factory=dict)
    tag: str = ""  # a label below the small map


@dataclass(frozen=True, eq=False)
class MapRow:
    """The heads of a layer. Each query sees one contiguous run of keys; `absence` says why a map is missing."""

    name: str
    heads: Sequence[HeadMap]
    visible: Cells  # (queries, keys)
    absence: str = ""

    @property
    def tagged(self) -> bool:
        return any(head.tag for head in self.heads)


@dataclass(frozen=True, eq=False)
class MapGrid:
    """The maps of all layers and heads with the same queries and keys, which are given as text."""

    label: str
    queries: Sequence[str]
    keys: Sequence[str]
    rows: Sequence[MapRow]
    names_above: bool = False  # on narrow pages, put row names above the maps

    def __post_init__(self) -> None:
        shape = (len(self.queries), len(self.keys))
        for row in self.rows:
            for name, cells in ((row.name, row.visible), *((head.name, head.weights) for head in row.heads)):
                if cells.shape != shape:
                    raise InputError(
                        f"{name} has cells of shape {cells.shape} for {shape[0]} queries and {shape[1]} keys",
                        hint="all are (queries, keys)",
                    )

    @property
    def columns(self) -> int:
        return max((len(row.heads) for row in self.rows), default=0)


def levels_for(grids: Sequence[MapGrid], room: int = ROOM) -> int:
    """Return the most levels with which the maps of a page fit into `room` characters."""
    return choose_levels(
        [(head.weights, row.visible) for grid in grids for row in grid.rows for head in row.heads], room
    )


def precision_words(levels: int) -> str:
    """Return how far a weight on the page may be from the true one, in words."""
    most, some, few = (_one_digit(Quantiser(levels).error(share)) for share in (1, 0.01, 0.001))
    return (
        f"On this page a weight is kept within ±{most} of the true one, one of 0.01 within ±{some} and one of 0.001 "
        f"within ±{few}, in maps that reach from 0 to 1; in others in proportion to their largest weight."
    )


def _one_digit(error: float) -> str:
    """Return the error rounded up to one digit, so that it holds."""
    place = -math.floor(math.log10(error))
    return f"{math.ceil(round(error * 10**place, 6)) / 10**place:.{place}f}"


def grid_data(grid: MapGrid, levels: int) -> Markup:
    """Return all that the script needs to know of a grid, as JSON that may stand in a page."""
    steps = Quantiser(levels)
    data = {
        "label": grid.label,
        "queries": list(grid.queries),
        "keys": list(grid.keys),
        "steps": {"levels": steps.levels, "root": steps.root, "knee": steps.knee, "step": STEP},
        "rows": [_row(row, levels) for row in grid.rows],
    }
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def _row(row: MapRow, levels: int) -> dict[str, object]:
    low, high = spans(row.visible)
    heads = [_head(head, row.visible, levels) for head in row.heads]
    return {"name": row.name, "low": low, "high": high, "heads": heads}


def spans(visible: Cells) -> tuple[list[int], list[int]]:
    """Return for each query the first key that it sees, and the one after the last."""
    count = visible.sum(-1)
    low = np.where(count > 0, visible.argmax(-1), 0)
    keys = np.arange(visible.shape[1])
    if not np.array_equal(visible, (keys >= low[:, None]) & (keys < (low + count)[:, None])):
        raise InputError("some query sees keys with gaps between them", hint="show it without a mask")
    return low.tolist(), (low + count).tolist()


def _head(head: HeadMap, visible: Cells, levels: int) -> dict[str, object]:
    packed = pack(head.weights, visible, levels)
    sums = head.weights.astype(np.float64).sum(-1)
    odd = bool((np.abs(sums - 1) > _UNITY).any()) or not np.isfinite(sums).all()
    return {
        "name": head.name,
        "data": packed.data,
        "scale": packed.scale,
        "signed": packed.signed,
        "full": _full_colour(head.weights, visible),
        "mass": [float(f"{mass:.4g}") if math.isfinite(mass) else None for mass in sums.tolist()] if odd else None,
        "numbers": dict(head.numbers),
    }


def _full_colour(weights: Weights, visible: Cells) -> float:
    """Return the weight that gets the full colour: the median of the largest weights of rows that have a choice."""
    sizes = np.nan_to_num(np.abs(weights), nan=0.0, posinf=0.0)
    largest = sizes.max(-1, initial=0.0)
    choosing = largest[visible.sum(-1) > 1]
    found = float(np.median(choosing)) if choosing.size else 0.0
    return float(f"{found or float(largest.max(initial=0.0)) or 1.0:.6g}")
