"""Masks between Transformers and attnlab.

Transformers calls a mask function once per forward pass, and passes its result to the attention function of every
layer. `make_mask` is that mask function: it returns a boolean (batch, 1, queries, keys), True where a query may attend,
or None where position alone decides, so that the kernels can exploit the structure of the mask. `read_mask` interprets
the mask in the attention function:

    None, in a causal module          causal, and the queries are the last of the keys
    None, in a bidirectional one      everything is visible
    a boolean mask                    used as it is
    an additive mask of 0 and −∞      the same, for masks that users pass; any other number in it is refused
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnlab.attention import Mask, Visibility
from attnlab.errors import InputError, UnsupportedError

_BY_CAUSALITY = {True: Mask(), False: Mask(causal=False)}  # made once: `torch.compile` cannot make them
_HIDDEN = -1e4  # in an additive mask, a number below this hides; its value depends on the dtype and on the model


def make_mask(
    *, allow_is_causal_skip: bool = True, allow_is_bidirectional_skip: bool = False, **asked: Any
) -> Tensor | None:
    """Return the mask that is asked for, or None where position alone decides: a function for `AttentionMaskInterface`.

    The two flags say that the requested pattern is causal, or bidirectional, apart from padding.
    """
    from transformers.masking_utils import sdpa_mask

    plain = (allow_is_causal_skip and _queries_come_last(asked)) or allow_is_bidirectional_skip
    if plain and _all_in_reach(asked) and _nothing_padded(asked):
        return None
    mask: Tensor | None = sdpa_mask(allow_is_causal_skip=False, allow_is_bidirectional_skip=False, **asked)
    return mask


def _queries_come_last(asked: Mapping[str, Any]) -> bool:
    """Return whether the queries come last: False where the offset is a tensor, which must not be waited for."""
    first = asked.get("q_offset")
    return type(first) is int and first + asked["q_length"] == asked.get("kv_offset", 0) + asked["kv_length"]


def _all_in_reach(asked: Mapping[str, Any]) -> bool:
    """Return whether a sliding window or chunk, if there is one, is longer than the sequence."""
    reach = asked.get("local_size")
    return reach is None or asked.get("kv_offset", 0) + asked["kv_length"] < reach


def _nothing_padded(asked: Mapping[str, Any]) -> bool:
    padding = asked.get("attention_mask")
    if padding is None:
        return True
    if torch.compiler.is_compiling():  # where tensor values cannot be read
        return False
    start = asked.get("kv_offset", 0)
    stop = start + asked["kv_length"]
    return padding.shape[-1] >= stop and bool(padding[:, start:stop].all())


@dataclass(frozen=True)
class View:
    """Which keys the queries of one call may attend to: a structural mask, combined with padding or a pattern."""

    mask: Mask
    query_start: int = 0
    visible: Tensor | None = None  # (batch or 1, heads or 1, queries, keys)
    padding: Tensor | None = None  # (batch, keys)


def read_mask(
    given: Tensor | None, num_queries: int, num_keys: int, *, causal: bool, own: Mask | None, by_distance: bool
) -> View:
    """Return the product of the model's mask and the variant's `own`.

    `by_distance` says that positions matter, because of `own` or of a bias; otherwise the given mask suffices.
    """
    if given is None:
        if num_keys < num_queries and causal:
            raise InputError(
                f"{num_queries} queries against {num_keys} keys in a causal module, and no mask",
                hint="give an attention_mask of shape (batch, 1, queries, keys), True for visible",
            )
        return View(_product(causal, own), num_keys - num_queries if causal else 0)
    visible = _as_visible(given, num_queries, num_keys)
    start = first_position(visible) if by_distance and causal else 0
    return View(own or _BY_CAUSALITY[False], start, visible)


def as_padding(view: View, batch: int, *, causal: bool) -> View:
    """Return the same view as causality × padding alone, for an operator, which takes no other pattern."""
    if view.visible is None:
        return view
    visible, mask = view.visible, _BY_CAUSALITY[causal]
    start = first_position(visible) if causal else 0
    padding = visible.any(dim=1).any(dim=1)  # a key that some query sees is real
    whole = Visibility(mask, visible.shape[2], visible.shape[3], start, padding).grid(visible.device)
    if not bool((visible == whole).all()):
        raise UnsupportedError(
            "an operator sums over all real tokens, and this mask hides more than the future and padding",
            hint="use a variant with attention weights for sliding windows, packed sequences or your own masks",
        )
    return View(mask, start, None, padding.expand(batch, -1))


def first_position(visible: Tensor) -> int:
    """Return the position of the first query among the keys, in a causal mask: the last key a query sees is its own.

    A static cache has more key slots than tokens, so the number of keys does not give the position. A query that is
    padding may not see itself, hence the maximum over all queries.
    """
    queries, keys = visible.shape[2:]
    if queries == keys:
        return 0
    numbers = torch.arange(1, keys + 1, device=visible.device)
    last = (visible.flatten(0, 1).any(dim=0) * numbers).amax(dim=-1) - 1  # (queries,), −1 if it sees nothing
    start = (last - torch.arange(queries, device=visible.device)).masked_fill(last < 0, -1).amax()
    return min(max(int(start), 0), max(keys - queries, 0))


def _product(causal: bool, own: Mask | None) -> Mask:
    """Return the product of the model's causality and the variant's mask."""
    if own is None:
        return _BY_CAUSALITY[causal]
    if causal and not own.causal and own.window is not None:  # the past half of a window around the query
        return Mask(window=own.window // 2 + 1)
    return own


def _as_visible(given: Tensor, num_queries: int, num_keys: int) -> Tensor:
    """Return a mask of Transformers as a boolean pattern, (batch or 1, heads or 1, queries, keys)."""
    if given.dim() != 4 or given.shape[3] != num_keys or given.shape[2] not in (1, num_queries):
        raise InputError(
            f"attention_mask has shape {tuple(given.shape)}, not (batch, 1, {num_queries} queries, {num_keys} keys)",
            hint="give the model (batch, keys) with 1 for each real token, or the full shape, True for visible",
        )
    given = given.expand(-1, -1, num_queries, -1)
    if given.dtype == torch.bool:
        return given
    visible = given > _HIDDEN
    if not given.is_floating_point() or bool((visible & (given != 0)).any()):
        raise UnsupportedError(
            f"this attention_mask of type {given.dtype} adds numbers to the scores, and a variant takes only what is "
            "visible and what is not",
            hint="give a boolean mask, True for visible; a model with a bias of its own needs `eager` or `sdpa`",
        )
    return visible
