"""Measures of attention maps: numbers that are comparable across variants.

The rows of many variants do not sum to 1 (sigmoid, ReLU, softmax-plus-one, softpick). Therefore, with w_ij the weight
of query i on key j, n_i the number of keys that the query sees, and all sums over visible keys only:

    m_i  = Σ_j w_ij                        the row's mass
    p_ij = w_ij / m_i                      shares, which do sum to 1
    H_i  = −Σ_j p_ij log p_ij              entropy in nats
    r_j  = mean over i of n_i p_ij         the attention that a key receives: 1 is its fair share; mean over the
                                           queries that see it, without its own

A measure is computed on each batch separately and keeps one number for each text, head, and query or key; these are
reduced to one number per head after all texts. So the batch size changes no result.

    MEASURES["entropy"](maps)              (heads,), NaN where there is nothing to measure
    measure(model, corpus)["entropy"]      the mean over all heads of all layers, None where there is nothing to measure
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import torch
from torch import Tensor

from attnlab.corpora import Corpus
from attnlab.errors import InputError
from attnlab.lens.taps import LayerMaps, look
from attnlab.models import LanguageModel

ROWS = 64
_CONSTANT = 1e-12  # a variance of logarithms that is only rounding error


@dataclass(frozen=True)
class Described:
    """The meaning of a number, and its unit."""

    meaning: str
    unit: str


def _mean(observed: Tensor) -> Tensor:
    """Return the mean without NaN, (texts, heads, queries or keys) → (heads,)."""
    return observed.double().nanmean((0, 2))


@dataclass(frozen=True)
class Measure(Described):
    """`observe` returns (batch, heads, queries or keys, …), NaN for what is left out, or None where the layer has
    nothing to observe; `reduce` makes (heads,) of the observations of all texts."""

    observe: Callable[[LayerMaps], Tensor | None]
    reduce: Callable[[Tensor], Tensor] = _mean

    def __call__(self, maps: LayerMaps) -> Tensor:
        """Return the measure of each head, (heads,), on one batch of a layer that has a map."""
        observed = self.observe(maps)
        return _nothing(maps.map.shape[1]) if observed is None else self.reduce(observed)


def _nothing(heads: int) -> Tensor:
    return torch.full((heads,), math.nan, dtype=torch.float64)


# Of rows: (batch, heads, queries)


def row_mass(maps: LayerMaps) -> Tensor:
    """Return m_i, of every query that sees a key."""
    return maps.map.sum(-1).where(maps.num_visible > 0, math.nan)


def _nats(maps: LayerMaps) -> Tensor:
    """Return H_i, NaN for rows without a meaningful entropy: those with one visible key, and those without mass."""
    nats: Tensor = torch.special.entr(maps.shares).sum(-1)
    return nats.where(maps.num_visible > 1, math.nan)


def entropy(maps: LayerMaps) -> Tensor:
    """Return H_i / log n_i."""
    return _nats(maps) / maps.num_visible.clamp(min=2).to(maps.map.dtype).log()


def entropy_left_out(maps: LayerMaps) -> Tensor:
    """Return 1 for a row that is excluded from the entropy, 0 for one that is included."""
    return _nats(maps).isnan().to(maps.map.dtype).where(maps.num_visible > 0, math.nan)


def effective_keys(maps: LayerMaps) -> Tensor:
    """Return the effective number of keys, e^H_i: n for a row of n equal weights."""
    return _nats(maps).exp()


def sparsity(maps: LayerMaps) -> Tensor:
    """Return the share of the visible keys whose weight is exactly 0."""
    zeros = ((maps.map == 0) & maps.pairs).sum(-1)
    return zeros / maps.num_visible  # 0 / 0 is NaN


def first_token_share(maps: LayerMaps) -> Tensor:
    """Return p_i0, of the queries after the first that see the first key."""
    counts = maps.pairs[..., 0].clone()
    counts[..., 0] = False
    return maps.shares[..., 0].where(counts, math.nan)


# Of keys: (batch, heads, keys)


def received(maps: LayerMaps) -> Tensor:
    """Return r_j, over the rows that have mass. NaN for a key that no other token of such a row sees."""
    others = maps.pairs & ~torch.eye(len(maps.visible), dtype=torch.bool, device=maps.visible.device)
    shares = maps.shares
    others = others & shares.isfinite()
    fair = (shares * maps.num_visible[..., None]).where(others, 0.0)
    return fair.sum(-2) / others.sum(-2)


def keys_without_attention(maps: LayerMaps) -> Tensor:
    """Return 1 for a key that no other token gives any attention, 0 for one that gets some."""
    found = received(maps)
    return (found == 0).to(found.dtype).where(found.isfinite(), math.nan)


def _attention_and_length(maps: LayerMaps) -> Tensor | None:
    """Return log r_j and log |k_j|, (batch, heads, keys, 2)."""
    if maps.keys is None:
        return None
    return torch.stack([received(maps).log(), maps.keys.norm(dim=-1).log()], dim=-1)


def correlation(observed: Tensor, *, at_position: bool = True) -> Tensor:
    """Return the correlation of log r and log |k| in each head, (texts, heads, keys, 2) → (heads,).

        ρ = Σ a b / √(Σ a² Σ b²),    a_tj = log r_tj − mean over t of log r_tj,    b_tj the same for log |k_tj|

    over the texts t and keys j. Subtracting the mean at the same position over texts removes the effect of position on
    both. With `at_position=False` the mean over all positions is subtracted instead. Keys that receive nothing have no
    logarithm and are left out. NaN where one of the two does not vary.
    """
    observed = observed.double()
    known = observed.isfinite().all(-1, keepdim=True)
    over = (0,) if at_position else (0, 2)
    mean = observed.where(known, 0.0).sum(over, keepdim=True) / known.sum(over, keepdim=True).clamp(min=1)
    a, b = (observed - mean).where(known, 0.0).unbind(-1)
    variances, count = [x.square().sum((0, 2)) for x in (a, b)], known.sum((0, 2, 3))
    varies = torch.stack(variances).amin(0) > _CONSTANT * count
    return ((a * b).sum((0, 2)) / (variances[0] * variances[1]).sqrt()).where(varies, math.nan)


def _explained(observed: Tensor, *, at_position: bool) -> Tensor:
    return correlation(observed, at_position=at_position).square()


MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        "row mass": Measure("the sum of a row's weights: how much a query takes in at all", "", row_mass),
        "entropy": Measure(
            "how evenly a row spreads its weight over the keys it sees: 0 all on one, 1 the same on each",
            "of log n",
            entropy,
        ),
        "entropy left out": Measure(
            "rows without an entropy, because they see one key or have no mass", "share of rows", entropy_left_out
        ),
        "effective keys": Measure(
            "the effective number of keys: exp of the row's entropy, n for n equally weighted keys",
            "keys",
            effective_keys,
        ),
        "first-token share": Measure(
            "what of a row's mass lies on the first token, for later tokens that see it", "share", first_token_share
        ),
        "sparsity": Measure("visible keys with a weight of exactly 0", "share of keys", sparsity),
        "norm explains": Measure(
            "how much of the attention that a key receives its length explains, at the same position",
            "ρ²",
            _attention_and_length,
            partial(_explained, at_position=True),
        ),
        "norm explains, with position": Measure(
            "the same without taking out what the position explains of both",
            "ρ²",
            _attention_and_length,
            partial(_explained, at_position=False),
        ),
        "norm correlation": Measure(
            "whether long keys draw attention (above 0) or lose it (below 0), at the same position",
            "ρ",
            _attention_and_length,
            correlation,
        ),
        "keys without attention": Measure(
            "keys that no other token gives any weight, which have no part in what the norm explains",
            "share of keys",
            keys_without_attention,
        ),
    }
)


def measure(model: LanguageModel, corpus: Corpus, *, rows: int = ROWS, batch_size: int = 16) -> dict[str, float | None]:
    """Return the mean of every measure over heads, always on the same validation rows; None where no head has one.

    Parameters
    ----------
    model
        The model.
    corpus
        The corpus.
    rows
        Validation rows.
    batch_size
        Rows that are computed at a time.
    """
    layers = measure_heads(model, corpus, rows=rows, batch_size=batch_size)
    means = {name: torch.cat([layer[name] for layer in layers]).nanmean().item() for name in MEASURES}
    return {name: value if math.isfinite(value) else None for name, value in means.items()}


def measure_heads(
    model: LanguageModel, corpus: Corpus, *, rows: int = ROWS, batch_size: int = 16
) -> list[dict[str, Tensor]]:
    """Return for each layer every measure of its heads, (heads,), NaN where nothing can be measured.

    Parameters
    ----------
    model
        The model.
    corpus
        The corpus.
    rows
        Validation rows.
    batch_size
        Rows that are computed at a time.
    """
    if corpus.vocabulary_size > model.spec.vocabulary_size:  # it may be padded
        raise InputError(
            f"the corpus has {corpus.vocabulary_size} symbols and the model {model.spec.vocabulary_size}",
            hint="measure a model on the corpus that it was trained on",
        )
    observers = dict.fromkeys(one.observe for one in MEASURES.values())
    observed: list[dict[object, list[Tensor]]] = [{observe: [] for observe in observers} for _ in model.spec.attention]

    def see(layer: int, maps: LayerMaps) -> None:
        for observe in observers if maps.weights is not None else ():
            found = observe(maps)
            if found is not None:
                observed[layer][observe].append(found.cpu())

    length = model.spec.context_length
    for batch in corpus.validation_batches(batch_size=batch_size, context_length=length, limit=rows):
        look(model, batch, see)
    return [
        {
            name: one.reduce(torch.cat(parts)) if (parts := kept[one.observe]) else _nothing(spec.observed_heads)
            for name, one in MEASURES.items()
        }
        for kept, spec in zip(observed, model.spec.attention, strict=True)
    ]
