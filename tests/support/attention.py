"""Running a spec by its kernel and by the reference, and comparing the two."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attnlab.attention import AttentionSpec, Matched, Visibility, attend
from attnlab.attention.functional import finish

WIDTH, HEADS, CONTEXT = 24, 4, 160


@dataclass(frozen=True)
class Inputs:
    """Queries, keys, values and the score's own parameters, with a gradient for the output."""

    query: Tensor | None
    key: Tensor | None
    value: Tensor
    extras: dict[str, Tensor]
    gradient: Tensor

    def tensors(self) -> list[Tensor]:
        return [tensor for tensor in (self.query, self.key, self.value, *self.extras.values()) if tensor is not None]

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Inputs:
        """The same with every tensor changed; each wants a gradient of its own."""

        def fresh(tensor: Tensor) -> Tensor:
            return change(tensor.detach()).requires_grad_()

        return Inputs(
            None if self.query is None else fresh(self.query),
            None if self.key is None else fresh(self.key),
            fresh(self.value),
            {name: fresh(tensor) for name, tensor in self.extras.items()},
            change(self.gradient),
        )

    def to(self, dtype: torch.dtype) -> Inputs:
        return self.mapped(lambda tensor: tensor.to(dtype).clone())

    def with_value(self, value: Tensor) -> Inputs:
        return replace(self, value=value)


def make_inputs(
    spec: AttentionSpec, queries: int, keys: int | None = None, batch: int = 2, dtype: torch.dtype = torch.float64
) -> Inputs:
    """Normal numbers in the shapes that the spec wants."""
    keys = queries if keys is None else keys

    def draw(*shape: int, std: float = 1.0, mean: float = 0.0) -> Tensor:
        return (torch.randn(shape, dtype=torch.float64) * std + mean).to(dtype).requires_grad_()

    return Inputs(
        draw(batch, spec.num_heads, queries, spec.key_width) if spec.score.projects_query else None,
        draw(batch, spec.num_key_value_heads, keys, spec.key_width) if spec.score.projects_key else None,
        draw(batch, spec.num_key_value_heads, keys, spec.value_width),
        {
            name: draw(*one.stored_shape(spec.num_heads), std=one.std or 0.3, mean=one.initial)
            for name, one in spec.parameters.items()
        }
        | {
            name: draw(batch, one.heads(spec.num_heads), queries if one.of == "query" else keys, one.width)
            for name, one in spec.projections.items()
        },
        draw(batch, spec.num_heads, queries, spec.value_width).detach(),
    )


def by_kernel(inputs: Inputs, spec: AttentionSpec, **options: Any) -> Tensor:
    return attend(
        inputs.query,
        inputs.key,
        inputs.value,
        spec,
        num_queries=inputs.gradient.shape[2],
        extras=inputs.extras,
        **options,
    )


def by_reference(inputs: Inputs, spec: AttentionSpec, **options: Any) -> Tensor:
    if spec.operator is not None:
        value = inputs.value.repeat_interleave(spec.group_size, 1)
        key = inputs.key.repeat_interleave(spec.group_size, 1)
        queries, start = inputs.gradient.shape[2], options.get("query_start", 0)
        visibility = Visibility(spec.mask, queries, value.shape[2], start, options.get("padding"))
        own = spec.own(spec.operator, inputs.extras)
        return finish(spec.operator.define(inputs.query, key, value, visibility, **own), spec, inputs.extras, value)
    return by_kernel(inputs, spec, return_weights=True, **options)[0]


def weights_of(inputs: Inputs, spec: AttentionSpec, **options: Any) -> Tensor:
    return by_kernel(inputs, spec, return_weights=True, **options)[1]


def weights_by_kernel(inputs: Inputs, spec: AttentionSpec, **options: Any) -> Tensor:
    """The weights that the kernel uses, read off with values that are unit vectors."""
    keys = inputs.value.shape[2]
    unit = torch.eye(keys, dtype=inputs.value.dtype).expand(*inputs.value.shape[:2], keys, keys)
    wide = AttentionSpec(
        **{name: getattr(spec, name) for name in AttentionSpec.model_fields}
        | {"value_width": keys, "head_output": None}
    )
    return by_kernel(inputs.with_value(unit), wide, **options)


def with_gradients(run: Callable[..., Tensor], inputs: Inputs, spec: AttentionSpec, **options: Any) -> list[Tensor]:
    """The output, and the gradient of every input; zeros for one that the output does not depend on."""
    output = run(inputs, spec, **options)
    tensors = inputs.tensors()
    found = torch.autograd.grad(output, tensors, inputs.gradient, allow_unused=True)
    return [output.detach(), *(torch.zeros_like(t) if g is None else g for t, g in zip(tensors, found, strict=True))]


def assert_conforms(
    inputs: Inputs, spec: AttentionSpec, dtype: torch.dtype, largest_score: float = 1.0, **options: Any
) -> None:
    """The kernel errs no more than a few times what the reference itself errs in this type.

    The truth is the reference in float64 on the same numbers. To the reference's own largest error come a few roundings
    of the largest number around, for results that the reference happens to hit exactly: a gradient that is 0 because
    its terms cancel is 0 up to their rounding. A head's own parameter gathers its gradient from all tokens, and
    roundings add up like a random walk. Where scores are huge, so is their rounding, and an exponential passes it on to
    the weights. In float64 the reference is the truth and says nothing of its own error, so that roundings are all
    there is to go by.
    """
    inputs = inputs.to(dtype)
    truth = with_gradients(by_reference, inputs.to(torch.float64), spec, **options)
    own = with_gradients(by_reference, inputs, spec, **options)
    found = with_gradients(by_kernel, inputs, spec, **options)
    roundings = 64 if dtype == torch.float64 else 8
    floor = roundings * torch.finfo(dtype).eps * largest_score * max(float(tensor.abs().max()) for tensor in truth)
    for number, (true, reference, kernel) in enumerate(zip(truth, own, found, strict=True)):
        assert kernel.dtype == dtype
        assert kernel.shape == reference.shape
        terms = max(1.0, truth[0].numel() / true.numel())
        allowed = 4 * float((reference.double() - true).abs().max()) + floor * math.sqrt(terms)
        error = float((kernel.double() - true).abs().max())
        assert error <= allowed, f"tensor {number} of {spec} errs by {error:.3g}, more than {allowed:.3g}"


def matched(inputs: Inputs, spec: AttentionSpec) -> Matched:
    """What the score is made of, with key heads repeated for the queries that share them."""
    key = None if inputs.key is None else inputs.key.detach().repeat_interleave(spec.group_size, 1)
    query = None if inputs.query is None else inputs.query.detach()
    extras = {name: tensor.detach() for name, tensor in inputs.extras.items()}
    return Matched(query, key, inputs.gradient.shape[2], inputs.value.shape[2], 0, extras)
