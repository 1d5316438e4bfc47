"""Reduction to fused softmax, wherever that is exact.

Softmax of an inner product is `scaled_dot_product_attention` itself. Softmax-plus-one is softmax with one more key and
value, both zero, whose score is then 0 for every query; when causal, a zero query stands in front too, so that the
diagonal stays where it is, and is dropped afterwards.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from attnlab.attention.scores import InnerProduct


def fused_attention(logits: InnerProduct, value: Tensor, *, causal: bool, zero_key: bool) -> Tensor:
    """(batch, heads, queries, value width), without dropout."""
    query, key, front = logits.query.to(value.dtype), logits.key.to(value.dtype), 0
    if zero_key:
        front = int(causal)
        query = F.pad(query, (0, 0, front, 0))
        key, value = F.pad(key, (0, 0, 1, 0)), F.pad(value, (0, 0, 1, 0))
    output = F.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=logits.scale)
    return output[..., front:, :]
