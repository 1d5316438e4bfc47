"""Treatments: named changes of a run.

    treatment("tied-kv")               a variant of attention
    treatment("fast")                  a recipe
    treatment("muon")                  an optimizer
    treatment("rope")                  a position
    treatment("learning_rate=3e-4")    any field of a run
    treatment("tied-kv & muon")        several at once

`+` joins variants of attention, and `&` treatments of any kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnlab.attention import variant, variants
from attnlab.errors import SpecError, UnknownNameError
from attnlab.training.recipes import OPTIMIZERS, RECIPES
from attnlab.training.spec import RunSpec


@dataclass(frozen=True)
class Treatment:
    """A named change of a run's spec."""

    name: str
    meaning: str
    changes: Mapping[str, Any]

    def change(self, spec: RunSpec) -> RunSpec:
        return spec.replace(**self.changes)


def treatment(name: str) -> Treatment:
    """A treatment by its name, or several joined by `&`."""
    parts = [_single(part.strip()) for part in name.split("&")]
    changes: dict[str, Any] = {}
    for part in parts:
        clash = changes.keys() & part.changes.keys()
        if clash:
            raise SpecError(
                f"{name!r} changes {', '.join(sorted(clash))} twice",
                hint="join variants of attention by +, and other treatments that change different things by &",
            )
        changes |= part.changes
    return Treatment(" & ".join(part.name for part in parts), " ".join(part.meaning for part in parts), changes)


def _single(name: str) -> Treatment:
    field, equals, value = (part.strip() for part in name.partition("="))
    if equals:
        return _of_field(name, field, value)
    if name in RECIPES:
        return Treatment(name, f"The recipe {name}.", {"recipe": name})
    if name in OPTIMIZERS:
        return Treatment(name, f"The optimizer {name}.", {"optimizer": name})
    try:
        found = variant(name)
    except UnknownNameError:
        known = [*(known.name for known in variants()), *RECIPES, *OPTIMIZERS]
        raise UnknownNameError("treatment", name, known) from None
    return Treatment(name, found.meaning, {"variant": name})


def _of_field(name: str, field: str, value: str) -> Treatment:
    known = [known for known in RunSpec.model_fields if known not in {"corpus", "seed"}]
    if field not in known:
        raise UnknownNameError("field of a run", field, known)
    changed: Any = getattr(RunSpec(**{field: value}), field)
    return Treatment(name, f"With {field} = {value}.", {field: changed})
