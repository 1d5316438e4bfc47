"""The blocked kernel as one differentiable operation.

Eagerly it is an autograd function. Under `torch.compile` the same two passes are custom operators, which the compiler
calls without looking inside. Half-precision inputs are computed in float32, whatever autocast says, and the output has
the type of the values. A second derivative is refused.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, fields
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from attnlab.attention.dropout import WeightDropout
from attnlab.attention.kernels.blocked import BlockedAttention
from attnlab.attention.masks import Mask, Visibility
from attnlab.attention.normalisers import Normaliser
from attnlab.errors import UnsupportedError


@dataclass(frozen=True)
class Tensors:
    """The tensors of a call: 4-dimensional (batch, heads, tokens, width), the table 3-dimensional."""

    query: Tensor | None
    key: Tensor | None
    query_bias: Tensor | None
    key_bias: Tensor | None
    table: Tensor | None
    value: Tensor
    padding: Tensor | None
    pattern: Tensor | None
    seed: Tensor | None

    def as_tuple(self) -> tuple[Tensor | None, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))


class Plan(BaseModel):
    """Everything else about a call, as a value that a compiled graph can hold as text."""

    model_config = ConfigDict(frozen=True)

    normaliser: str
    mask: str
    query_start: int
    num_queries: int
    scale: float
    alibi: bool
    dropout: float


def blocked_attention(tensors: Tensors, plan: Plan) -> Tensor:
    """(batch, heads, queries, value width)."""
    if torch.compiler.is_compiling():
        output: Tensor = _forward_op(*tensors.as_tuple(), plan.model_dump_json())[0]
        return output
    return _Blocked.apply(plan, *tensors.as_tuple())  # type: ignore[no-any-return, no-untyped-call]


@functools.lru_cache(maxsize=256)
def _parts(normaliser: str, mask: str) -> tuple[Normaliser, Mask]:
    return Normaliser.parse(json.loads(normaliser)), Mask.parse(json.loads(mask))


def _kernel(tensors: Tensors, plan: Plan) -> BlockedAttention:
    value = tensors.value
    batch, heads, keys, _ = value.shape
    exact = torch.float64 if value.dtype == torch.float64 else torch.float32

    def flat(vectors: Tensor | None) -> Tensor | None:
        if vectors is None:
            return None
        return vectors.to(exact).expand(batch, *vectors.shape[1:]).reshape(batch * heads, *vectors.shape[2:])

    normaliser, mask = _parts(plan.normaliser, plan.mask)
    visibility = Visibility(mask, plan.num_queries, keys, plan.query_start, tensors.padding, tensors.pattern)
    flat_value = flat(value)
    assert flat_value is not None
    return BlockedAttention(
        normaliser,
        visibility,
        flat_value,
        flat(tensors.query),
        flat(tensors.key),
        flat(tensors.query_bias),
        flat(tensors.key_bias),
        None if tensors.table is None else tensors.table.to(exact),
        heads,
        plan.scale,
        plan.alibi,
        WeightDropout(plan.dropout, tensors.seed) if tensors.seed is not None else None,
    )


def _forward(tensors: Tensors, plan: Plan) -> tuple[Tensor, Tensor]:
    with torch.autocast(tensors.value.device.type, enabled=False):
        output, kept = _kernel(tensors, plan).forward()
    return output.view(*tensors.value.shape[:2], *output.shape[1:]).to(tensors.value.dtype), kept


def _backward(gradient: Tensor, kept: Tensor, tensors: Tensors, plan: Plan) -> tuple[Tensor | None, ...]:
    """The gradients of query, key, table and value, in the shapes and types they came in."""
    with torch.autocast(tensors.value.device.type, enabled=False):
        kernel = _kernel(tensors, plan)
        found = kernel.backward(gradient.flatten(0, 1).to(kernel.value.dtype), kept)

    def shaped(result: Tensor | None, original: Tensor | None) -> Tensor | None:
        if result is None or original is None:
            return None
        if original is not tensors.table:
            result = result.view(-1, *original.shape[1:])
            if original.shape[0] == 1:
                result = result.sum(0, keepdim=True)
        return result.to(original.dtype)

    return tuple(shaped(getattr(found, field.name), getattr(tensors, field.name)) for field in fields(found))


def _refuse() -> UnsupportedError:
    return UnsupportedError(
        "the blocked attention kernel has no second derivative",
        hint="use `attnlab.attention.reference`, which can be differentiated as often as you like",
    )


class _Blocked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, *tensors: Tensor | None) -> Tensor:
        output, kept = _forward(Tensors(*tensors), plan)  # type: ignore[arg-type]
        ctx.plan = plan
        ctx.save_for_backward(kept, *tensors)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        kept, *tensors = ctx.saved_tensors
        gradients = _Slope.apply(ctx.plan, gradient, kept, *tensors)  # type: ignore[no-untyped-call]
        return None, *gradients, None, None, None


class _Slope(torch.autograd.Function):
    """The backward pass as an operation of its own, so that differentiating it once more says why that fails."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ARG004
        plan: Plan,
        gradient: Tensor,
        kept: Tensor,
        *tensors: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        return _backward(gradient, kept, Tensors(*tensors), plan)  # type: ignore[arg-type]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:  # noqa: ARG004
        raise _refuse()


