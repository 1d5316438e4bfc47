"""Whether heads attend to the right keys, where these are known: the translated word, a noun's adjective.

For some queries i the right key t_i is known. With the shares p_ij of a head (`LayerMaps.shares`):

    share   the mean of p_i,t_i                                 the attention on the right key
    hits    how often argmax_j p_ij = t_i                       how often it gets the most
    error   1 − hits: the alignment error rate of one link for each query (Och and Ney 2003, with S = P)
    chance  the mean of 1 / n_i, over the n_i keys that i sees  both of them under uniform attention

Words have similar positions in all texts, so a head may be right regardless of content. The same maps are therefore
also scored against the right keys of another text (`swapped`): the share of hits that needs no content.

    found = pointing(model, [(batch, corpus.alignment(batch))], of="cross")
    found.best.error                              Interval(mean, low, high) over texts
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.corpora import Batch
from attnlab.errors import InputError, UnknownNameError
from attnlab.lens.taps import LayerMaps, Place, look
from attnlab.models import LanguageModel
from attnlab.statistics import Interval, mean_interval

NOWHERE = -1  # for a query that has no right key


@dataclass(frozen=True)
class Pointed:
    """How well a head attends to the right keys, as means over texts."""

    layer: int
    head: int
    share: Interval
    hits: Interval
    swapped: float  # hits at the right keys of another text; NaN unless two texts have such keys
    chance: float

    @property
    def error(self) -> Interval:
        return Interval(1 - self.hits.mean, 1 - self.hits.high, 1 - self.hits.low)

    @property
    def name(self) -> str:
        return f"layer {self.layer + 1}, head {self.head + 1}"


@dataclass(frozen=True)
class Pointing:
    """The heads that have a map, by layer and head."""

    heads: tuple[Pointed, ...]

    def __getitem__(self, place: tuple[int, int]) -> Pointed:
        for one in self.heads:
            if (one.layer, one.head) == place:
                return one
        raise UnknownNameError("head", str(place), {str((one.layer, one.head)) for one in self.heads})

    @property
    def best(self) -> Pointed:
        """Return the head that gives the right keys the most attention."""
        return max(self.heads, key=lambda one: one.share.mean)

    @property
    def least(self) -> Pointed:
        """Return the head that gives them the least."""
        return min(self.heads, key=lambda one: one.share.mean)


def pointing(
    model: LanguageModel, texts: Iterable[tuple[Batch, Tensor]], *, of: Place = "self", level: float = 0.95
) -> Pointing:
    """Score every head against the right keys of batches, (rows, queries), −1 where a query has none.

    Rows are texts, and intervals at this level are over texts. Rows without a right key are left out.

    Parameters
    ----------
    model
        The model.
    texts
        Batches with the right key of each query, (rows, queries), −1 where a query has none.
    of
        Which attention: `self`, `cross` or `encoder`.
    level
        The confidence level of intervals, such as 0.95.
    """
    found: dict[int, list[Tensor]] = {}
    for batch, right in texts:
        if right.shape != batch.inputs.shape:
            raise InputError(
                f"right keys of shape {tuple(right.shape)} for inputs of shape {tuple(batch.inputs.shape)}",
                hint=f"give the place of a key for each query, and {NOWHERE} where there is none",
            )

        def see(layer: int, maps: LayerMaps, right: Tensor = right) -> None:
            if maps.weights is not None:
                found.setdefault(layer, []).append(_observe(maps, right.to(maps.map.device)))

        look(model, batch, see, of=of)
    layers = {layer: torch.cat(parts) for layer, parts in found.items()}  # (texts, heads, 4)
    counts = [int(one[:, 0, 0].isfinite().sum()) for one in layers.values()]
    if not counts or max(counts) < 2:
        raise InputError(
            f"texts with a right key, as a head sees it: {max(counts, default=0)}, too few for an interval",
            hint="give two rows or more whose queries have right keys, and a variant that has maps",
        )
    heads = [
        _pointed(layer, head, observed[:, head], level)
        for layer, observed in layers.items()
        for head in range(observed.shape[1])
    ]
    return Pointing(tuple(heads))


def _pointed(layer: int, head: int, texts: Tensor, level: float) -> Pointed:
    """Return a head's intervals and means from its texts, (texts, 4)."""
    share, hits = (mean_interval(one[one.isfinite()].tolist(), level) for one in texts[:, :2].unbind(1))
    swapped, chance = texts[:, 2:].nanmean(0).tolist()
    return Pointed(layer, head, share, hits, swapped, chance)


def _observe(maps: LayerMaps, right: Tensor) -> Tensor:
    """Return share, hits, swapped hits and chance of each text and head, (batch, heads, 4), NaN where there are no
    right keys."""
    if bool((right >= maps.map.shape[-1]).any()):
        raise InputError(f"a right key at {int(right.max())}", hint=f"there are keys 0 to {maps.map.shape[-1] - 1}")
    known = right >= 0
    place = right.clamp(min=0)[:, None, :, None].expand(-1, maps.map.shape[1], -1, 1)
    shares = maps.shares.gather(-1, place)[..., 0]  # (batch, heads, queries)
    likeliest = maps.shares.argmax(-1)
    other = right.roll(1, 0)
    both = known & (other >= 0) & (len(right) > 1)
    chance = 1 / maps.num_visible.clamp(min=1)  # (batch or 1, 1, queries)
    columns = [
        _mean(shares, known),
        _mean(likeliest == right[:, None], known),
        _mean(likeliest == other[:, None], both),
        _mean(chance.expand_as(shares), known),
    ]
    return torch.stack(columns, dim=-1).cpu()


def _mean(values: Tensor, where: Tensor) -> Tensor:
    """Return the mean over the queries (batch, queries) that count: (batch, heads, queries) → (batch, heads)."""
    count = where.sum(-1, dtype=torch.float64)[:, None]
    total = values.double().where(where[:, None], 0.0).sum(-1)
    return (total / count).where(count > 0, math.nan)
