"""Role scores: how much of a head's attention is on the keys of a role, relative to chance.

A role defines for each query i a set T_i of visible keys. With the shares p_ij and n_i visible keys:

    s_i = Σ_{j in T_i} p_ij                   the attention on the set
    c_i = |T_i| / n_i                         the same under uniform attention
    excess = Σ_i (s_i − c_i) / Σ_i (1 − c_i)  of each text: 0 chance, 1 all attention, below 0 less than chance

over the queries with 0 < |T_i| < n_i and nonzero mass. `RoleReading` computes them on texts, batch by batch.

`PlaceShare` measures whether position or content determines attention. With d_tij = p_tij − 1 / n_i in text t, and
means taken over pairs of *different* texts, so that differences between texts explain nothing:

    position explains = Σ_ij (mean_{t≠u} d_tij d_uij) / Σ_ij (mean_t d_tij²)
    distance explains   the same with d averaged over all i and j of one distance i − j
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.corpora import Tokenizer
from attnlab.errors import InputError
from attnlab.lens.measures import Described
from attnlab.lens.taps import Inputs, LayerMaps, Place, See, attention_layers, check_tokens, look
from attnlab.models import LanguageModel

EXCERPT = 64  # tokens of a text
_EXCERPT_TOKENS = 256  # of all texts, unless two have more
_CONSTANT = 1e-14  # a variance of shares that is only rounding error


@dataclass(frozen=True, eq=False)
class TokenPairs:
    """The tokens of queries (batch, queries) and of keys (batch, keys), and which tokens are delimiters."""

    queries: Tensor
    keys: Tensor
    delimiters: Tensor  # (vocabulary,), True for a delimiter
    crosses: bool = False

    @property
    def distance(self) -> Tensor:
        """Return i − j, (queries, keys)."""
        i, j = (torch.arange(x.shape[1], device=x.device) for x in (self.queries, self.keys))
        return i[:, None] - j


Where = Callable[[TokenPairs], Tensor]


@dataclass(frozen=True)
class Role(Described):
    """`where` returns the sets, (batch or 1, queries, keys), True for a key in T_i."""

    where: Where
    repeated: bool = False  # measured on repeated random tokens, where nothing else tells the keys apart
    within: bool = True  # meaningful only in self-attention


def _at(distance: int) -> Where:
    return lambda pairs: (pairs.distance == distance)[None]


def _first(pairs: TokenPairs) -> Tensor:
    first = torch.zeros_like(pairs.distance, dtype=torch.bool)
    first[0 if pairs.crosses else 1 :, 0] = True  # for the first token itself, it is the own token
    return first[None]


def _same(pairs: TokenPairs) -> Tensor:
    return (pairs.queries[:, :, None] == pairs.keys[:, None, :]) & (pairs.distance != 0)


def _induction(pairs: TokenPairs) -> Tensor:
    found = torch.zeros(len(pairs.keys), *pairs.distance.shape, dtype=torch.bool, device=pairs.keys.device)
    found[:, :, 1:] = pairs.queries[:, :, None] == pairs.keys[:, None, :-1]
    return found & (pairs.distance != 0) & (pairs.distance != -1)  # the token right after the query does not count


def _delimiter(pairs: TokenPairs) -> Tensor:
    found = pairs.delimiters[pairs.keys].clone()
    found[:, 0] = False  # the first token may be a sink, whatever it is
    return found[:, None, :].expand(-1, pairs.queries.shape[1], -1)


ROLES: Mapping[str, Role] = MappingProxyType(
    {
        "previous token": Role("attention to the token before the query's", "excess", _at(1)),
        "first token": Role("attention to the first token: a sink", "excess", _first, within=False),
        "own token": Role("attention to the query's own token", "excess", _at(0)),
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
    """Return the share, the chance and the excess in each of these sets, of each text and head.

    The result is (batch, heads, sets, 3), NaN without queries that count.
    """
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
    """How much of one layer's maps position and distance explain; texts are added batch by batch."""

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
        """Return the share that position explains, (heads,), NaN where attention is uniform everywhere."""
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
    """Return sums over the diagonals of (batch, heads, queries, keys): row i is moved by i, and columns are summed."""
    *leading, queries, keys = x.shape
    width = queries + keys - 1
    padded = F.pad(x.flip(-1), (0, queries)).flatten(-2)
    return padded[..., : queries * width].reshape(*leading, queries, width).sum(-2)


# Texts


