"""The tensors that autograd keeps between the forward and the backward pass: of attention, and of the rest of a model.

FLOPs follow from the equations, but the tensors kept depend on the code: a quotient keeps both operands, a padded copy
is kept instead of its source, a view keeps the whole tensor that it is a view of. Formulas for this would drift from
the code. So the layer's own forward pass is run with tensors that have a shape and no values (PyTorch's meta device),
and the tensors that it keeps are added up, each storage once. Parameters do not count; the input does.

Only the two kernels cannot be run like that. They keep, and recompute in the backward pass:

    fused      queries, keys, values, the output, a logarithm per row; with a zero key, copies one row longer
    blocked    queries, keys, values, the terms of a score, the statistics of each row, the seed of the dropout
    both       recompute the product of queries and keys

An operator that recomputes keeps its inputs and the states from which it restarts, and is not run either.

Apart from attention, this is the only file that assumes how blocks are connected and how the loss is computed:

    a norm       keeps its input, and the statistics of each row
    attention    keeps what `attention_cost` counts, including its input (the output of the norm)
    an MLP       keeps its input and the input of φ; see `attnlab.models.mlp`
    residuals    keep nothing: the gradient of a sum needs neither of its terms
    the loss     keeps the input of the head, the log-probabilities, and the targets; or, if `attnlab.models.loss`
                 works in chunks, the gradients that it has already computed

Norms, MLP and dropout have no formulas either: the real modules run on the meta device. There, as on a GPU, the
statistics of a LayerNorm are never kept in half precision; on a CPU they are.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from attnlab.attention import InnerProduct, Matched, MultiHeadAttention, Operator, Rope, Table
from attnlab.attention.functional import by_maps, combined, finish
from attnlab.attention.groups import repeated
from attnlab.attention.kernels.dispatch import idle_queries, with_row_factors
from attnlab.cost.block import block_modules
from attnlab.cost.call import AttentionCall, ModelCall
from attnlab.cost.ledger import Kept, Ledger
from attnlab.cost.whole_layers import kept_by_module, run_module
from attnlab.errors import InputError
from attnlab.models import loss, mlp
from attnlab.models.meta import nothing_drawn, on_meta

_INDEX_BYTES = 8  # of a token id
_SMALL = 2**22  # numbers of a tensor that is fast to create; those of GPT-2 are smaller


@functools.lru_cache(maxsize=512)
def kept_for_backward(call: AttentionCall) -> Kept:
    """Return what a layer keeps for the backward pass. Decoding keeps nothing: a cache cannot be differentiated.

    The size of every tensor is proportional to the batch or independent of it, so two walks suffice for all batches.
    """
    if call.decodes:
        return Kept({}, 0)
    if call.batch > 2:
        one, two = (kept_for_backward(replace(call, batch=batch)) for batch in (1, 2))
        parts = {
            name: number + (call.batch - 2) * (number - one.bytes_by_part.get(name, 0))
            for name, number in two.bytes_by_part.items()
        }
        return Kept(parts, two.product_width)
    try:
        return _kept(call)
    except (RuntimeError, TypeError) as error:  # PyTorch's error for a shape of more than 2⁶³ bytes
        if "verflow" not in str(error):
            raise
        raise InputError(
            f"{call.batch} × {call.queries} tokens of {call.spec.score.kind} make a tensor beyond 2⁶³ bytes",
            hint="give a shorter context or a smaller batch",
        ) from None


def _kept(call: AttentionCall) -> Kept:
    if call.spec.layer is not None:
        return run_module(call, kept_by_module, Kept.times)
    with _walking(_largest(call), call.dtype):
        layer = MultiHeadAttention(call.spec).to(call.dtype)
        walk = _Walk(call, layer, Ledger(layer))
        query, key, value = walk.vectors()
        maps: list[InnerProduct | Table] = []
        if call.spec.operator is None:
            maps = walk.scored(query, key)
            output = walk.weighted(maps, value)
        else:
            output = walk.operated(call.spec.operator, query, key, value)
        walk.joined(walk.finished(output, value))
    width = sum(logits.query.shape[-1] for logits in maps if isinstance(logits, InnerProduct))
    return Kept(walk.ledger.bytes_by_part(), width)


@contextmanager
def _walking(numbers: int, dtype: torch.dtype) -> Iterator[None]:
    """Make tensors on the meta device, or on the CPU if the largest has few numbers.

    Both keep the same. But most operations on the meta device import PyTorch's compiler, which takes over a second.
    """
    small = numbers <= _SMALL and dtype == torch.float32
    with nothing_drawn() if small else on_meta(), torch.enable_grad():
        yield


def _largest(call: AttentionCall) -> int:
    """Return the size of a layer's largest tensor; a table of scores has a number per head and pair of tokens."""
    spec, tokens = call.spec, max(call.queries, call.keys)
    table = 0 if spec.score.projects_key else spec.num_heads * tokens
    return call.batch * tokens * max(spec.model_width, spec.num_heads * max(spec.key_width, spec.value_width), table)


