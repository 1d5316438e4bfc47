"""The blocked kernel as one differentiable operation.

In eager mode it is an autograd function. Under `torch.compile` the same two passes are custom operators, which are
opaque to the compiler. Half-precision inputs are computed in float32, whatever autocast says, and the output has the
dtype of the values. A second derivative is refused.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from attnlab.attention.kernels.blocked import BlockedAttention, LearnedTensor
from attnlab.attention.kernels.dropout import WeightDropout
from attnlab.attention.parts.masks import Mask, Visibility
from attnlab.attention.parts.normalisers import Normaliser
from attnlab.attention.parts.part import which_add_bias
from attnlab.attention.parts.positions import Position
from attnlab.errors import UnsupportedError


@dataclass(frozen=True)
class Tensors:
    """The tensors of a call, (batch, heads, …); a tensor that all sequences share has a batch size of 1."""

    query: Tensor | None
    key: Tensor | None
    query_bias: Tensor | None
    key_bias: Tensor | None
    table: Tensor | None
    value: Tensor
    padding: Tensor | None
    pattern: Tensor | None
    seed: Tensor | None
    learned: tuple[Tensor, ...] = ()  # as the parts get them, without a batch dimension

    def as_tuple(self) -> tuple[Tensor | None, ...]:
        return *(getattr(self, name) for name in _ALONE), *self.learned

    @classmethod
    def from_flat(cls, *tensors: Tensor | None) -> Tensors:
        """Rebuild the `Tensors` from their `as_tuple`."""
        alone: Any = dict(zip(_ALONE, tensors, strict=False))
        return cls(**alone, learned=tensors[len(_ALONE) :])  # type: ignore[arg-type]


_ALONE = tuple(field.name for field in fields(Tensors))[:-1]


@dataclass(frozen=True)
class CallOptions:
    """The arguments of a call that are not tensors."""

    normaliser: Normaliser
    mask: Mask
    position: Position | None
    learned: tuple[tuple[str, str, bool], ...]  # family, name, and whether each head has its own
    num_heads: int
    num_queries: int
    query_start: int
    scale: float
    dropout: float

    @property
    def uses_autograd(self) -> bool:
        """Return whether the backward pass differentiates an equation by autograd, as a custom operator cannot."""
        return type(self.normaliser).backward is Normaliser.backward or any(
            family != "normaliser" for family, *_ in self.learned
        )


def blocked_attention(tensors: Tensors, options: CallOptions) -> Tensor:
    """Return the output, (batch, heads, queries, value width)."""
    if torch.compiler.is_compiling():
        if options.uses_autograd:
            apart = torch.compiler.disable(_Blocked.apply)  # type: ignore[no-untyped-call]
            eager: Tensor = apart(options, *tensors.as_tuple())
            return eager
        position = "" if options.position is None else options.position.text
        texts = options.normaliser.text, options.mask.text, position, _listed(options.learned)
        plain = options.num_heads, options.num_queries, options.query_start, options.scale, options.dropout
        alone = (getattr(tensors, name) for name in _ALONE)
        output: Tensor = _forward_op(*alone, list(tensors.learned), *texts, *plain)[0]
        return output
    return _Blocked.apply(options, *tensors.as_tuple())  # type: ignore[no-any-return, no-untyped-call]


def _listed(learned: tuple[tuple[str, str, bool], ...]) -> str:
    return ";".join(f"{family},{name},{'heads' if per_head else ''}" for family, name, per_head in learned)


@functools.lru_cache(maxsize=256)
def _parts(normaliser: str, mask: str, position: str, learned: str) -> tuple[Any, ...]:
    listed = [one.split(",") for one in learned.split(";") if one]
    return (
        Normaliser.parse(json.loads(normaliser)),
        Mask.parse(json.loads(mask)),
        Position.parse(json.loads(position)) if position else None,
        tuple((family, name, bool(per_head)) for family, name, per_head in listed),
    )


def _options(normaliser: str, mask: str, position: str, learned: str, *plain: Any) -> CallOptions:
    """Return the options from text and numbers, the only values that a compiled graph can hold."""
    return CallOptions(*_parts(normaliser, mask, position, learned), *plain)


def _kernel(tensors: Tensors, options: CallOptions) -> BlockedAttention:
    value = tensors.value
    batch, _, keys, _ = value.shape
    exact = torch.float64 if value.dtype == torch.float64 else torch.float32

    def flat(vectors: Tensor | None) -> Tensor | None:
        if vectors is None:
            return None
        return vectors.to(exact).expand(batch, *vectors.shape[1:]).flatten(0, 1)

    lengths = options.num_queries, keys, options.query_start
    visibility = Visibility(options.mask, *lengths, tensors.padding, tensors.pattern)
    flat_value = flat(value)
    assert flat_value is not None
    return BlockedAttention(
        options.normaliser,
        visibility,
        flat_value,
        flat(tensors.query),
        flat(tensors.key),
        flat(tensors.query_bias),
        flat(tensors.key_bias),
        None if tensors.table is None else tensors.table.to(exact).flatten(0, 1),
        batch,
        options.num_heads,
        options.scale,
        which_add_bias(options.position, options.mask),
        tuple(
            LearnedTensor(*names, tensor.detach().to(exact))
            for names, tensor in zip(options.learned, tensors.learned, strict=True)
        ),
        WeightDropout(options.dropout, tensors.seed) if tensors.seed is not None else None,
    )


def _forward(tensors: Tensors, options: CallOptions) -> tuple[Tensor, Tensor]:
    with torch.autocast(tensors.value.device.type, enabled=False):
        output, kept = _kernel(tensors, options).forward()
    return output.view(tensors.value.shape[0], options.num_heads, *output.shape[1:]).to(tensors.value.dtype), kept


def _backward(gradient: Tensor, kept: Tensor, tensors: Tensors, options: CallOptions) -> tuple[Tensor | None, ...]:
    """Return the gradients of query, key, biases, table, value and parameters, in the shapes and dtypes of these."""
    with torch.autocast(tensors.value.device.type, enabled=False):
        kernel = _kernel(tensors, options)
        found = kernel.backward(gradient.flatten(0, 1).to(kernel.value.dtype), kept)

    def shaped(result: Tensor | None, original: Tensor | None) -> Tensor | None:
        if result is None or original is None:
            return None
        result = result.view(-1, *original.shape[1:])
        if original.shape[0] < result.shape[0]:
            result = result.sum(0, keepdim=True)
        return result.to(original.dtype)

    alone = tuple(shaped(getattr(found, name), getattr(tensors, name)) for name in _ALONE[:_DIFFERENTIABLE])
    learned = (one.to(tensor.dtype) for one, tensor in zip(found.learned, tensors.learned, strict=True))
    return *alone, *learned


def _refuse() -> UnsupportedError:
    return UnsupportedError(
        "the blocked attention kernel has no second derivative",
        hint="use `attnlab.attention.reference`, which can be differentiated as often as you like",
    )


class _Blocked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, options: CallOptions, *tensors: Tensor | None) -> Tensor:
        output, kept = _forward(Tensors.from_flat(*tensors), options)
        ctx.options = options
        ctx.save_for_backward(kept, *tensors)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        kept, *tensors = ctx.saved_tensors
        gradients = _Backward.apply(ctx.options, gradient, kept, *tensors)  # type: ignore[no-untyped-call]
        found, learned = gradients[:_DIFFERENTIABLE], gradients[_DIFFERENTIABLE:]
        return None, *found, *(None,) * (len(_ALONE) - _DIFFERENTIABLE), *learned


class _Backward(torch.autograd.Function):
    """The backward pass as a separate function, so that a second derivative fails with a clear error."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ARG004
        options: CallOptions,
        gradient: Tensor,
        kept: Tensor,
        *tensors: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        return _backward(gradient, kept, Tensors.from_flat(*tensors), options)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:  # noqa: ARG004
        raise _refuse()


