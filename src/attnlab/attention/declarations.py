"""Check, when a layer is built, that a user-defined part declares the parameters that it uses.

A tensor that a part uses without declaring it is not a parameter of the layer, so training would never update it; a
declared tensor that it does not use gets no gradient. Both are refused here, as is an equation that fails or returns
the wrong shape. The check runs on a few numbers; `attnlab check` tests the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import torch
from torch import Tensor

from attnlab.attention.parts.head_outputs import HeadOutput
from attnlab.attention.parts.masks import Visibility
from attnlab.attention.parts.normalisers import Normaliser
from attnlab.attention.parts.operators import Operator
from attnlab.attention.parts.part import Biased, Parameter, Part, Projection
from attnlab.attention.parts.scores import Matched, Score
from attnlab.attention.parts.values import Values
from attnlab.attention.spec import AttentionSpec
from attnlab.errors import AttnlabError, SpecError

_MOST_TOKENS = 3


def check_declarations(spec: AttentionSpec) -> None:
    """Refuse a user-defined part whose equation does not match its declarations."""
    for part in spec.parts:
        if not type(part).__module__.startswith("attnlab.attention."):
            _check(part, spec)


@functools.lru_cache(maxsize=64)
def _check(part: Part, spec: AttentionSpec) -> None:
    with torch.enable_grad(), torch.device("cpu"):
        declared: dict[str, Parameter | Projection] = {**part.parameters(spec), **part.projections(spec)}
        own = {name: _values(one, spec) for name, one in declared.items()}
        if _result(part, spec, own).requires_grad:
            raise SpecError(
                f"{part.what} uses a tensor that requires a gradient and that it does not declare: the layer would "
                "never train it",
                hint='declare it, as in learned = {"gamma": Parameter(initial=1.0)}, and take it as an argument',
            )
        learned = {name: tensor.requires_grad_() for name, tensor in own.items()}
        if not learned:
            return
        result = _result(part, spec, learned)
        found = _gradients(result, learned)
    for name, gradient in found.items():
        if gradient is None:
            raise SpecError(
                f"{part.what} declares {name!r}, and its equation gives it no gradient",
                hint="use it without detach() or item(), or remove its declaration",
            )


def _gradients(result: Tensor, learned: Mapping[str, Tensor]) -> dict[str, Tensor | None]:
    if not result.requires_grad:
        return dict.fromkeys(learned)
    found = torch.autograd.grad(result.sum(), [*learned.values()], allow_unused=True)
    return dict(zip(learned, found, strict=True))


def _values(declared: Parameter | Projection, spec: AttentionSpec) -> Tensor:
    """Return numbers in the shape in which a part gets a declared tensor."""
    if isinstance(declared, Parameter):
        stored = torch.full(declared.stored_shape(spec.num_heads), declared.initial)
        return declared.arrange(stored + 0.1 * torch.linspace(0, 1, stored.numel()).view_as(stored))
    return _numbers(1, declared.heads(spec.num_heads), _tokens(spec), declared.width)


def _tokens(spec: AttentionSpec) -> int:
    """Return a small number of tokens, at most as many as a score has parameters for."""
    return min(_MOST_TOKENS, spec.context_length or _MOST_TOKENS)


def _result(part: Part, spec: AttentionSpec, own: Mapping[str, Tensor]) -> Tensor:
    """Return the result of a part on a few numbers, (batch or 1, heads or 1, tokens, …)."""
    heads, tokens = spec.num_heads, _tokens(spec)
    try:
        result, wanted = _computed(part, spec, own)
    except AttnlabError:
        raise
    except Exception as error:
        raise SpecError(
            f"the equation of {part.what} failed on {heads} heads and {tokens} tokens: {type(error).__name__}: {error}",
            hint="what it learns arrives by name, (heads, 1, 1) for a number per head",
        ) from error
    if not _fits(result, wanted):
        shape = tuple(getattr(result, "shape", ())) or type(result).__name__
        raise SpecError(
            f"the equation of {part.what} gave {shape}, not {wanted}", hint="check its shapes, (batch, heads, …) first"
        )
    return result


def _fits(result: object, wanted: tuple[int, ...]) -> bool:
    """Return whether a result has a shape, up to dimensions of 1 in front of the last two."""
    if not isinstance(result, Tensor) or result.dim() != len(wanted) or result.shape[-2:] != wanted[-2:]:
        return False
    return all(size in (1, needed) for size, needed in zip(result.shape, wanted, strict=True))


def _computed(part: Part, spec: AttentionSpec, own: Mapping[str, Tensor]) -> tuple[Tensor, tuple[int, ...]]:
    """Return the result of a part's equation, and the shape that it should have."""
    heads, tokens = spec.num_heads, _tokens(spec)
    grid = (1, heads, tokens, tokens)
    vectors = (1, heads, tokens, spec.value_width)
    visibility = Visibility(spec.mask, tokens, tokens)
    query, key = (_numbers(1, heads, tokens, spec.key_width) + shift for shift in (0.0, 0.3))
    if isinstance(part, Normaliser):
        return part.weights(_numbers(*grid), visibility.grid(), **own), grid
    if isinstance(part, Score):
        return part.define(Matched(query, key, tokens, tokens), **own), grid
    if isinstance(part, Operator):
        return part.define(query, key, _numbers(*vectors), visibility, **own), vectors
    if isinstance(part, HeadOutput):
        value = {"value": _numbers(*vectors) + 0.3} if part.takes_value else {}
        return part.apply(_numbers(*vectors), **value, **own), vectors
    if isinstance(part, Values):
        shape = (1, spec.num_key_value_heads, tokens, spec.value_width)
        return part.mix(_numbers(*shape), _numbers(*shape) + 0.3, **own), shape
    if isinstance(part, Biased) and part.adds_bias:
        return part.bias(torch.arange(tokens), torch.arange(tokens), heads, **own), grid[1:]
    return torch.zeros(grid), grid


def _numbers(*shape: int) -> Tensor:
    """Return numbers between −1 and 1 that do not come from the random generator."""
    count = torch.Size(shape).numel()
    return torch.sin(torch.arange(count, dtype=torch.float32) * 1.7).view(shape)