@dataclass(frozen=True)
class _Walk:
    """The layer's forward pass, step by step, with a ledger."""

    call: AttentionCall
    layer: MultiHeadAttention
    ledger: Ledger
    extras: dict[str, Tensor] = field(default_factory=dict)  # the parts' parameters and their token projections

    def vectors(self) -> tuple[Tensor | None, Tensor | None, Tensor]:
        """Return queries, keys and values, (batch, heads or those that groups share, tokens, width)."""
        spec = self.call.spec
        x = source = self._input("input", self.call.queries)
        if spec.source == "cross":
            source = self._input("source", self.call.keys)
        if spec.compression is not None:
            return self._made_from_latent(x, source)
        query = self._projected("query", x, spec.num_heads) if spec.score.projects_query else None
        key = query if spec.source == "self" and spec.sharing in {"query-key", "query-key-value"} else None
        if key is None and spec.score.projects_key:
            key = self._projected("key", source, spec.num_key_value_heads)
        if key is not None and "value" not in self.layer.projections:
            value = key
        else:
            value = self._projected("value", source, spec.num_key_value_heads)
        self._learned(x, source)
        if spec.values is not None:
            with self.ledger.watch("values"):
                value = spec.values.mix(value, value, **spec.own(spec.values, self.extras))
            self.ledger.made("values", value)
        if isinstance(spec.position, Rope):
            assert query is not None
            assert key is not None
            query, key = self._turned(spec.position, query), self._turned(spec.position, key)
        return query, key, value

    def _made_from_latent(self, x: Tensor, source: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor]:
        with self.ledger.watch("compression"):
            made = self.layer.project(x, source if self.call.spec.source == "cross" else None)
        for name, vectors in zip(("query", "key", "value"), made, strict=True):
            assert vectors is not None
            self.ledger.made(f"{name} projection", vectors)
        self._learned(x, source)
        return made

    def _learned(self, x: Tensor, source: Tensor) -> None:
        """Collect the parts' learned parameters and their projections of the tokens."""
        with self.ledger.watch("token projection"):
            self.extras.update(self.layer.learned(x, source))
        self.ledger.made("token projection", *(self.extras[name] for name in self.call.spec.projections))

    def operated(self, operator: Operator, query: Tensor | None, key: Tensor | None, value: Tensor) -> Tensor:
        """Return the output of an operator, (batch, heads, queries, value width)."""
        assert query is not None
        assert key is not None
        if not operator.takes_groups:
            key, value = self._repeated(key), self._repeated(value)
        with self.ledger.watch("operator"):
            q, k, v = (vectors.to(self.call.exact) for vectors in (query, key, value))
            own = {name: x.to(self.call.exact) for name, x in self.call.spec.own(operator, self.extras).items()}
            if operator.recomputes:  # from its inputs, and perhaps from a few states
                states = torch.empty(
                    operator.kept_states(k.shape[2]), *k.shape[:2], k.shape[-1], v.shape[-1], dtype=v.dtype
                )
                self.ledger.keep("operator", q, k, v, states, *own.values())
                output = torch.empty(*q.shape[:-1], v.shape[-1], dtype=value.dtype, requires_grad=True)
            else:
                output = operator.attend(q, k, v, self.call.visibility, **own).to(value.dtype)
        self.ledger.made("operator", output)
        return output

    def scored(self, query: Tensor | None, key: Tensor | None) -> list[InnerProduct | Table]:
        """Return, for each map, the inner product or the table that the kernel computes the scores from."""
        spec = self.call.spec
        if key is not None and not spec.score.takes_groups:
            key = self._repeated(key)
        found: list[InnerProduct | Table] = []
        for given in by_maps(Matched(query, key, self.call.queries, self.call.keys, extras=self.extras), spec):
            with self.ledger.watch("scores"):
                logits = spec.score.logits(given, **spec.own(spec.score, self.extras))
                if isinstance(logits, InnerProduct) and self.call.kernel == "fused":
                    logits = with_row_factors(logits, spec, self.call.visibility, self.extras)
            pieces = (logits.entries,) if isinstance(logits, Table) else (logits.query, logits.key)
            self.ledger.made("scores", *pieces)
            found.append(logits)
        return found

    def weighted(self, maps: list[InnerProduct | Table], value: Tensor) -> Tensor:
        """Return the weighted sums of the values, all maps combined, (batch, heads, queries, value width)."""
        made = []
        seed = torch.empty((), dtype=torch.int64) if self.call.spec.weight_dropout else None
        for logits in maps:
            if isinstance(logits, InnerProduct) and self.call.kernel == "fused":
                made.append(self._fused(logits, self._repeated(value, logits.key.shape[1])))
            else:
                made.append(self._blocked(logits, value, seed))
        with self.ledger.watch("weighted sum"):
            result = combined(made, self.call.spec, self.extras)
        self.ledger.made("weighted sum", result)
        return result

    def finished(self, heads: Tensor, value: Tensor) -> Tensor:
        """Return the outputs of the heads, after the head output if the spec has one."""
        if self.call.spec.head_output is None:
            return heads
        with self.ledger.watch("head output"):
            result = finish(heads, self.call.spec, self.extras, value)
        self.ledger.made("head output", result)
        return result

    def joined(self, heads: Tensor) -> None:
        """Join the heads, project them back to the model's width and apply dropout."""
        spec = self.call.spec
        with self.ledger.watch("output projection"):
            if spec.join == "average":
                output = heads.mean(dim=1)
            elif spec.value_map == "full":
                output = heads.sum(dim=1)
            else:
                output = heads.transpose(1, 2).flatten(2)
            if self.layer.output is not None:
                output = self.layer.output(output)
        with self.ledger.watch("output dropout"):
            self.layer.dropout(output)

    def _input(self, part: str, tokens: int) -> Tensor:
        shape = self.call.batch, tokens, self.call.spec.model_width
        result = torch.empty(shape, dtype=self.call.dtype, requires_grad=True)
        self.ledger.made(part, result)
        return result

    def _projected(self, name: str, tokens: Tensor, heads: int) -> Tensor:
        part, projections = f"{name} projection", self.layer.projections
        with self.ledger.watch(part):
            if projections:
                tokens = projections[name if name in projections else "query"](tokens)
        self.ledger.made(part, tokens)
        return tokens.view(*tokens.shape[:2], heads, -1).transpose(1, 2)

    def _turned(self, rope: Rope, vectors: Tensor) -> Tensor:
        with self.ledger.watch("position"):
            result = rope.rotate(vectors, 0)
        self.ledger.made("position", result)
        return result

    def _repeated(self, vectors: Tensor, num_heads: int | None = None) -> Tensor:
        result = repeated(vectors, num_heads or self.call.spec.num_heads)
        self.ledger.made("repeated heads", result)
        return result

    def _fused(self, logits: InnerProduct, value: Tensor) -> Tensor:
        output = torch.empty_like(logits.query).requires_grad_()  # with the memory layout of the query
        logarithms = torch.empty(output.shape[:-1], dtype=self.call.exact)
        self.ledger.keep("weighted sum", logits.query, logits.key, value, output, logarithms)
        return output

    def _blocked(self, logits: InnerProduct | Table, value: Tensor, seed: Tensor | None) -> Tensor:
        spec, rows = self.call.spec.one_map, (self.call.batch, self.call.spec.num_heads, self.call.queries)
        if isinstance(logits, Table):
            self.ledger.keep("scores", logits.entries)
        else:
            query_bias = None if idle_queries(logits, spec) else logits.query_bias
            self.ledger.keep("scores", logits.query, logits.key, query_bias, logits.key_bias)
        statistics = torch.empty(*rows, spec.normaliser.statistics, dtype=self.call.exact)
        self.ledger.keep("weighted sum", value, statistics, seed)
        return torch.empty(*rows, value.shape[-1], dtype=self.call.dtype, requires_grad=True)