@torch.library.custom_op("attnlab::blocked_attention", mutates_args=())
def _forward_op(
    query: Tensor | None,
    key: Tensor | None,
    query_bias: Tensor | None,
    key_bias: Tensor | None,
    table: Tensor | None,
    value: Tensor,
    padding: Tensor | None,
    pattern: Tensor | None,
    seed: Tensor | None,
    plan: str,
) -> tuple[Tensor, Tensor]:
    return _forward(
        Tensors(query, key, query_bias, key_bias, table, value, padding, pattern, seed), Plan.model_validate_json(plan)
    )


@_forward_op.register_fake
def _(
    query: Tensor | None,  # noqa: ARG001
    key: Tensor | None,  # noqa: ARG001
    query_bias: Tensor | None,  # noqa: ARG001
    key_bias: Tensor | None,  # noqa: ARG001
    table: Tensor | None,  # noqa: ARG001
    value: Tensor,
    padding: Tensor | None,  # noqa: ARG001
    pattern: Tensor | None,  # noqa: ARG001
    seed: Tensor | None,  # noqa: ARG001
    plan: str,
) -> tuple[Tensor, Tensor]:
    how = Plan.model_validate_json(plan)
    batch, heads, _, width = value.shape
    exact = torch.float64 if value.dtype == torch.float64 else torch.float32
    statistics = _parts(how.normaliser, how.mask)[0].statistics
    return (
        value.new_empty(batch, heads, how.num_queries, width),
        value.new_empty(batch * heads, how.num_queries, statistics, dtype=exact),
    )


@torch.library.custom_op("attnlab::blocked_attention_backward", mutates_args=())
def _backward_op(
    gradient: Tensor,
    kept: Tensor,
    query: Tensor | None,
    key: Tensor | None,
    query_bias: Tensor | None,
    key_bias: Tensor | None,
    table: Tensor | None,
    value: Tensor,
    padding: Tensor | None,
    pattern: Tensor | None,
    seed: Tensor | None,
    plan: str,
) -> list[Tensor]:
    tensors = Tensors(query, key, query_bias, key_bias, table, value, padding, pattern, seed)
    found = _backward(gradient, kept, tensors, Plan.model_validate_json(plan))
    return [tensor.contiguous() for tensor in found if tensor is not None]


@_backward_op.register_fake
def _(
    gradient: Tensor,  # noqa: ARG001
    kept: Tensor,  # noqa: ARG001
    query: Tensor | None,
    key: Tensor | None,
    query_bias: Tensor | None,
    key_bias: Tensor | None,
    table: Tensor | None,
    value: Tensor,
    padding: Tensor | None,  # noqa: ARG001
    pattern: Tensor | None,  # noqa: ARG001
    seed: Tensor | None,  # noqa: ARG001
    plan: str,  # noqa: ARG001
) -> list[Tensor]:
    present = (tensor for tensor in (query, key, query_bias, key_bias, table, value) if tensor is not None)
    return [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in present]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, plan = inputs
    ctx.plan = plan
    ctx.save_for_backward(output[1], *tensors)


def _derive(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    kept, *tensors = ctx.saved_tensors
    found = iter(_backward_op(gradient, kept, *tensors, ctx.plan))
    return *(None if tensor is None else next(found) for tensor in tensors[:6]), None, None, None, None


_forward_op.register_autograd(_derive, setup_context=_setup)