# The two passes as operators. Their arguments are those of `Tensors`, then those of `CallOptions` with parts as text.
_ARGUMENTS = (
    "Tensor? query, Tensor? key, Tensor? query_bias, Tensor? key_bias, Tensor? table, Tensor value, "
    "Tensor? padding, Tensor? pattern, Tensor? seed, Tensor[] learned, "
    "str normaliser, str mask, str position, str names, SymInt num_heads, SymInt num_queries, SymInt query_start, "
    "float scale, float dropout"
)
_FORWARD = f"({_ARGUMENTS}) -> (Tensor, Tensor)"
_BACKWARD = f"(Tensor gradient, Tensor kept, {_ARGUMENTS}) -> Tensor[]"
_TENSORS = len(fields(Tensors))


def _tensors(arguments: tuple[Any, ...]) -> Tensors:
    return Tensors.from_flat(*arguments[: _TENSORS - 1], *arguments[_TENSORS - 1])


@torch.library.custom_op("attnlab::blocked_attention", mutates_args=(), schema=_FORWARD)
def _forward_op(*arguments: Any) -> tuple[Tensor, Tensor]:
    return _forward(_tensors(arguments), _options(*arguments[_TENSORS:]))


@torch.library.custom_op("attnlab::blocked_attention_backward", mutates_args=(), schema=_BACKWARD)
def _backward_op(gradient: Tensor, kept: Tensor, *arguments: Any) -> list[Tensor]:
    found = _backward(gradient, kept, _tensors(arguments), _options(*arguments[_TENSORS:]))
    return [tensor.contiguous() for tensor in found if tensor is not None]


_DIFFERENTIABLE = 6  # the first of the tensors: query, key, their biases, table, value


@_forward_op.register_fake
def _(*inputs: Any) -> tuple[Tensor, Tensor]:
    value, normaliser, (heads, num_queries) = inputs[5], inputs[_TENSORS], inputs[_TENSORS + 4 : _TENSORS + 6]
    batch, _, _, width = value.shape
    exact = torch.float64 if value.dtype == torch.float64 else torch.float32
    statistics = Normaliser.parse(json.loads(normaliser)).statistics
    return (
        value.new_empty(batch, heads, num_queries, width),
        value.new_empty(batch * heads, num_queries, statistics, dtype=exact),
    )


@_backward_op.register_fake
def _(gradient: Tensor, kept: Tensor, *inputs: Any) -> list[Tensor]:
    del gradient, kept
    given = (*inputs[:_DIFFERENTIABLE], *inputs[_TENSORS - 1])
    present = (tensor for tensor in given if tensor is not None)
    return [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in present]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.plain = inputs[_TENSORS:]
    ctx.save_for_backward(output[1], *inputs[: _TENSORS - 1], *inputs[_TENSORS - 1])


def _derive(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Any, ...]:
    kept, *tensors = ctx.saved_tensors
    alone, learned = tensors[: _TENSORS - 1], list(tensors[_TENSORS - 1 :])
    found = iter(_backward_op(gradient, kept, *alone, learned, *ctx.plain))
    gradients = [None if tensor is None else next(found) for tensor in alone[:_DIFFERENTIABLE]]
    return *gradients, *(None,) * (len(alone) - _DIFFERENTIABLE), list(found), *(None,) * len(ctx.plain)


_forward_op.register_autograd(_derive, setup_context=_setup)
