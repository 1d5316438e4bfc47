"""What of a head's attention lies where a role says, against what would by chance.

A role names for each query i a set T_i of visible keys. With the shares p_ij and n_i visible keys:

    s_i = Σ_{j in T_i} p_ij                   what the set gets
    c_i = |T_i| / n_i                         what it would get if all visible keys got the same
    excess = Σ_i (s_i − c_i) / Σ_i (1 − c_i)  of each text: 0 as by chance, 1 everything, below 0 less than chance

over the queries that have a choice, 0 < |T_i| < n_i, and mass.

`PlaceShare` asks whether place or content decides. With d_tij = p_tij − 1 / n_i in text t, and means taken over pairs
of *different* texts, so that what differs between texts explains nothing:

    position explains = Σ_ij (mean_{t≠u} d_tij d_uij) / Σ_ij (mean_t d_tij²)
    distance explains   the same with d averaged over all i and j of one distance i − j
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.lens.maps.attention_maps import LayerMaps
from attnlab.lens.maps.measures import Described

_CONSTANT = 1e-14  # a variance of shares that is nothing but rounding


@dataclass(frozen=True, eq=False)
class Texts:
    """The tokens that look (batch, queries), those that they look at (batch, keys), and which tokens part others."""

    queries: Tensor
    keys: Tensor
    delimiters: Tensor  # (vocabulary,), True for a delimiter
    crosses: bool = False

    @property
    def distance(self) -> Tensor:
        """i − j, (queries, keys)."""
        i, j = (torch.arange(x.shape[1], device=x.device) for x in (self.queries, self.keys))
        return i[:, None] - j


Where = Callable[[Texts], Tensor]


@dataclass(frozen=True)
class Role(Described):
    """`where` gives the sets, (batch or 1, queries, keys), True for a key in T_i."""

    where: Where
    repeated: bool = False  # measured on repeated random tokens, where nothing else tells the keys apart
    within: bool = True  # means something only where a sequence looks at itself


def _previous(texts: Texts) -> Tensor:
    return (texts.distance == 1)[None]


def _own(texts: Texts) -> Tensor:
    return (texts.distance == 0)[None]


def _first(texts: Texts) -> Tensor:
    first = torch.zeros_like(texts.distance, dtype=torch.bool)
    first[0 if texts.crosses else 1 :, 0] = True  # to the first token itself it is its own
    return first[None]


def _same(texts: Texts) -> Tensor:
    return (texts.queries[:, :, None] == texts.keys[:, None, :]) & (texts.distance != 0)


def _induction(texts: Texts) -> Tensor:
    found = torch.zeros(len(texts.keys), *texts.distance.shape, dtype=torch.bool, device=texts.keys.device)
    found[:, :, 1:] = texts.queries[:, :, None] == texts.keys[:, None, :-1]
    return found & (texts.distance != 0) & (texts.distance != -1)  # the token after the query's own is but its next


def _delimiter(texts: Texts) -> Tensor:
    found = texts.delimiters[texts.keys].clone()
    found[:, 0] = False  # which may be a sink, whatever it is
    return found[:, None, :].expand(-1, texts.queries.shape[1], -1)


ROLES: Mapping[str, Role] = MappingProxyType(
    {
        "previous token": Role("attention to the token before the query's", "excess", _previous),
        "first token": Role("attention to the first token: a sink", "excess", _first, within=False),
        "own token": Role("attention to the query's own token", "excess", _own),
        "same token": Role("attention to other occurrences of the query's token", "excess", _same, repeated=True),
        "induction": Role(
            "attention to the token after an earlier occurrence of the query's", "excess", _induction, repeated=True
        ),
        "delimiter": Role(
            "attention to spaces, line ends and punctuation, but for the first token",
            "excess",
            _delimiter,
            within=False,
        ),
    }
)


def score(maps: LayerMaps, *where: Tensor) -> Tensor:
    """The share, the chance and the excess in each of these sets, of each text and head, (batch, heads, sets, 3); not a
    number without queries that count."""
    sizes = maps.map.abs()
    batch = len(sizes)
    targets = torch.stack([one.expand(batch, -1, -1) for one in where], dim=1) & maps.pairs  # (batch, sets, …)
    everything = torch.ones_like(targets[:, :1])
    # One product for all sets and for the mass of the rows, which the shares are divided by.
    held = torch.einsum("bhqk,bsqk->bhsq", sizes, torch.cat([targets, everything], dim=1).to(sizes.dtype))
    held = held[:, :, :-1] / held[:, :, -1:]  # (batch, heads, sets, queries)
    size, visible = targets.sum(-1), maps.num_visible  # (batch, sets, queries), (batch or 1, 1, queries)
    counts = ((size > 0) & (size < visible))[:, None] & held.isfinite()
    chance = (size / visible.clamp(min=1))[:, None].expand_as(held)
    held, chance = (x.double().where(counts, 0.0).sum(-1) for x in (held, chance))
    rows = counts.sum(-1)
    return torch.stack([held / rows, chance / rows, (held - chance) / (rows - chance)], dim=-1)


class PlaceShare:
    """How much of the maps of one layer their position and their distance explain, over texts that are added."""

    def __init__(self) -> None:
        self.total: Tensor | float = 0.0  # (heads,)
        self.cells: list[Tensor] = []  # sums over texts of d, of d², of the texts and of their squares
        self.distances: list[Tensor] = []

    def add(self, maps: LayerMaps) -> None:
        shares = maps.shares
        known = (maps.pairs & (maps.num_visible > 1)[..., None]).expand(len(shares), -1, -1, -1)
        has_mass = shares[..., :1].isfinite()
        if not bool(has_mass.all()):
            known = known & has_mass
        chance = 1 / maps.num_visible.clamp(min=1)[..., None].to(shares.dtype)
        d = (shares - chance).where(known, 0.0)  # (batch, heads, queries, keys)
        squares = d.square()
        self.total = self.total + squares.sum((0, 2, 3), dtype=torch.float64)
        counts = known.sum(0, dtype=torch.float32)  # (heads or 1, queries, keys)
        self.cells = _added(self.cells, [d.sum(0), squares.sum(0), counts, counts])
        one, many = (_along_distances(x) for x in (d, known.to(d.dtype)))  # (batch, heads or 1, distances)
        sums = [x.sum(0) for x in (one, one.square(), many, many.square())]
        self.distances = _added(self.distances, sums)

    def position(self) -> Tensor:
        """(heads,), not a number where the attention is the same everywhere."""
        return self._explained(self.cells)

    def distance(self) -> Tensor:
        return self._explained(self.distances)

    def _explained(self, sums: list[Tensor]) -> Tensor:
        d, squares, counts, counts_squared = (x.double() for x in sums)
        pairs = counts.square() - counts_squared  # of different texts
        cross = ((d.square() - squares) * counts / pairs).where(pairs > 0, 0.0)
        total = torch.as_tensor(self.total)
        some = (cross != 0).flatten(1).any(-1) & (total > _CONSTANT * counts.flatten(1).sum(-1))
        return (cross.flatten(1).sum(-1) / total).where(some, math.nan)


def _added(sums: list[Tensor], more: list[Tensor]) -> list[Tensor]:
    return [a + b for a, b in zip(sums, more, strict=True)] if sums else more


def _along_distances(x: Tensor) -> Tensor:
    """Sums over the diagonals of (batch, heads, queries, keys): row i is moved by i places, and columns are summed."""
    *leading, queries, keys = x.shape
    width = queries + keys - 1
    padded = F.pad(x.flip(-1), (0, queries)).flatten(-2)
    return padded[..., : queries * width].reshape(*leading, queries, width).sum(-2)
