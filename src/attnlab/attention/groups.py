"""Key and value heads that several query heads share.

Such a head is projected, saved for the backward pass and cached once. The queries of a group are stacked and multiplied
with their shared head in one matrix product, so that the gradient of this head is already summed over the group.

    (G heads, rows, width) · (1 head, keys, width)ᵀ   =   (1, G rows, width) · (1, keys, width)ᵀ

Heads are processed in runs that contain whole groups, or that lie within one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from attnlab.attention.spec import AttentionSpec


def for_every_query_head(vectors: Tensor, spec: AttentionSpec) -> Tensor:
    """Return (batch, heads, …) from key or value heads, repeated for the query heads that share them."""
    return repeated(vectors, spec.num_heads)


def repeated(vectors: Tensor, num_heads: int) -> Tensor:
    """Return (batch, num_heads, …) with each head repeated for its group; unchanged if there are num_heads heads."""
    group = num_heads // vectors.shape[1]
    return vectors if group == 1 else vectors.repeat_interleave(group, dim=1)


def run_length(most: int, group: int) -> int:
    """Return how many query heads to take at once, up to `most`: a multiple of the group, or a divisor of it."""
    if most >= group:
        return most - most % group
    return next(number for number in range(max(1, most), 0, -1) if group % number == 0)


def shared_by(heads: slice, group: int) -> slice:
    """Return the key or value heads that a run of query heads uses."""
    return heads if group == 1 else slice(heads.start // group, -(-heads.stop // group))


def stacked(vectors: Tensor, count: int) -> Tensor:
    """Return (count, more rows, width) from (heads, rows, width): the rows of a group below each other."""
    return vectors if vectors.shape[0] == count else vectors.reshape(count, -1, vectors.shape[-1])
