"""Maps of attention on a page: a grid of small ones, each of which opens large.

    MapGrid("decoder", queries, keys, [MapRow("layer 0", [HeadMap("head 0", weights, numbers), …], visible), …])

What draws them lies in `templates/maps`. The grid is marked up as one, is walked with the arrow keys, and says aloud
what it shows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from markupsafe import Markup

from attnlab.errors import InputError
from attnlab.pages.packing import STEP, Cells, Quantiser, Weights, choose_levels, pack

ROOM = 14_000_000  # letters that all maps of a page may take
_UNITY = 1e-3  # how far from 1 a row's sum may be before it is shown


@dataclass(frozen=True, eq=False)
class HeadMap:
    """The weights of one head, (queries, keys), with what is known of it in numbers."""

    name: str
    weights: Weights
    numbers: Mapping[str, str] = field(default_factory=dict)
    tag: str = ""  # a word that stands below the small map


@dataclass(frozen=True, eq=False)
class MapRow:
    """The heads of a layer. Each query sees one run of keys; `absence` says why there is no map where there is none."""

    name: str
    heads: Sequence[HeadMap]
    visible: Cells  # (queries, keys)
    absence: str = ""

    @property
    def tagged(self) -> bool:
        return any(head.tag for head in self.heads)


@dataclass(frozen=True, eq=False)
class MapGrid:
    """All layers and heads that look from the same queries at the same keys, whose names are given as text."""

    label: str
    queries: Sequence[str]
    keys: Sequence[str]
    rows: Sequence[MapRow]
    names_above: bool = False  # where the page is narrow: rows whose names say more than a number

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
    """Return the most levels for which the maps of a page have room."""
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
    """Rounded up, so that it holds."""
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
