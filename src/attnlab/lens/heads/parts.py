"""What each head of an attention layer adds to the residual path.

    W_O (o_1, …, o_H) + b  =  Σ_h W_O[:, h] o_h  +  b         W_O[:, h] the columns of the head's values

Joined by their average, every head has all of W_O and a share of 1 / H; with a full value map there is no W_O.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.attention import MultiHeadAttention


def head_outputs(layer: MultiHeadAttention, heads: Tensor) -> Tensor:
    """(batch, heads, tokens, value width) → (batch, heads, tokens, model width), whose sum lacks only the bias."""
    spec = layer.spec
    share = 1 / spec.num_heads if spec.join == "average" else 1.0
    if layer.output is None:
        return heads * share
    weight = layer.output.weight
    if spec.join == "average":
        return heads @ weight.t() * share
    slices = weight.view(spec.model_width, spec.num_heads, spec.value_width)
    return torch.einsum("bhtv,dhv->bhtd", heads, slices)


def output_bias(layer: MultiHeadAttention) -> Tensor | None:
    """What the layer adds to every token besides its heads, (model width,)."""
    return None if layer.output is None else layer.output.bias
