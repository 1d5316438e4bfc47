"""The cost of inference: prefill (reading a prompt), and decoding one token after it.

Both passes compute the same products. For T new tokens after C cached ones, B sequences and a matrix from D to W:

    FLOPs            2 B T D W                         as in training, forward only
    bytes moved      B T D + D W + B T W numbers       both factors are read, the product is written

Attention reads queries, and the keys and values of all tokens in the cache, and writes its output; a kernel that stores
no scores moves none. The head processes the last token only. *Arithmetic intensity* is FLOPs per byte moved. Prefill
has an intensity of hundreds, because each weight is used for all tokens of the prompt. Decoding one token has less than
one: each weight, and each number of the cache, is read for a single multiply–add. So prefill is compute-bound and
decoding memory-bound, if the machine's own ratio (its FLOPs per second by its bytes per second) lies between them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from attnlab.attention import AttentionSpec
from attnlab.attention.layer import output_width
from attnlab.cost.attention import multiply_adds, state_heads
from attnlab.cost.block import mlp_shapes
from attnlab.cost.call import AttentionCall, require_count
from attnlab.cost.latent import absorbs, looked_at, projected
from attnlab.cost.whole_layers import layer_cache_bytes, layer_tensors
from attnlab.errors import UnsupportedError
from attnlab.models import ModelSpec


@dataclass(frozen=True)
class PassPart:
    """The products of one kind in one pass through the model."""

    name: str
    flops: int
    bytes_moved: int

    @property
    def intensity(self) -> float:
        """Return the arithmetic intensity, in FLOPs per byte."""
        return self.flops / self.bytes_moved if self.bytes_moved else 0.0


@dataclass(frozen=True)
class InferencePass:
    """One pass: `tokens` new tokens after `cached` ones, in each of `batch` sequences."""

    batch: int
    tokens: int
    cached: int
    parts: tuple[PassPart, ...]

    @property
    def flops(self) -> int:
        return sum(part.flops for part in self.parts)

    @property
    def bytes_moved(self) -> int:
        return sum(part.bytes_moved for part in self.parts)

    @property
    def intensity(self) -> float:
        """Return the arithmetic intensity, in FLOPs per byte."""
        return self.flops / self.bytes_moved

    def seconds(self, flops_per_second: float, bytes_per_second: float) -> float:
        """Return the least time it takes where each part is bound by compute or by memory, whichever is slower."""
        return sum(max(part.flops / flops_per_second, part.bytes_moved / bytes_per_second) for part in self.parts)

    def as_dict(self) -> dict[str, object]:
        names = ("batch", "tokens", "cached", "flops", "bytes_moved", "intensity")
        parts = [{**asdict(part), "intensity": part.intensity} for part in self.parts]
        return {**{name: getattr(self, name) for name in names}, "parts": parts}


def inference_pass(
    spec: ModelSpec,
    *,
    batch: int = 1,
    tokens: int,
    cached: int = 0,
    visible_only: bool = True,
    bytes_per_number: int = 4,
) -> InferencePass:
    """Return the cost of a pass without gradients; with none cached, it reads a prompt.

    Parameters
    ----------
    spec
        The specification of the model.
    batch
        Sequences in a batch.
    tokens
        New tokens of each sequence.
    cached
        Tokens of each sequence that the cache holds.
    visible_only
        Count only the pairs that the mask leaves visible, not every pair.
    bytes_per_number
        Bytes per number: 4 for float32, 2 for bfloat16.
    """
    if spec.family == "encoder-decoder":
        raise UnsupportedError("passes of an encoder–decoder are not counted", hint="give a decoder or an encoder")
    require_count("cached", cached, least=0)
    flops: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    for attention, layers in Counter(spec.attention).items():
        call = AttentionCall(attention, batch, tokens, cached + tokens, bytes_per_number)
        for name, number in multiply_adds(call, visible_only).items():
            flops[name] += layers * 2 * number
        for name, numbers in _attention_numbers(call):
            moved[name] += layers * numbers * bytes_per_number
    rows, width = batch * tokens, spec.model_width
    maps = spec.num_layers * len(mlp_shapes(spec))
    flops["mlp"] = maps * 2 * rows * width * spec.mlp_width
    moved["mlp"] = maps * _product(rows, width, spec.mlp_width) * bytes_per_number
    read = rows if spec.family == "encoder" else batch
    flops["head"] = 2 * read * width * spec.vocabulary_size
    moved["head"] = _product(read, width, spec.vocabulary_size) * bytes_per_number
    parts = tuple(PassPart(name, flops[name], moved[name]) for name in _ORDER if flops[name] or moved[name])
    return InferencePass(batch, tokens, cached, parts)


_ORDER = (
    "query_latent projection",
    "query projection",
    "latent projection",
    "rotary projection",
    "key projection",
    "value projection",
    "token projection",
    "values",
    "scores",
    "weighted sum",
    "operator",
    "layer",
    "head output",
    "output projection",
    "mlp",
    "head",
)


def _attention_numbers(call: AttentionCall) -> Iterator[tuple[str, int]]:
    """Yield each part of one layer with how many numbers it moves."""
    spec, batch = call.spec, call.batch
    if spec.layer is not None:
        held = layer_cache_bytes(call, call.keys - call.queries if call.decodes else 0) // call.bytes_per_number
        weights = sum(math.prod(shape) for _, shape in layer_tensors(spec))
        yield "layer", weights + held + 2 * batch * call.queries * spec.model_width
        return
    made = {name: number for name, number in multiply_adds(call, True).items() if name.endswith(" projection")}
    if spec.compression is not None:
        for name, product in projected(call).items():
            del made[f"{name} projection"]
            yield f"{name} projection", _product(*product)
    for name, products in made.items():
        columns = spec.model_width
        if name == "output projection":
            columns = output_width(spec) or 0
        rows = batch * (call.new_keys if name in ("key projection", "value projection") else call.queries)
        if products:
            yield name, _product(rows, columns, products // (rows * columns))
    key_width, value_width, shared = looked_at(call)
    out = batch * spec.num_heads * call.queries * value_width
    query = batch * spec.num_heads * call.queries * key_width * spec.score.projects_query
    if spec.values is not None:
        yield "values", 3 * batch * spec.num_key_value_heads * call.new_keys * spec.value_width
    if spec.head_output is not None:
        yield "head output", 2 * out
    if spec.operator is not None:
        yield "operator", query + out + _operator_numbers(call, spec)
        return
    held = call.visibility.num_keys
    keys = batch * shared * held * key_width * spec.score.projects_key
    extras = _extras_read(call, spec)
    tied = spec.sharing in {"key-value", "query-key-value", "identity"}  # the shared vector is read once
    values = 0 if tied or absorbs(call) else batch * shared * held * value_width
    yield "scores", query + keys + extras
    yield "weighted sum", values + out


def _extras_read(call: AttentionCall, spec: AttentionSpec) -> int:
    """Return how many learned numbers of the parts these queries and keys need."""
    held, queries = call.visibility.num_keys, call.queries
    total = 0
    for parameter in spec.parameters.values():
        sizes = list(parameter.stored_shape(spec.num_heads))
        if len(sizes) == 3 and sizes[1] == sizes[2] == spec.context_length:
            sizes[1] = queries
            sizes[2] = held
        elif len(sizes) >= 2 and sizes[1] == spec.context_length:
            sizes[1] = held
        total += math.prod(sizes)
    return total


def _operator_numbers(call: AttentionCall, spec: AttentionSpec) -> int:
    """Return how many numbers an operator moves besides queries and output: keys, values, and the state it has."""
    assert spec.operator is not None
    vectors = call.batch * spec.num_key_value_heads * call.new_keys * (spec.key_width + spec.value_width)
    if not call.decodes:
        return vectors
    if not spec.operator.keeps_state:
        return vectors // call.new_keys * call.visibility.num_keys
    state = math.prod(spec.operator.state_shape(spec.key_width, spec.value_width))
    return vectors + 2 * call.batch * state_heads(spec) * state


def _product(rows: int, columns: int, width: int) -> int:
    """Return how many numbers a product of (rows, columns) and (columns, width) reads and writes."""
    return rows * columns + columns * width + rows * width
