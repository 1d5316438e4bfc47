"""Small-scale attention, as on a blackboard: one head on plain matrices, one layer step by step, and closed formulas.

    output, weights = one_head(Q, K, V)                 softmax(Q Kᵀ / √D_k) V, every query sees every key
    output, weights = one_head(q, K, V, score=Dot())    softmax(K q) V
    steps = follow(layer, x)                            q, k, v → s = factor · score(q, k) → p = normalise(s) → o = p v

    weight_entropy    H(p) = −Σ p_j log p_j       entropy in nats: log n for n equal weights, 0 for one alone
    softmax_slope     S(p) = Σ ∂p_j / ∂s_j        of a softmax: Σ p_j (1 − p_j), 0 once it is saturated

For q and k with D_k independent normal components each, of mean μ and standard deviation σ:

    E[q·k] = D_k μ²,   Var(q·k) = D_k (σ⁴ + 2 μ² σ²)

Attention is computed by its definition (`reference.py`), in the dtype of the inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnlab.attention import reference
from attnlab.attention.functional import attend, finish
from attnlab.attention.groups import for_every_query_head
from attnlab.attention.layer import MultiHeadAttention
from attnlab.attention.parts.masks import Mask, Visibility
from attnlab.attention.parts.normalisers import Normaliser, Softmax
from attnlab.attention.parts.scores import Matched, ScaledDot, Score
from attnlab.attention.spec import AttentionSpec
from attnlab.errors import InputError, UnsupportedError

_SCALED, _SOFTMAX, _EVERYTHING = ScaledDot(), Softmax(), Mask(causal=False)
_NUMBERS = 1 << 22  # drawn at a time


def one_head(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: Score = _SCALED,
    normaliser: Normaliser = _SOFTMAX,
    mask: Mask = _EVERYTHING,
) -> tuple[Tensor, Tensor]:
    """Return the output (…, queries, value width) and the weights (…, queries, keys) of one head.

    Parameters
    ----------
    query
        (…, queries, key width), or (key width) for one query, which then gets one output and one row of weights.
    key
        (…, keys, key width).
    value
        (…, keys, value width). Leading dimensions are broadcast, as for many draws of keys with one query.
    score
        How query and key are matched.
    normaliser
        How scores become weights.
    mask
        Which keys a query sees; all by default.
    """
    alone = query.dim() == 1
    matrices = [query[None] if alone else query, key, value]
    if min(matrix.dim() for matrix in matrices) < 2:
        raise InputError(
            "keys and values are matrices, a row for each token", hint="give key and value of 2 dimensions"
        )
    try:
        # PyTorch's own imports SymPy: 43 MB.
        shape = np.broadcast_shapes(*(matrix.shape[:-2] for matrix in matrices))
    except ValueError:
        raise InputError(
            f"query, key and value of shapes {[tuple(matrix.shape) for matrix in matrices]} do not fit together",
            hint="what stands before (tokens, width) must be equal, 1 or absent",
        ) from None
    q, k, v = (matrix.expand(*shape, *matrix.shape[-2:]).reshape(-1, 1, *matrix.shape[-2:]) for matrix in matrices)
    spec = AttentionSpec(
        model_width=key.shape[-1],
        num_heads=1,
        key_width=key.shape[-1],
        value_width=value.shape[-1],
        score=score,
        normaliser=normaliser,
        mask=mask,
    )
    output, weights = attend(q, k, v, spec, return_weights=True)
    output = output.reshape(*shape, *output.shape[-2:])
    weights = weights.reshape(*shape, *weights.shape[-2:])
    return (output[..., 0, :], weights[..., 0, :]) if alone else (output, weights)


@dataclass(frozen=True)
class LayerSteps:
    """Everything that one layer computes for one sequence, by head. Fields that a variant does not have are None."""

    query: Tensor | None  # (heads, tokens, key width), rotated by its position where the spec says so
    key: Tensor | None  # (key-value heads, tokens, key width), likewise
    value: Tensor  # (key-value heads, tokens, value width)
    scores: Tensor | None  # (heads, queries, keys)
    visible: Tensor  # (queries, keys), True where the query sees the key
    weights: Tensor | None  # (heads, queries, keys)
    output: Tensor  # (heads, queries, value width)


def follow(layer: MultiHeadAttention, x: Tensor, factor: float = 1.0) -> LayerSteps:
    """Follow one sequence, (tokens, model width), through a layer of self-attention, its scores times `factor`."""
    spec = layer.spec
    if spec.source == "cross":
        raise UnsupportedError("only self-attention can be followed", hint='say source="self"')
    if x.dim() != 2:
        raise InputError(f"x has shape {tuple(x.shape)}, not (tokens, model width)", hint="give one sequence")
    query, key, value = layer.place(*layer.project(x[None]))
    extras = layer.learned(x[None])
    visibility = Visibility(spec.mask, len(x), len(x))
    visible = visibility.grid(x.device).expand(1, 1, -1, -1)[0, 0]
    if spec.operator is not None or spec.normaliser.maps > 1:
        if factor != 1:
            raise UnsupportedError(
                f"{spec.operator or spec.normaliser} has no scores to multiply", hint="leave scale and temperature at 1"
            )
        shown = None
        if spec.operator is None:
            output, shown = attend(query, key, value, spec, extras=extras, return_weights=True)
        else:
            output = attend(query, key, value, spec, extras=extras)
        return LayerSteps(_first(query), _first(key), value[0], None, visible, _first(shown), output[0])
    given = Matched(query, key, len(x), len(x), extras=extras)
    scores = factor * reference.scores(given, spec, value)
    weights = spec.normaliser.defined(scores, visible, **spec.own(spec.normaliser, extras))
    output = finish(weights.to(value.dtype) @ for_every_query_head(value, spec), spec, extras, value)
    return LayerSteps(_first(query), _first(key), value[0], scores[0], visible, weights[0], output[0])


def _first(vectors: Tensor | None) -> Tensor | None:
    return None if vectors is None else vectors[0]


def weight_entropy(weights: Tensor) -> Tensor:
    """Return the entropy H, in nats, of weights (…, keys) that sum to 1; 0 log 0 is 0."""
    entropy: Tensor = -torch.special.xlogy(weights, weights).sum(-1)
    return entropy


def softmax_slope(weights: Tensor) -> Tensor:
    """Return S = Σ ∂p_j / ∂s_j of the weights (…, keys) of a softmax."""
    return (weights * (1 - weights)).sum(-1)


def dot_mean(key_width: int, mean: float = 0.0) -> float:
    """Return E[q·k] for independent components.

    Parameters
    ----------
    key_width
        D_k.
    mean
        The mean of every component.
    """
    return key_width * mean**2


def dot_variance(key_width: int, mean: float = 0.0, deviation: float = 1.0) -> float:
    """Return Var(q·k) for independent components.

    Parameters
    ----------
    key_width
        D_k.
    mean
        The mean of every component.
    deviation
        Their standard deviation.
    """
    return key_width * (deviation**4 + 2 * mean**2 * deviation**2)


def draw_scores(
    rows: int,
    keys: int,
    key_width: int,
    *,
    mean: float = 0.0,
    deviation: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return q·k of one new query and `keys` new keys in each row, (rows, keys), in float64.

    Parameters
    ----------
    rows
        Number of queries.
    keys
        Keys of each query.
    key_width
        D_k.
    mean
        The mean of every component.
    deviation
        Their standard deviation.
    generator
        The random number generator; None uses PyTorch's default.
    """
    if min(rows, keys, key_width) < 1:
        raise InputError(f"{rows} rows of {keys} keys of width {key_width} are none", hint="use 1 or more of each")
    found = []
    step = max(1, _NUMBERS // ((keys + 1) * key_width))
    for start in range(0, rows, step):
        shape = min(step, rows - start), keys + 1, key_width
        drawn = mean + deviation * torch.randn(shape, dtype=torch.float64, generator=generator)
        found.append((drawn[:, 1:] @ drawn[:, 0, :, None])[..., 0])
    return torch.cat(found)
