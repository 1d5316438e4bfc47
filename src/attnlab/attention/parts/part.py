"""The base of everything that a specification is made of: a small frozen value with a `kind`.

A family (scores, normalisers, masks, positions, operators) is an abstract subclass of `Part` that names its `family`; a
concrete part is a subclass that names its `kind`. Defining the class is all it takes to make the kind known, in this
package or in a user's own file. The class also declares the variants of the catalogue that it makes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from pydantic import ConfigDict, SerializerFunctionWrapHandler, model_serializer

from attnlab.errors import SpecError, UnknownNameError
from attnlab.specification import Specification


@dataclass(frozen=True)
class Declared:
    """A variant of the catalogue that puts a part, with these numbers, in the place of GPT-2's.

    A number may be a function of the context length.
    """

    name: str
    meaning: str
    source: str
    asks: str
    numbers: Mapping[str, object | Callable[[int], object]] = field(default_factory=dict)


class Part(Specification):
    """A named choice with its numbers; equal, hashed and stored by value."""

    model_config = ConfigDict(defer_build=True)  # most kinds are never used in a run, and building each takes time
    family: ClassVar[str] = "part"
    kind: ClassVar[str]
    variants: ClassVar[tuple[Declared, ...]] = ()
    _known: ClassVar[dict[tuple[str, str], type[Part]]] = {}

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
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
        cls.what = f"{cls.family} {cls.kind!r}"
        cls._known[cls.family, cls.kind] = cls

    @classmethod
    def members(cls) -> list[type[Self]]:
        """Return the known classes of this family, in the order of their definition."""
        return [known for (family, _), known in cls._known.items() if family == cls.family and issubclass(known, cls)]

    @classmethod
    def kinds(cls) -> list[str]:
        """Return the known kinds of this family."""
        return sorted(known.kind for known in cls.members())

    @classmethod
    def parse(cls, value: object) -> Self:
        """Return a part from itself, from its kind ("sigmoid"), or from a mapping with its kind and numbers."""
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
    def _with_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        return {"kind": type(self).kind, **handler(self)}

    def __str__(self) -> str:
        numbers = ", ".join(f"{name}={getattr(self, name)}" for name in type(self).model_fields)
        return type(self).kind + (f"({numbers})" if numbers else "")
