"""Public implementations to measure against: the `entmax` package, which computes from a materialised score matrix."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial

from torch import Tensor

from attnlab.attention import AttentionSpec, Matched, Normaliser, Visibility
from attnlab.attention.reference import scores

PEER = "entmax"

# It gives NaN for a row that holds −∞, so what is hidden gets a score that is finite, and lower than any other.
_HIDDEN = -1e6


def peer_is_installed() -> bool:
    return importlib.util.find_spec(PEER) is not None


def has_peer(spec: AttentionSpec) -> bool:
    """Whether the package computes this normaliser."""
    return spec.operator is None and spec.normaliser.order is not None and spec.normaliser.order > 1


def peer_attend(given: Matched, value: Tensor, spec: AttentionSpec, visibility: Visibility) -> Tensor:
    """Attention with the package's normaliser, (batch, heads, queries, value width)."""
    visible = visibility.grid(value.device)
    weights = _normalise(spec.normaliser)(scores(given, spec, value).masked_fill(~visible, _HIDDEN))
    return weights @ value


def _normalise(normaliser: Normaliser) -> Callable[[Tensor], Tensor]:
    import entmax  # an extra, which need not be installed

    assert normaliser.order is not None
    exact = {2.0: entmax.sparsemax, 1.5: entmax.entmax15}.get(normaliser.order)
    return partial(exact, dim=-1) if exact else partial(entmax.entmax_bisect, alpha=normaliser.order, dim=-1)
