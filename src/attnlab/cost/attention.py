"""The cost of a part of a computation and of an attention layer: parameters, FLOPs, training memory, and the cache.

For B sequences of N queries and M keys, H heads, and the widths D of the model, D_k of keys and D_v of values:

    projections     2 B N D H D_k   for queries, and likewise for keys, values and the output
    scores          2 B H P m       m multiply–adds per score, as the score declares; D_k for an inner product
    weighted sum    2 B H P D_v
    gradients       twice as much again, because each product has two factors

P is the number of (query, key) pairs. There are two valid counts. *Every pair*, N M: what the definition computes, and
what PyTorch's FLOP counter finds for it. *Visible pairs*: those that the mask leaves, about half of them if causal.

The kernels store no scores and recompute them in the backward pass; that product is counted separately, as recomputed.
An operator declares its own products: those of its definition for the first count, those of its kernel for the second;
it may recompute all of the latter in the backward pass. A custom layer is counted by running it (`whole_layers`), for
either count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from functools import cached_property

from attnlab.attention import AttentionSpec, Operator
from attnlab.attention.kernels import Kernel
from attnlab.attention.layer import output_width, projection_shapes, projection_widths
from attnlab.cost.activations import kept_for_backward, products_of_head_output, products_of_operator
from attnlab.cost.call import AttentionCall, require_count
from attnlab.cost.latent import absorbs, looked_at, part_of, projected
from attnlab.cost.whole_layers import layer_cache_bytes, layer_flops, layer_tensors


@dataclass(frozen=True)
class PartCost:
    """The cost of one part.

    A FLOP is half a multiply–add of a matrix product, as in PyTorch's own counter; elementwise operations are not
    counted. Activation bytes are those of the tensors that this part computes and autograd keeps for the backward pass.
    """

    name: str
    parameters: int = 0
    forward_flops: int = 0
    backward_flops: int = 0
    recomputed_flops: int = 0  # recomputed by a kernel in the backward pass instead of stored
    activation_bytes: int = 0

    @property
    def training_flops(self) -> int:
        return self.forward_flops + self.backward_flops + self.recomputed_flops


_NUMBERS = tuple(field.name for field in fields(PartCost) if field.name != "name")


@dataclass(frozen=True)
class Cost:
    """The parts of a computation in their order, and their sums."""

    parts: tuple[PartCost, ...]

    @cached_property
    def _sums(self) -> PartCost:
        return self.total("")

    def total(self, name: str) -> PartCost:
        """Return all parts as one, under a name."""
        sums = {field: sum(getattr(part, field) for part in self.parts) for field in _NUMBERS}
        return PartCost(name, **sums)

    @property
    def parameters(self) -> int:
        return self._sums.parameters

    @property
    def forward_flops(self) -> int:
        return self._sums.forward_flops

    @property
    def backward_flops(self) -> int:
        """Return the FLOPs of the gradients alone, without recomputation."""
        return self._sums.backward_flops

    @property
    def recomputed_flops(self) -> int:
        return self._sums.recomputed_flops

    @property
    def training_flops(self) -> int:
        """Return the FLOPs of one step on the batch, without those of the optimizer."""
        return self._sums.training_flops

    @property
    def activation_bytes(self) -> int:
        return self._sums.activation_bytes

    def part(self, name: str) -> PartCost:
        """Return a part by its name; one that costs nothing if there is none."""
        return next((part for part in self.parts if part.name == name), PartCost(name))

    def as_dict(self) -> dict[str, object]:
        """Return the sums and the parts, for JSON."""
        sums = {field: getattr(self, field) for field in _NUMBERS}
        return {**sums, "parts": [asdict(part) for part in self.parts]}


def sum_by(parts: Iterable[PartCost], kind: Callable[[str], str]) -> tuple[PartCost, ...]:
    """Return the sum of the parts of each kind, which follows from a part's name."""
    groups: dict[str, list[PartCost]] = {}
    for part in parts:
        groups.setdefault(kind(part.name), []).append(part)
    return tuple(Cost(tuple(found)).total(name) for name, found in groups.items())


