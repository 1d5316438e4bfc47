"""Reduction to fused softmax, wherever that is exact.

Softmax of any inner product is `scaled_dot_product_attention` itself. Softmax-plus-one is softmax with one more key and
value, both zero, whose score is then 0 for every query; when causal, a zero query stands in front too, so that the diagonal
stays where it is, and is dropped afterwards. If keys and values differ in width, the narrower are filled up with zeros.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from attnlab.attention.scores import InnerProduct


def fused_attention(logits: InnerProduct, value: Tensor, *, causal: bool, zero_key: bool) -> Tensor:
    """(batch, heads, queries, value width), without dropout."""
    query, key = logits.query, logits.key.expand(value.shape[0], -1, -1, -1)
    width, key_width = value.shape[-1], query.shape[-1]
    front = int(zero_key)
    wider = max(width, key_width)
    query = _padded(query, wider - key_width, front if causal else 0)
    key = _padded(key, wider - key_width, front)
    value = _padded(value, wider - width, front)
    output = F.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=logits.scale)
    return output[..., front if causal else 0 :, :width]


def _padded(vectors: Tensor, columns: int, rows: int) -> Tensor:
    """Zeros behind each vector, and zero vectors in front."""
    return F.pad(vectors, (0, columns, rows, 0)) if columns or rows else vectors
