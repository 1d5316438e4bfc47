"""The parameters of an exhibit: a frozen value whose every field has a default, a range and a description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, get_origin

from pydantic import ValidationError, model_validator

from attnlab.errors import AttnlabError, SpecError, UnknownNameError
from attnlab.specification import Specification

_LARGEST_SEED = 2**32 - 1


class Parameters(Specification):
    """The base. An exhibit without parameters uses it as it is."""

    @model_validator(mode="after")
    def _small_seed(self) -> Self:
        seed = getattr(self, "seed", 0)
        if seed > _LARGEST_SEED:
            raise SpecError(f"seed = {seed} is more than a generator takes", hint=f"use 0 … {_LARGEST_SEED}")
        return self

    @classmethod
    def parse(cls, settings: Mapping[str, object]) -> Self:
        """Return parameters from typed values: text is read as the field's type, and a,b,c as several."""
        fields: dict[str, object] = {}
        for name, value in settings.items():
            if name not in cls.model_fields:
                raise cls._unknown(name)
            several = get_origin(cls.model_fields[name].annotation) is tuple
            fields[name] = [part.strip() for part in value.split(",")] if several and isinstance(value, str) else value
        return cls(**fields)

    @classmethod
    def describe(cls) -> list[dict[str, object]]:
        """Return every field with its default, its limits and its meaning, as plain data."""
        return [
            {
                "name": name,
                "default": field.get_default(),
                "limits": limits_text(field.metadata),
                "meaning": field.description or "",
            }
            for name, field in cls.model_fields.items()
        ]

    @classmethod
    def explain(cls, error: ValidationError) -> AttnlabError:
        """Name the parameter as a user sets it, with its meaning and its limits as the hint."""
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        if first["type"] == "extra_forbidden":
            return cls._unknown(name)
        field = cls.model_fields.get(name)
        if field is None:
            return super().explain(error)
        message = first["msg"][0].lower() + first["msg"][1:]
        limits = limits_text(field.metadata)
        hint = f"{name}: {field.description or 'a number'}" + (f"; {limits}" if limits else "")
        return SpecError(f"{name} = {first['input']} is impossible: {message}", hint=hint)

    @classmethod
    def _unknown(cls, name: str) -> AttnlabError:
        if cls.model_fields:
            return UnknownNameError("parameter", name, cls.model_fields)
        return SpecError(f"there is no parameter called {name!r}", hint="this exhibit has none")


def limits_text(metadata: list[Any]) -> str:
    """Return what a field allows, as in ≥ 1, ≤ 64."""
    words = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    found = [
        f"{sign} {getattr(limit, kind)}" for limit in metadata for kind, sign in words.items() if hasattr(limit, kind)
    ]
    return ", ".join(found)


def setting_text(value: object) -> str:
    """Return a value as a user would type it: 2015 for 2015.0, and a,b,c for several."""
    if isinstance(value, list | tuple):
        return ",".join(setting_text(one) for one in value)
    return f"{value:.12g}" if isinstance(value, float) else str(value)
