"""The memory of serving a model: weights, the cache of the batch, and the tensors of the pass that needs the most.

A server reads the prompts one after another and decodes all sequences together. With B sequences, a context of N
tokens, and the widths D of the model and M of the MLP:

    weights    all parameters
    cache      the cache of B sequences after N tokens
    working    the larger of two, each with its logits in float32:
               prefill     N tokens of one sequence in one block: the residual stream before and after attention, and
                           either all that attention would keep for its backward pass, or the MLP's input, output
                           and 2 N M hidden numbers (3 N M if it is gated)
               decoding    B tokens in one MLP

Without a backward pass nothing is kept, so attention's working memory is an upper bound. An encoder processes all B
sequences at once, has logits for every token, and caches nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from attnlab.cost.activations import kept_for_backward
from attnlab.cost.attention import AttentionCost
from attnlab.cost.block import mlp_shapes
from attnlab.cost.call import AttentionCall
from attnlab.cost.tensors import named_tensors
from attnlab.models import ModelSpec

_LOGIT_BYTES = 4


@dataclass(frozen=True)
class ServingMemory:
    """The memory of serving, in bytes."""

    weights: int
    cache: int
    working: int

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.working


def serving_memory(spec: ModelSpec, *, batch: int = 1, bytes_per_number: int = 4) -> ServingMemory:
    """Return the memory that a batch of sequences as long as the context takes.

    Parameters
    ----------
    spec
        The specification of the model.
    batch
        Sequences in a batch.
    bytes_per_number
        Bytes per number: 4 for float32, 2 for bfloat16.
    """
    tokens, stream = spec.context_length, spec.model_width * bytes_per_number
    encodes = spec.family == "encoder"
    read = batch if encodes else 1  # sequences in one prefill
    calls = {AttentionCall(one, read, tokens, tokens, bytes_per_number) for one in spec.attention}
    attention = max(sum(kept_for_backward(call).bytes_by_part.values()) for call in calls)
    inner = 2 * stream + len(mlp_shapes(spec)) * spec.mlp_width * bytes_per_number  # of one token in an MLP
    logits = spec.vocabulary_size * _LOGIT_BYTES
    rows = read * tokens
    prefill = 2 * rows * stream + max(attention, rows * inner) + logits * (rows if encodes else 1)
    decoding = batch * (2 * stream + inner + logits)
    return ServingMemory(
        weights=sum(tensor.parameters for tensor in named_tensors(spec)) * bytes_per_number,
        cache=0 if encodes else cache_bytes(spec, batch, tokens, bytes_per_number),
        working=max(prefill, decoding),
    )


def cache_bytes(spec: ModelSpec, batch: int, tokens: int, bytes_per_number: int) -> int:
    """Return the cache of a batch after so many tokens."""
    total = 0
    for one, layers in Counter(spec.attention).items():
        call = AttentionCall(one, batch, tokens, tokens, bytes_per_number)
        total += layers * AttentionCost((), call, True).cache_bytes(tokens)
    return total
