"""What autograd keeps of a model between its forward and its backward pass, apart from attention.

The one place that assumes how blocks are joined and how the loss is taken:

    a norm       keeps what goes into it, and the statistics of each row
    attention    keeps what `attention_cost` says, its input (what the norm made) included
    a perceptron keeps its input and what goes into φ; see `attnlab.models.mlp`
    residuals    keep nothing: a sum needs neither of its terms again
    the loss     keeps what the head reads, the logarithms of all probabilities, and the targets; or, where
                 `attnlab.models.loss` goes by chunks, the gradients that it has made already

Norms, perceptron and dropout are not stated by formulas: the real ones are called with tensors that have a shape and no
numbers. There the statistics of a LayerNorm are never kept in half precision, as on a GPU; a CPU keeps them so.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from attnlab.cost.activations import Ledger
from attnlab.cost.call import ModelCall
from attnlab.models import loss
from attnlab.models.blocks import make_norm
from attnlab.models.mlp import MLP

_INDEX_BYTES = 8  # of a token's number


@functools.lru_cache(maxsize=512)
def kept_outside_attention(call: ModelCall, tokens: int) -> dict[str, int]:
    """The bytes that one norm, one perceptron and the embedding's dropout keep of so many tokens a sequence."""
    spec = call.spec

    def fresh() -> Tensor:
        return torch.empty(call.batch, tokens, spec.model_width, dtype=call.dtype, requires_grad=True)

    with torch.device("meta"):
        modules = {"embedding dropout": nn.Dropout(spec.dropout), "norm": make_norm(spec), "mlp": MLP(spec)}
        ledger = Ledger(nn.ModuleList(modules.values()).to(call.dtype))
        for name, module in modules.items():
            with ledger.watch(name):
                module(fresh())
    return ledger.bytes_by_part()


def kept_by_embedding(call: ModelCall) -> int:
    """The tokens themselves, those of the source included."""
    return call.batch * (call.tokens + (call.source_tokens or 0)) * _INDEX_BYTES


def kept_by_loss(call: ModelCall) -> int:
    """The bytes that the head and the cross-entropy keep."""
    spec, rows, number = call.spec, call.batch * call.tokens, call.bytes_per_number
    hidden = rows * spec.model_width * number
    if rows > loss.rows_at_once(rows, spec.vocabulary_size, number):
        return hidden + spec.vocabulary_size * spec.model_width * number
    exact = max(4, number)  # bytes of what the loss is made from, which is never in half precision
    return hidden + rows * (spec.vocabulary_size * exact + _INDEX_BYTES) + exact  # the last: how many targets count