@functools.lru_cache(maxsize=512)
def products_of_head_output(call: AttentionCall) -> int:
    """Return the multiply–adds of the matrix products in the head output, counted by PyTorch."""
    spec = call.spec
    assert spec.head_output is not None
    with on_meta(), torch.no_grad():
        extras = _extras(call)
        heads = torch.empty(call.batch, spec.num_heads, call.queries, spec.value_width)
        with FlopCounterMode(display=False) as counter:
            finish(heads, spec, extras, heads)
    return int(counter.get_total_flops()) // 2


@functools.lru_cache(maxsize=512)
def products_of_operator(call: AttentionCall) -> int:
    """Return the multiply–adds of the matrix products in an operator that does not state them, counted by PyTorch."""
    spec = call.spec
    assert spec.operator is not None
    with on_meta(), torch.no_grad():
        own = spec.own(spec.operator, _extras(call))
        query, key = (torch.empty(call.batch, spec.num_heads, n, spec.key_width) for n in (call.queries, call.keys))
        value = torch.empty(call.batch, spec.num_heads, call.keys, spec.value_width)
        with FlopCounterMode(display=False) as counter:
            spec.operator.attend(query, key, value, call.visibility, **own)
    return int(counter.get_total_flops()) // 2


def _extras(call: AttentionCall) -> dict[str, Tensor]:
    """Return the parts' learned parameters and their projections of empty tokens."""
    tokens = (torch.empty(call.batch, count, call.spec.model_width) for count in (call.queries, call.keys))
    return MultiHeadAttention(call.spec).learned(*tokens)


