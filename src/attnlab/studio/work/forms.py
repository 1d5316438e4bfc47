"""A form from a specification: each field with what may be chosen for it, read from the pydantic model itself."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from attnlab.attention.parts import Part


def describe(model: type[BaseModel], names: Sequence[str] | None = None) -> list[dict[str, object]]:
    """Return the fields of a model, in the order of `names`, as a page can draw them.

    A field is a `choice` among words, a `part` (a choice whose kinds have fields of their own), a `group` of fields, a
    `whole` or `real` number, or a `switch`; `optional` says that it may be left open.
    """
    fields = model.model_fields
    return [_field(name, fields[name]) for name in (fields if names is None else names)]


def _field(name: str, info: FieldInfo) -> dict[str, object]:
    kinds, optional = _alternatives(info.annotation)
    words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    numbers = [kind for kind in kinds if kind in {int, float}]
    parts = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Part)]
    described: dict[str, object] = {
        "name": name,
        "label": name.replace("_", " "),
        "optional": optional or not _has(info),
    }
    if parts:
        return {**described, **_part(parts[0])}
    if bool in kinds:
        return {**described, "type": "switch"}
    if numbers:
        return {**described, "type": "whole" if int in numbers else "real", "words": words, **_bounds(info, kinds)}
    return {**described, "type": "choice", "words": words}


def _part(family: type[Part]) -> dict[str, object]:
    if "kind" in family.__dict__:  # a family of one: its fields are the choice
        return {"type": "group", "fields": describe(family)}
    known = {kind: Part._known[family.family, kind] for kind in family.kinds()}
    return {"type": "part", "kinds": [{"kind": kind, "fields": describe(one)} for kind, one in known.items()]}


def _alternatives(annotation: Any) -> tuple[list[Any], bool]:
    """Return the types that a field may have, and whether None is among them."""
    if get_origin(annotation) in {Union, types.UnionType}:
        found = [kind for one in get_args(annotation) for kind in _alternatives(one)[0]]
        return found, types.NoneType in get_args(annotation)
    if hasattr(annotation, "__metadata__"):  # Annotated
        return _alternatives(annotation.__origin__)
    return [annotation], False


def _bounds(info: FieldInfo, kinds: Sequence[Any]) -> dict[str, float]:
    """Return the ends of a number's range, as far as they are declared."""
    marks = [*info.metadata]
    for one in get_args(info.annotation):
        marks += getattr(one, "__metadata__", ())
    bounds: dict[str, float] = {}
    step = 1 if int in kinds else 0
    for mark in marks:  # of `annotated_types`, which pydantic turns limits into
        for word, name, inside in (("ge", "least", 0), ("gt", "least", step), ("le", "most", 0), ("lt", "most", -step)):
            limit: Any = getattr(mark, word, None)
            if limit is not None:
                bounds[name] = limit + inside
    return bounds


def _has(info: FieldInfo) -> bool:
    """Return whether a field has a default of its own; None stands for one that is derived."""
    return info.default is not None
