"""Gradients against finite differences, and the kernel against the definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from attnlab.attention import MultiHeadAttention, Visibility, WholeLayer, attend
from attnlab.attention.functional import finish
from attnlab.attention.groups import for_every_query_head
from attnlab.conformance.subject import CONTEXT, AnyLayer, Subject, difference, gradients_of, named_parameters, seeded

_STEP = 1e-6
_CLOSE = 1e-5
_DRAWS = 3


def _loss(layer: AnyLayer, x: Tensor, weights: Tensor) -> Tensor:
    output = layer(x)
    assert isinstance(output, Tensor)
    return (output * weights).sum()


def gradients(subject: Subject) -> str | None:
    """Return which gradient, by the input or by a parameter, differs from the numerical derivative.

    The derivative is measured along a random direction. A step may cross a kink of an equation, so a gradient counts as
    wrong only if it differs in most draws.
    """
    wrong: dict[str, list[str]] = {}
    flat: dict[str, int] = {}
    for draw in range(_DRAWS):
        for name, (slope, found, scale) in _slopes(subject, draw).items():
            if abs(slope - found) > _CLOSE * scale:
                text = f"by {name} is {found:.6g}, and the numerical derivative is {slope:.6g}"
                wrong.setdefault(name, []).append(text)
            flat[name] = flat.get(name, 0) + (max(abs(slope), abs(found)) < 1e-9 * scale)
    for texts in wrong.values():
        if len(texts) > _DRAWS // 2:
            return f"{CONTEXT} tokens: the gradient {texts[0]}"
    unused = _unused(subject)
    if unused is not None:
        return unused
    learned = subject.spec.parameters
    useless = [name for name, count in flat.items() if count == _DRAWS and name in learned]
    return f"changing {useless[0]} changes nothing: it cannot be learned" if useless else None


def _unused(subject: Subject) -> str | None:
    """Return which parameter of a whole layer takes no part in the output."""
    layer = subject.layer()
    if not isinstance(layer, WholeLayer):
        return None
    named = named_parameters(layer)
    output = _joined(layer, subject.tokens(CONTEXT))
    if not output.requires_grad:
        return "the output has no gradient by any parameter" if named else None
    found: tuple[Tensor | None, ...] = torch.autograd.grad(output.sum(), [*named.values()], allow_unused=True)
    lost = [name for name, gradient in zip(named, found, strict=True) if gradient is None]
    return f"{lost[0]} takes no part in the output: it cannot be learned" if lost else None


def _slopes(subject: Subject, draw: int) -> dict[str, tuple[float, float, float]]:
    """Return for the input and each parameter the measured derivative, that of autograd, and the scale of both."""
    layer, x = subject.layer(seed=draw), subject.tokens(CONTEXT, batch=2, seed=draw).requires_grad_()
    with seeded(100 + draw):
        weights = torch.randn_like(x)
        tensors = {"the input": x, **named_parameters(layer)}
        directions = {name: torch.randn_like(tensor) for name, tensor in tensors.items()}
    found = gradients_of(_loss(layer, x, weights), tensors)
    result = {}
    for name, tensor in tensors.items():
        along, gradient = directions[name], found[name]
        with torch.no_grad():
            values = []
            for sign in (1, -2):
                tensor.add_(along, alpha=sign * _STEP)
                values.append(float(_loss(layer, x, weights)))
            tensor.add_(along, alpha=_STEP)
        slope = (values[0] - values[1]) / (2 * _STEP)
        size = float((gradient * along).abs().sum())
        result[name] = slope, float((gradient * along).sum()), max(abs(slope), size, 1e-3 * abs(values[0]))
    return result


def kernel(subject: Subject) -> str | None:
    """Return where the kernel and the definition differ, in the output or in a gradient."""
    layer, x = subject.layer(), subject.tokens(CONTEXT, batch=2).requires_grad_()
    assert isinstance(layer, MultiHeadAttention)
    with seeded(7):
        weights = torch.randn_like(x)
    tensors = {"the input": x, **named_parameters(layer)}

    def outcome(compute: Callable[[], Tensor]) -> Mapping[str, Tensor]:
        output = compute()
        found = gradients_of((output * weights).sum(), tensors)
        return {"the output": output.detach(), **{f"the gradient by {name}": one for name, one in found.items()}}

    fast, slow = outcome(lambda: _joined(layer, x)), outcome(lambda: _defined(layer, x))
    largest = max(float(one.abs().max()) for one in slow.values())
    for name, one in fast.items():
        error = difference(one, slow[name])
        if error > 1e-7 and not float((one - slow[name]).abs().max()) < 1e-10 * largest:
            return f"{CONTEXT} tokens: {name} by the kernel differs by a relative {error:.2g} from the definition's"
    return None


def _joined(layer: AnyLayer, x: Tensor) -> Tensor:
    output = layer(x)
    assert isinstance(output, Tensor)
    return output


def _defined(layer: MultiHeadAttention, x: Tensor) -> Tensor:
    """Return the layer's output by the definition of its parts."""
    spec, extras = layer.spec, layer.learned(x)
    query, key, value = layer.place(*layer.project(x))
    if spec.operator is None:
        heads, _ = attend(query, key, value, spec, num_queries=x.shape[1], extras=extras, return_weights=True)
        return layer._join(heads)
    assert query is not None
    assert key is not None
    key, value = (for_every_query_head(tensor, spec) for tensor in (key, value))
    visibility = Visibility(spec.mask, x.shape[1], x.shape[1])
    heads = spec.operator.define(query, key, value, visibility, **spec.own(spec.operator, extras))
    return layer._join(finish(heads, spec, extras, value))
