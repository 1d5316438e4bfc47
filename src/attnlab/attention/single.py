"""One head of attention on plain matrices: what a person writes on a blackboard.

    output, weights = one_head(Q, K, V)                      softmax(Q Kᵀ / √D_k) V, every query sees every key
    output, weights = one_head(q, K, V, score=Dot())         softmax(K q) V

It is the definition (`reference.py`), in the type of what is given.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.attention.functional import attend
from attnlab.attention.parts.masks import Mask
from attnlab.attention.parts.normalisers import Normaliser, Softmax
from attnlab.attention.parts.scores import ScaledDot, Score
from attnlab.attention.spec import AttentionSpec
from attnlab.errors import InputError

_SCALED, _SOFTMAX, _EVERYTHING = ScaledDot(), Softmax(), Mask(causal=False)


def one_head(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    score: Score = _SCALED,
    normaliser: Normaliser = _SOFTMAX,
    mask: Mask = _EVERYTHING,
) -> tuple[Tensor, Tensor]:
    """The output (…, queries, value width) and the weights (…, queries, keys).

    query   (…, queries, key width), or (key width) for one query, which then gets one output and one row of weights
    key     (…, keys, key width)
    value   (…, keys, value width)

    What stands before is broadcast, as for many draws of the keys with the same query.
    """
    alone = query.dim() == 1
    matrices = [query[None] if alone else query, key, value]
    if min(matrix.dim() for matrix in matrices) < 2:
        raise InputError(
            "keys and values are matrices, a row for each token", hint="give key and value of 2 dimensions"
        )
    try:
        shape = torch.broadcast_shapes(*(matrix.shape[:-2] for matrix in matrices))  # type: ignore[no-untyped-call]
    except RuntimeError:
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
