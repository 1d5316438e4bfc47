"""The base of everything a specification is made of: a small frozen value with a `kind`.

A family (scores, normalisers, positions, operators) is an abstract subclass of `Part` that names its `family`; a
concrete part is a subclass that names its `kind`. Defining the class is all it takes to make the kind known, in this
package or in a user's own file.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, ValidationError, model_serializer

from attnlab.errors import SpecError, UnknownNameError, as_spec_error


class Part(BaseModel):
    """A named choice with its numbers; equal, hashed and stored by value."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    family: ClassVar[str] = "part"
    kind: ClassVar[str]
    _known: ClassVar[dict[tuple[str, str], type[Part]]] = {}

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise as_spec_error(error, f"{self.family} {type(self).kind!r}") from None
        assert self.text  # made now, because `torch.compile` can read it later but not make it

    @functools.cached_property
    def text(self) -> str:
        """The part as JSON."""
        return self.model_dump_json()

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        if "kind" not in cls.__dict__:
            return
        holder = cls._known.get((cls.family, cls.kind))
        if holder is not None and (holder.__module__, holder.__qualname__) != (cls.__module__, cls.__qualname__):
            raise SpecError(
                f"the {cls.family} kind {cls.kind!r} is taken by {holder.__module__}.{holder.__qualname__}",
                hint="give your own class another `kind`",
            )
        cls._known[cls.family, cls.kind] = cls

    @classmethod
    def kinds(cls) -> list[str]:
        """The known kinds of this family."""
        return sorted(kind for family, kind in cls._known if family == cls.family)

    @classmethod
    def parse(cls, value: object) -> Self:
        """A part from itself, from its kind ("sigmoid"), or from a mapping with its kind and numbers."""
        if isinstance(value, cls):
            return value
        numbers: dict[str, Any] = {}
        if isinstance(value, dict):
            numbers = dict(value)
            value = numbers.pop("kind", None)
        if not isinstance(value, str):
            raise SpecError(
                f"a {cls.family} is given by its kind or by a mapping with a kind, not by {value!r}",
                hint=f'for instance "{cls.kinds()[0]}"',
            )
        known = cls._known.get((cls.family, value))
        if known is None or not issubclass(known, cls):
            raise UnknownNameError(cls.family, value, cls.kinds())
        return known(**numbers)

    @model_serializer(mode="wrap")
    def _with_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"kind": type(self).kind, **handler(self)}

    def __str__(self) -> str:
        changed = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).kind + (f"({', '.join(f'{k}={v}' for k, v in changed.items())})" if changed else "")