class RoleReading:
    """Texts by name, and the role scores of a model on them; roles of repetition are scored on "repeated"."""

    def __init__(self, model: LanguageModel, delimiters: Tensor, of: Place) -> None:
        self.model, self.delimiters, self.of = model, delimiters, of
        self.texts: dict[str, Inputs] = {}

    def add(self, name: str, inputs: Inputs) -> None:
        for one in (inputs.tokens, inputs.source):
            if one is not None:
                check_tokens(self.model, one)
        self.texts[name] = inputs.change(lambda one: one.to(self.delimiters.device))

    def excerpt(self) -> RoleReading:
        """Return the beginnings of some texts, few enough to be read many times quickly."""
        found = RoleReading(self.model, self.delimiters, self.of)
        for name, inputs in self.texts.items():
            rows = max(2, _EXCERPT_TOKENS // min(inputs.tokens.shape[1], EXCERPT))
            found.texts[name] = next(inputs.parts(rows)).change(lambda one: one[:, :EXCERPT])
        return found

    def scores(self, model: LanguageModel, also: See | None = None) -> dict[str, list[Tensor]]:
        """Return for each role and layer (texts, heads, 3), NaN where nothing can be measured.

        `also` is called with the maps of texts that are not repeated tokens.
        """
        heads = [layer.spec.observed_heads for layer in attention_layers(model, self.of)]
        found: dict[str, list[list[Tensor]]] = {role: [[] for _ in heads] for role in ROLES}
        for name, inputs in self.texts.items():
            roles = {role: one for role, one in ROLES.items() if one.repeated == (name == "repeated")}
            for part in inputs.few_weights(self.model, self.of):
                pairs = self._pairs(part)
                where = {role: one.where(pairs) for role, one in roles.items() if not (one.within and pairs.crosses)}

                def see(
                    layer: int, maps: LayerMaps, where: Mapping[str, Tensor] = where, first: bool = name == "texts"
                ) -> None:
                    if maps.weights is None:
                        return
                    for role, one in zip(where, score(maps, *where.values()).unbind(2) if where else (), strict=True):
                        found[role][layer].append(one.cpu())
                    if also is not None and first:
                        also(layer, maps)

                look(model, part, see, of=self.of)
        nothing = torch.full((1, 1, 3), math.nan, dtype=torch.float64)
        return {
            role: [torch.cat(kept) if kept else nothing.expand(1, h, 3) for kept, h in zip(layers, heads, strict=True)]
            for role, layers in found.items()
        }

    def _pairs(self, inputs: Inputs) -> TokenPairs:
        source = inputs.tokens if inputs.source is None else inputs.source
        queries = source if self.of == "encoder" else inputs.tokens
        keys = inputs.tokens if self.of == "self" else source
        return TokenPairs(queries, keys, self.delimiters, self.of == "cross")


def repeated_tokens(vocabulary_size: int, texts: int, length: int, *, seed: int = 0) -> Tensor:
    """Return random tokens that repeat, (texts, length): each text with its own period, from a quarter to a half of
    the length. Within a period no token occurs twice, if the vocabulary is large enough.

    Parameters
    ----------
    vocabulary_size
        Number of tokens to draw from.
    texts
        How many rows.
    length
        Tokens of each.
    seed
        The random seed; the same seed gives the same result.
    """
    if length < 4 or texts < 1:
        raise InputError(f"{texts} texts of {length} tokens cannot repeat anything", hint="use 4 tokens or more")
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(texts):
        period = int(torch.randint(length // 4 + 1, length // 2 + 1, (), generator=generator))
        enough = -(-period // vocabulary_size)
        drawn = torch.cat([torch.randperm(vocabulary_size, generator=generator) for _ in range(enough)])[:period]
        rows.append(drawn.repeat(-(-length // period))[:length])
    return torch.stack(rows)


def delimiter_tokens(tokenizer: Tokenizer) -> frozenset[int]:
    """Return the tokens that consist only of spaces, line ends and punctuation.

    Parameters
    ----------
    tokenizer
        The tokenizer.
    """
    every = ((token, tokenizer.decode([token])) for token in range(tokenizer.vocabulary_size))
    return frozenset(
        token
        for token, piece in every
        if piece and all(one.isspace() or unicodedata.category(one)[0] == "P" for one in piece)
    )


def marked(model: LanguageModel, delimiters: Collection[int]) -> Tensor:
    """Return a mask of the vocabulary, True for a delimiter."""
    size = model.spec.vocabulary_size
    odd = [token for token in delimiters if not 0 <= token < size]
    if odd:
        raise InputError(
            f"the delimiter {odd[0]} is no token: the model knows 0 to {size - 1}",
            hint="use delimiter_tokens with the tokenizer that the model was trained with",
        )
    marked = torch.zeros(size, dtype=torch.bool)
    marked[list(delimiters)] = True
    return marked.to(model.embedding.weight.device)
