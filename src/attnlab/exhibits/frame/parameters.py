"""The parameters of an exhibit: a frozen value whose every field has a default, a range and a description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from attnlab.errors import SpecError, UnknownNameError

_LARGEST_SEED = 2**32 - 1


class Parameters(BaseModel):
    """The base. An exhibit without parameters uses it as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise self._explain(error) from None

    @model_validator(mode="after")
    def _small_seed(self) -> Self:
        seed = getattr(self, "seed", 0)
        if seed > _LARGEST_SEED:
            raise SpecError(f"seed = {seed} is more than a generator takes", hint=f"use 0 … {_LARGEST_SEED}")
        return self

    @classmethod
    def parse(cls, settings: Mapping[str, object]) -> Self:
        """From values as somebody types them: text is read as the field's type, and a,b,c as several."""
        fields: dict[str, object] = {}
        for name, value in settings.items():
            if name not in cls.model_fields:
                raise cls._unknown(name)
            several = get_origin(cls.model_fields[name].annotation) is tuple
            fields[name] = [part.strip() for part in value.split(",")] if several and isinstance(value, str) else value
        return cls(**fields)

    @classmethod
    def describe(cls) -> list[dict[str, Any]]:
        """Every field with its default, its limits and what it means, as plain data."""
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
    def _unknown(cls, name: str) -> Exception:
        if cls.model_fields:
            return UnknownNameError("parameter", name, cls.model_fields)
        return SpecError(f"there is no parameter called {name!r}", hint="this exhibit has none; leave out --set")

    @classmethod
    def _explain(cls, error: ValidationError) -> Exception:
        first = error.errors()[0]
        cause = first.get("ctx", {}).get("error")
        if isinstance(cause, SpecError):
            return cause
        if first["type"] == "extra_forbidden":
            return cls._unknown(str(first["loc"][0]))
        name = str(first["loc"][0]) if first["loc"] else "a parameter"
        field = cls.model_fields.get(name)
        message = first["msg"][0].lower() + first["msg"][1:]
        hint = None
        if field is not None:
            limits = limits_text(field.metadata)
            hint = f"{name}: {field.description or 'a number'}" + (f"; {limits}" if limits else "")
        return SpecError(f"{name} = {first['input']} is impossible: {message}", hint=hint)


def limits_text(metadata: list[Any]) -> str:
    """What a field allows, as in ≥ 1, ≤ 64."""
    words = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    found = [
        f"{sign} {getattr(limit, kind)}" for limit in metadata for kind, sign in words.items() if hasattr(limit, kind)
    ]
    return ", ".join(found)


def setting_text(value: object) -> str:
    """A value as somebody would type it: 2015 for 2015.0, and a,b,c for several."""
    if isinstance(value, list | tuple):
        return ",".join(setting_text(one) for one in value)
    return f"{value:.12g}" if isinstance(value, float) else str(value)
