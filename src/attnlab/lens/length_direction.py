"""Length or direction: what explains how much attention a key receives.

With r the attention that a key receives (`measures.py`; 1 is its fair share), k = |k| u the key, and j its position:

    log r  ~  log |k|                 its length
    log r  ~  u                       its direction
    log r  ~  a mean for each j       its position

Length and direction together also include k itself, as in q·k. The explained variance of each subset is the adjusted
R², 1 − (1 − R²) (n − 1) / (n − p − 1) for n keys and p terms, which is 0 on average if there is nothing to explain, for
any number of terms. Jointly explained variance is divided by Shapley values: a part gets the mean, over all orders of
the parts, of what it adds to those before it. So the three shares add up to the whole.

    length_or_direction(model, tokens)[0][2]       Explained(norm=…, direction=…, position=…, whole=…)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import permutations

import torch
from torch import Tensor

from attnlab.errors import InputError
from attnlab.lens.measures import received
from attnlab.lens.taps import Given, Inputs, LayerMaps, Place, attention_layers, look
from attnlab.models import LanguageModel

PARTS = ("norm", "direction", "position")
_ROUNDING = 1e-10  # of the largest eigenvalue, below which a term depends linearly on others
_CONSTANT = 1e-12  # a variance of logarithms that is only rounding error


@dataclass(frozen=True)
class ExplainedPart:
    """A share of the variance of log r: its Shapley value, alone, and beyond what the other two explain."""

    share: float
    alone: float
    beyond: float


@dataclass(frozen=True)
class Explained:
    """The three shares, and all that they explain together, which is their sum."""

    norm: ExplainedPart
    direction: ExplainedPart
    position: ExplainedPart
    whole: float
    keys: int  # that other tokens see, and that receive attention


def length_or_direction(model: LanguageModel, inputs: Given, *, of: Place = "self") -> list[list[Explained | None]]:
    """Return what explains the attention that keys receive, for each layer and head.

    None where there are no keys or no map, nothing varies, or there are fewer keys than terms.

    Parameters
    ----------
    model
        The model.
    inputs
        Tokens (rows, tokens), or a batch; all rows are of one length.
    of
        Which attention: `self`, `cross` or `encoder`.
    """
    inputs = Inputs.of(inputs)
    if len(inputs.tokens) < 2:
        raise InputError(
            f"texts: {len(inputs.tokens)}; one alone has no other key at the same position",
            hint="give two rows or more",
        )
    layers = attention_layers(model, of)
    kept: list[list[tuple[Tensor, Tensor]]] = [[] for _ in layers]

    def see(layer: int, maps: LayerMaps) -> None:
        if maps.weights is not None and maps.keys is not None:
            kept[layer].append((_received(maps).log().double().cpu(), maps.keys.double().cpu()))

    for some in inputs.few_weights(model, of):
        look(model, some, see, of=of)
    found: list[list[Explained | None]] = []
    for layer, parts in zip(layers, kept, strict=True):
        if not parts:
            found.append([None] * layer.spec.observed_heads)
            continue
        attention, keys = (torch.cat(both) for both in zip(*parts, strict=True))
        found.append([explain(attention[:, head], keys[:, head]) for head in range(attention.shape[1])])
    return found


def _received(maps: LayerMaps) -> Tensor:
    """Return r; in cross-attention over all queries, as none of them is the key's own token."""
    if not maps.crosses:
        return received(maps)
    seen = maps.pairs & maps.shares.isfinite()
    return (maps.shares * maps.num_visible[..., None]).where(seen, 0.0).sum(-2) / seen.sum(-2)


def explain(attention: Tensor, keys: Tensor) -> Explained | None:
    """Explain log r (texts, keys) by k (texts, keys, width) in one head."""
    length = keys.norm(dim=-1)
    known = attention.isfinite() & (length > 0)
    place = torch.arange(attention.shape[1]).expand_as(attention)[known]
    y, k, size = attention[known], keys[known], length[known]
    terms = {"norm": size.log()[:, None], "direction": k / size[:, None]}
    values = {frozenset[str](): 0.0}
    for subset in ({"norm"}, {"direction"}, {"position"}, {*PARTS[:2]}, {*PARTS[1:]}, {*PARTS[::2]}, {*PARTS}):
        columns = [terms[name] for name in PARTS[:2] if name in subset]
        if {"norm", "direction"} <= subset:
            columns.append(k / size.mean())
        x = torch.cat(columns, dim=1) if columns else y.new_zeros(len(y), 0)
        value = _adjusted(y, x, place if "position" in subset else torch.zeros_like(place))
        if value is None:
            return None
        values[frozenset(subset)] = value
    parts = {name: _part(name, values) for name in PARTS}
    return Explained(**parts, whole=values[frozenset(PARTS)], keys=len(y))


def _part(name: str, values: dict[frozenset[str], float]) -> ExplainedPart:
    gains = []
    for order in permutations(PARTS):
        before = frozenset(order[: order.index(name)])
        gains.append(values[before | {name}] - values[before])
    every = frozenset(PARTS)
    shapley = math.fsum(gains) / len(gains)
    return ExplainedPart(shapley, values[frozenset({name})], values[every] - values[every - {name}])


def _adjusted(y: Tensor, x: Tensor, group: Tensor) -> float | None:
    """Return the adjusted R² of a mean for each group and the columns of x; None if y is constant or too short."""
    if not len(y):
        return None
    total = float((y - y.mean()).square().sum())
    y, x = _centred(y[:, None], group), _centred(x, group)
    squares = x.square().sum(0)
    x = x[:, squares > _CONSTANT * len(x)]
    x = x / x.square().sum(0).sqrt()
    eigenvalues, vectors = torch.linalg.eigh(x.t() @ x)
    used = eigenvalues > _ROUNDING * eigenvalues.amax() if x.shape[1] else torch.zeros(0, dtype=torch.bool)
    along = (x @ vectors[:, used]).t() @ y
    left = float(y.square().sum() - (along[:, 0].square() / eigenvalues[used]).sum())
    free = len(y) - len(set(group.tolist())) - int(used.sum())
    if free <= 0 or total <= _CONSTANT * len(y):
        return None
    return 1 - (left / free) / (total / (len(y) - 1))


def _centred(x: Tensor, group: Tensor) -> Tensor:
    """Return x (keys, columns) minus its mean in each group."""
    size = int(group.max()) + 1
    counts = torch.zeros(size, dtype=x.dtype).index_add_(0, group, torch.ones_like(group, dtype=x.dtype))
    sums = torch.zeros(size, x.shape[1], dtype=x.dtype).index_add_(0, group, x)
    return x - (sums / counts.clamp(min=1)[:, None])[group]