@functools.lru_cache(maxsize=512)
def kept_outside_attention(call: ModelCall, tokens: int) -> dict[str, int]:
    """Return the bytes that one norm, one MLP and the embedding's dropout keep of so many tokens per sequence.

    They are proportional to the tokens; for an MLP, separately below and above the size from which it keeps less. So a
    walk with few sequences suffices for many.
    """
    spec = call.spec
    one = tokens * spec.mlp_width * call.bytes_per_number  # bytes of the pre-activations of a sequence
    fewest = 1 if (one > mlp._LARGE) == (call.batch * one > mlp._LARGE) else mlp._LARGE // one + 1
    if call.batch > fewest:
        found = kept_outside_attention(replace(call, batch=fewest), tokens)
        return {name: number // fewest * call.batch for name, number in found.items()}

    def fresh() -> Tensor:
        return torch.empty(call.batch, tokens, spec.model_width, dtype=call.dtype, requires_grad=True)

    with _walking(call.batch * tokens * max(spec.model_width, spec.mlp_width), call.dtype):
        modules = {"embedding dropout": nn.Dropout(spec.dropout), **block_modules(spec)}
        ledger = Ledger(nn.ModuleList(modules.values()).to(call.dtype))
        for name, module in modules.items():
            with ledger.watch(name):
                module(fresh())
    return ledger.bytes_by_part()


def kept_by_embedding(call: ModelCall) -> int:
    """Return the bytes of the token IDs, those of the source included."""
    return call.batch * (call.tokens + (call.source_tokens or 0)) * _INDEX_BYTES


def kept_by_loss(call: ModelCall) -> int:
    """Return the bytes that the head and the cross-entropy keep."""
    spec, rows, number = call.spec, call.batch * call.tokens, call.bytes_per_number
    hidden = rows * spec.model_width * number
    if rows > loss.rows_at_once(rows, spec.vocabulary_size, number):
        return hidden + spec.vocabulary_size * spec.model_width * number
    exact = max(4, number)  # bytes per number in the loss, which is never computed in half precision
    return hidden + rows * (spec.vocabulary_size * exact + _INDEX_BYTES) + exact  # the last: the number of targets