@dataclass(frozen=True)
class AttentionCost(Cost):
    """The cost of one attention layer at a size."""

    call: AttentionCall
    visible_only: bool

    @property
    def kernel(self) -> Kernel:
        return self.call.kernel

    @property
    def cache_bytes_per_token(self) -> int:
        """Return the bytes a token of one sequence adds to the cache, until a window is full; 0 if there is a state."""
        if self.call.spec.layer is not None:
            return (layer_cache_bytes(self.call, 2) - layer_cache_bytes(self.call, 1)) // self.call.batch
        return _cache_numbers(self.call.spec) * self.call.bytes_per_number

    @property
    def state_bytes(self) -> int:
        """Return the bytes of the state that an operator decodes from, for the whole batch, never in half precision."""
        spec = self.call.spec
        if spec.operator is None or not spec.operator.keeps_state or not spec.mask.causal:
            return 0
        numbers = state_heads(spec) * math.prod(spec.operator.state_shape(spec.key_width, spec.value_width))
        return self.call.batch * numbers * self.call.exact.itemsize

    def cache_bytes(self, tokens: int) -> int:
        """Return the bytes cached for the batch after decoding so many tokens; in cross-attention, for so many keys."""
        require_count("tokens", tokens, least=0)
        if self.call.spec.layer is not None:
            return layer_cache_bytes(self.call, tokens)
        mask = self.call.spec.mask
        held = min(tokens, tokens if mask.window is None else mask.window + (mask.first or 0))
        return self.call.batch * held * self.cache_bytes_per_token + (self.state_bytes if tokens else 0)

    def as_dict(self) -> dict[str, object]:
        """Return everything as plain values, for JSON."""
        sizes = {name: getattr(self.call, name) for name in ("batch", "queries", "keys", "bytes_per_number")}
        own = ("visible_only", "kernel", "cache_bytes_per_token", "state_bytes")
        return {**sizes, **{name: getattr(self, name) for name in own}, **super().as_dict()}


def attention_cost(
    spec: AttentionSpec,
    *,
    batch: int = 1,
    queries: int,
    keys: int | None = None,
    visible_only: bool = False,
    bytes_per_number: int = 4,
    lent: frozenset[str] = frozenset(),
) -> AttentionCost:
    """Return the cost of one layer for one batch: forward and backward, where the input's gradient is wanted too.

    Parameters
    ----------
    spec
        The specification of the layer.
    batch
        Sequences in a batch.
    queries
        Queries of each sequence.
    keys
        As many as queries if omitted. In self-attention, more keys than queries means decoding: the queries are new,
        the keys before them cached, and there is no backward pass.
    visible_only
        Count only the pairs that the mask leaves visible, not every pair.
    bytes_per_number
        Bytes per number: 4 for float32, 2 for bfloat16.
    lent
        Parameters that belong to another layer of the model and are not counted here.
    """
    call = AttentionCall(spec, batch, queries, queries if keys is None else keys, bytes_per_number)
    parameters, products, kept = _parameters(spec, lent), multiply_adds(call, visible_only), kept_for_backward(call)
    again = {"scores": batch * spec.num_heads * _pairs(call, visible_only) * kept.product_width}
    if spec.operator is not None and spec.operator.recomputes and not call.decodes:
        again["operator"] = multiply_adds(call, visible_only=True)["operator"]
    backward = {} if spec.layer is None else {"layer": layer_flops(call).backward}
    parts = []
    for name in _ORDER:
        flops = 2 * products.get(name, 0)
        part = PartCost(
            name,
            parameters=parameters.get(name, 0),
            forward_flops=flops,
            backward_flops=backward.get(name, 0 if call.decodes else 2 * flops),
            recomputed_flops=2 * again.get(name, 0),
            activation_bytes=kept.bytes_by_part.get(name, 0),
        )
        if part != PartCost(name):
            parts.append(part)
    return AttentionCost(tuple(parts), call, visible_only)


_ORDER = (
    "input",
    "source",
    "query_latent projection",
    "query projection",
    "latent projection",
    "rotary projection",
    "compression",
    "key projection",
    "value projection",
    "token projection",
    "values",
    "position",
    "repeated heads",
    "scores",
    "weighted sum",
    "operator",
    "layer",
    "head output",
    "output projection",
    "output dropout",
)


def _parameters(spec: AttentionSpec, lent: frozenset[str]) -> dict[str, int]:
    """Return the parameters by part; a projection that makes two vectors is counted once, under its own name."""
    if spec.layer is not None:
        return {"layer": sum(math.prod(shape) for _, shape in layer_tensors(spec))}
    shapes = projection_shapes(spec)
    result = {f"{name} projection": (columns + bias) * width for name, (width, columns, bias) in shapes.items()}
    inner = output_width(spec)
    if inner is not None:
        result["output projection"] = (inner + spec.bias) * spec.model_width
    result["token projection"] = spec.model_width * _token_width(spec)
    for part in spec.parts:
        place = _PLACES.get(part.family, "scores")
        stored = {name: one.stored_shape(spec.num_heads) for name, one in spec.parameters_of(part).items()}
        numbers = sum(math.prod(shape) for name, shape in stored.items() if name not in lent)
        result[place] = result.get(place, 0) + numbers
    return result


