"""The changes that a variant makes to a spec: values, or functions of the spec or of the context length."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from attnlab.attention.parts.part import Part
from attnlab.attention.spec import AttentionSpec

Change = Any | Callable[[AttentionSpec], Any]


@dataclass(frozen=True)
class OfContext:
    """A number of a part that is a function of the context length."""

    make: Callable[[int], Any]


@dataclass(frozen=True)
class OfSpec:
    """A part that is a function of the base spec, with one of its numbers set."""

    make: Callable[[AttentionSpec], Change]
    field: str
    value: float

    def __call__(self, base: AttentionSpec) -> Change:
        return with_number(self.make(base), self.field, self.value)


def resolved(change: Change, base: AttentionSpec, context_length: int) -> Any:
    """Return the value that a field of `base` is changed to."""
    if callable(change):
        return change(base)
    if not isinstance(change, Mapping):
        return change
    return {key: one.make(context_length) if isinstance(one, OfContext) else one for key, one in change.items()}


def with_number(change: Change, field: str, value: float) -> Change:
    """Return a change to a part with one number of the part set."""
    if callable(change):
        return OfSpec(change, field, value)
    if isinstance(change, Part):
        return change.replace(**{field: value})
    return {**(change if isinstance(change, Mapping) else {"kind": change}), field: value}


def read_number(text: str) -> float | None:
    """Return the finite number in a text, as an int if it is whole; None if there is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() else value
