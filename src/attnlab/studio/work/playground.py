"""The playground: from matrices and a spec to every step of attention, and the form of a spec."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

import torch
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from torch import Tensor

from attnlab.attention import AttentionSpec, Score, equations, variant, variants
from attnlab.attention.blackboard import follow
from attnlab.attention.layer import projection_widths
from attnlab.attention.parts import Part
from attnlab.errors import InputError, SpecError, UnknownNameError
from attnlab.storage.records import to_plain
from attnlab.studio.work.first import load_presets
from attnlab.studio.work.state import MOST_TOKENS, MOST_WIDTH, State, resized

# The fields of a spec that affect what the playground shows. The others act in training, or when heads are combined.
FIELDS = (
    "score",
    "normaliser",
    "sharing",
    "mask",
    "position",
    "operator",
    "num_heads",
    "num_key_value_heads",
    "key_width",
    "value_width",
    "value_map",
)
_BESIDES = ("head_output", "compression")
_STEPS = ("query", "key", "value", "scores", "weights", "output")


def form() -> dict[str, object]:
    """Return what can be chosen about attention."""
    names = [one.name for one in variants() if "layer" not in one.changes]  # a whole layer has no matrices to show
    return {"fields": describe(AttentionSpec, FIELDS), "variants": names}


def attend(state: object = None, link: str | None = None) -> dict[str, object]:
    """Return every step of attention for a state, or for the one that a link holds."""
    return _attend(State.from_link(link) if link is not None else State.of(state))


def _attend(given: State) -> dict[str, object]:
    fitted = given.fitted()
    spec, layer = fitted.attention(), fitted.layer()
    with torch.no_grad():
        steps = follow(layer, torch.tensor(fitted.x, dtype=torch.float64), fitted.factor)
    found: dict[str, Tensor | None] = {name: getattr(steps, name) for name in _STEPS}
    return {
        "state": fitted.model_dump(mode="json"),
        "link": fitted.to_link(),
        "spec": _chosen(spec),
        "used": list(projection_widths(spec)),
        "group": spec.group_size,
        "equations": _equations(fitted, spec),
        "extras": {name: to_plain(tensor.tolist()) for name, tensor in layer.extras.items()},
        "steps": {name: None if step is None else to_plain(step.tolist()) for name, step in found.items()},
        "visible": steps.visible.tolist(),
    }


def vary(state: object, name: str) -> dict[str, object]:
    """Return the state with a variant of the catalogue for its own attention, at its own widths and mask."""
    given = State.of(state)
    own = given.attention()
    kept = {field: getattr(own, field) for field in ("num_heads", "key_width", "value_width", "mask")}
    base = AttentionSpec(model_width=own.model_width, bias=False, **kept)
    return _changed(given, lambda: variant(name).change(base, context_length=len(given.tokens)))


def change(state: object, changes: Mapping[str, object]) -> dict[str, object]:
    """Return the state with some fields of its attention changed."""
    given = State.of(state)
    if not isinstance(changes, Mapping):
        raise InputError(f"changes are an object, got {changes!r}", hint="name fields of the form and their values")
    odd = changes.keys() - set(FIELDS)
    if odd:
        raise UnknownNameError("field of the form", min(odd), FIELDS)
    if "score" in changes:
        needs = Score.parse(changes["score"]).needs_context
        changes = {**changes, "context_length": len(given.tokens) if needs else None}
    return _changed(given, lambda: given.attention().replace(**changes))


def _changed(given: State, make: Callable[[], AttentionSpec]) -> dict[str, object]:
    """Return the state with another spec, or with the nearest that is possible and a note that says why."""
    note = ""
    try:
        spec = make()
    except SpecError as error:
        if not isinstance(error.nearest, AttentionSpec):
            raise
        spec, note = error.nearest, str(error)
    return _attend(given.replace(spec=_chosen(spec))) | {"note": note}


def resize(state: object, tokens: int, width: int) -> dict[str, object]:
    """Return the state with more or fewer tokens, and vectors of another width."""
    given = State.of(state)
    if not 1 <= tokens <= MOST_TOKENS or not 1 <= width <= MOST_WIDTH:
        raise SpecError(
            f"{tokens} tokens of width {width} do not fit", hint=f"use 1 to {MOST_TOKENS} tokens of 1 to {MOST_WIDTH}"
        )
    names = [*given.tokens, *(f"x{number + 1}" for number in range(len(given.tokens), tokens))][:tokens]
    x = resized(given.x, tokens, width)
    return _attend(given.replace(tokens=names, x=x))


def export(state: object) -> dict[str, object]:
    """Return the state as a Python program that prints the same numbers."""
    return {"text": State.of(state).fitted().to_python()}


def _chosen(spec: AttentionSpec) -> dict[str, object]:
    """Return the fields of the form, and what a variant brings besides."""
    dumped = spec.model_dump(mode="json")
    return {name: dumped[name] for name in (*FIELDS, *_BESIDES) if name in dumped}


def _equations(state: State, spec: AttentionSpec) -> list[str]:
    """Return the equations of the spec, up to the output of each head."""
    lines = equations(spec)[:-1]
    if state.factor == 1:
        return lines
    factor = f"{state.factor:.4g}"
    return [line.replace("s_j = ", f"s_j = {factor} · ") for line in lines]


def presets() -> dict[str, object]:
    """Return every preset: its name, what to see in it, the exhibit that tells more, and its state."""
    return {"presets": load_presets()}


# The form


def describe(model: type[BaseModel], names: Sequence[str] | None = None) -> list[dict[str, object]]:
    """Return the fields of a model, in the order of `names`, as a page can draw them.

    A field is a `choice` among words, a `part` (a choice whose kinds have their own fields), a `group` of fields, a
    `whole` or `real` number, or a `switch`; `optional` says that it may be left empty.
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
        "optional": optional or info.default is None,  # None stands for a derived default
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
    for mark in marks:  # of `annotated_types`, to which pydantic converts limits
        for word, name, inside in (("ge", "least", 0), ("gt", "least", step), ("le", "most", 0), ("lt", "most", -step)):
            limit: Any = getattr(mark, word, None)
            if limit is not None:
                bounds[name] = limit + inside
    return bounds