def _token_width(spec: AttentionSpec, of: str | None = None) -> int:
    """Return how many numbers the parts' own projections make of each token, in all heads."""
    return sum(one.columns(spec.num_heads) for one in spec.projections.values() if of in (None, one.of))


# The part of the cost under which a family's parameters and products are counted; all others count as scores.
_PLACES = {family: family for family in ("operator", "head output", "compression", "values")}


def multiply_adds(call: AttentionCall, visible_only: bool) -> dict[str, int]:
    """Return the multiply–adds of the forward pass by part."""
    spec = call.spec
    if spec.layer is not None:
        return {"layer": layer_flops(call).forward // 2}
    heads = call.batch * spec.num_heads
    result = {f"{name} projection": number for name, number in _projected(call).items()}
    inner = output_width(spec)
    if inner is not None:
        result["output projection"] = call.batch * call.queries * inner * spec.model_width
    made = call.queries * _token_width(spec, "query") + call.new_keys * _token_width(spec, "key")
    result["token projection"] = call.batch * spec.model_width * made
    if spec.head_output is not None:
        result["head output"] = products_of_head_output(call)
    if spec.operator is None:
        pairs, (key_width, value_width, _) = heads * _pairs(call, visible_only), looked_at(call)
        products = key_width if absorbs(call) else spec.score.multiply_adds(spec)
        return result | {"scores": pairs * products, "weighted sum": pairs * value_width * spec.normaliser.maps}
    return result | {"operator": _operated(call, spec.operator, visible_only)}


def _operated(call: AttentionCall, operator: Operator, visible_only: bool) -> int:
    """Return the multiply–adds of an operator, as it states them or as PyTorch counts them."""
    spec, heads = call.spec, call.batch * call.spec.num_heads
    if type(operator).multiply_adds is Operator.multiply_adds:
        return products_of_operator(call)
    widths, causal = (spec.key_width, spec.value_width), spec.mask.causal
    if not (visible_only or call.decodes):
        return heads * operator.defined_multiply_adds(*widths, call.queries, call.keys)
    one = operator.multiply_adds(*widths, call.queries, call.keys, causal=causal)
    if not call.decodes:
        return heads * one
    # In addition, decoding computes the new state, once for each head that has one.
    without = operator.multiply_adds(*widths, call.queries, call.queries, causal=causal)
    return heads * without + call.batch * state_heads(spec) * (one - without)


def state_heads(spec: AttentionSpec) -> int:
    """Return how many heads have a state to decode from."""
    assert spec.operator is not None
    return spec.num_key_value_heads if spec.operator.takes_groups else spec.num_heads


def _projected(call: AttentionCall) -> dict[str, int]:
    """Return the multiply–adds that make queries, keys and values, also where one projection makes two of them."""
    spec = call.spec
    if spec.compression is not None:
        return {name: rows * columns * width for name, (rows, columns, width) in projected(call).items()}
    own = projection_widths(spec)
    if not own:
        return {}
    apart = "key" in own or spec.source == "cross"  # else the keys are the projected queries
    widths = {
        "query": spec.num_heads * spec.key_width * spec.score.projects_query * call.queries,
        "key": spec.num_key_value_heads * spec.key_width * spec.score.projects_key * apart * call.new_keys,
        "value": spec.num_key_value_heads * spec.value_width * ("value" in own) * call.new_keys,
    }
    return {name: call.batch * spec.model_width * numbers for name, numbers in widths.items()}


def _pairs(call: AttentionCall, visible_only: bool) -> int:
    """Return the number of (query, key) pairs of one head of one sequence."""
    structure = call.visibility.structure
    return structure.num_visible() if visible_only else structure.num_queries * structure.num_keys


def _cache_numbers(spec: AttentionSpec) -> int:
    """Return how many numbers are cached per token: a key and a value per head, or the one vector that is both."""
    if spec.operator is not None and spec.operator.keeps_state and spec.source == "self":
        return 0
    if spec.compression is not None:
        return part_of(spec).cached_width(spec) + _token_width(spec, "key")
    tied = "value" not in projection_widths(spec)
    vectors = spec.key_width * spec.score.projects_key + spec.value_width * (not tied)
    return spec.num_key_value_heads * vectors + _token_width(spec, "key")
