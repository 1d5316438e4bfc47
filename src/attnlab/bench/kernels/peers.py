"""Public implementations to measure against: the `entmax` package, which computes from a materialised score matrix."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial

from torch import Tensor

from attnlab.attention import AttentionSpec, Entmax, Entmax15, Matched, Normaliser, Sparsemax, Visibility
from attnlab.attention.reference import scores

PEER = "entmax"

# It gives NaN for a row that holds −∞, so what is hidden gets a score that is finite, and lower than any other.
_HIDDEN = -1e6


def peer_is_installed() -> bool:
    return importlib.util.find_spec(PEER) is not None


def has_peer(spec: AttentionSpec) -> bool:
    """Whether the package computes this normaliser."""
    if spec.operator is not None:
        return False
    normaliser = spec.normaliser
    return isinstance(normaliser, Sparsemax | Entmax15) or (isinstance(normaliser, Entmax) and normaliser.alpha > 1)


def peer_attend(given: Matched, value: Tensor, spec: AttentionSpec, visibility: Visibility) -> Tensor:
    """Attention with the package's normaliser, (batch, heads, queries, value width)."""
    visible = visibility.grid(value.device)
    weights = _normalise(spec.normaliser)(scores(given, spec, value).masked_fill(~visible, _HIDDEN))
    return weights @ value


def _normalise(normaliser: Normaliser) -> Callable[[Tensor], Tensor]:
    import entmax  # an extra, which need not be installed

    if isinstance(normaliser, Sparsemax):
        return partial(entmax.sparsemax, dim=-1)
    if isinstance(normaliser, Entmax15):
        return partial(entmax.entmax15, dim=-1)
    assert isinstance(normaliser, Entmax)
    return partial(entmax.entmax_bisect, alpha=normaliser.alpha, dim=-1)
