"""The base class of all parts of a specification: a small immutable value with a `kind`.

A family (scores, normalisers, masks, positions, operators, head outputs) is an abstract subclass of `Part` that names
its `family`; a concrete part is a subclass that names its `kind`. Defining the class registers the
kind, in this package or in a user's own file. The class also declares its variants in the catalogue and the parameters
that it learns:

    class SoftmaxPower(Normaliser):
        kind = "softmax-power"
        learned = {"gamma": Parameter(initial=1.0)}                 one number for each head

        def weights(self, scores, visible, gamma): ...

The layer owns these tensors: they are trained, saved, resumed and counted like its other weights. The functions of the
part receive them by name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, SerializerFunctionWrapHandler, model_serializer
from torch import Tensor

from attnlab.errors import SpecError, UnknownNameError
from attnlab.specification import Specification

if TYPE_CHECKING:
    from attnlab.attention.spec import AttentionSpec


@dataclass(frozen=True)
class Number:
    """A number that may follow the name of a variant, as in `window:256`.

    `field` is the field that it sets: one of the spec, or of one of its parts, as in "normaliser.alpha".
    """

    field: str
    example: str
    meaning: str  # of the variant; {} stands for the number


@dataclass(frozen=True)
class Declared:
    """A variant of the catalogue that replaces GPT-2's part with this one, with these numbers.

    A number may be a function of the context length. `number` is the one that may follow the name; its field is one of
    the part's.
    """

    name: str
    meaning: str
    source: str
    asks: str
    numbers: Mapping[str, object | Callable[[int], object]] = field(default_factory=dict)
    number: Number | None = None
    also: Mapping[str, str] = field(default_factory=dict)  # other fields of the spec that it changes


@dataclass(frozen=True)
class Parameter:
    """A parameter of a part, and the normal distribution that it is initialised from.

    `shape` is that for one head, one layer or the whole model, as `per` says. A part gets the values of all heads in a
    shape that broadcasts with scores (batch, heads, queries, keys) and with vectors (batch, heads, tokens, width):
    (heads, 1, 1) for a number per head, (heads, 1, n) for n of them, (heads, m, n) for a table. A parameter of a layer
    or of the model is passed in its own shape.
    """

    initial: float = 0.0
    std: float = 0.0
    shape: tuple[int, ...] = ()
    per: Literal["head", "layer", "model"] = "head"
    decay: bool | None = None  # whether weight decay acts on it; None: on tables, as on other weights

    def stored_shape(self, num_heads: int) -> tuple[int, ...]:
        """Return the shape in which the layer keeps it."""
        return (num_heads, *self.shape) if self.per == "head" else self.shape

    def arrange(self, tensor: Tensor) -> Tensor:
        """Return the stored tensor in the shape in which the part gets it."""
        missing = 2 - len(self.shape)
        return tensor.view(tensor.shape[0], *(1,) * missing, *self.shape) if self.per == "head" and missing else tensor


@dataclass(frozen=True)
class Projection:
    """A projection of every token that a part needs: x W, of this width for each head, without a bias.

    It is passed as (batch, heads, tokens, width). `of` is "query" for tokens that attend and "key" for tokens that are
    attended to, whose vectors are cached. With `per="layer"` all heads share one, (batch, 1, tokens, width).
    """

    width: int = 1
    of: Literal["query", "key"] = "query"
    per: Literal["head", "layer"] = "head"

    def heads(self, num_heads: int) -> int:
        """Return the number of vectors per token."""
        return num_heads if self.per == "head" else 1

    def columns(self, num_heads: int) -> int:
        """Return the output width of the projection, for all heads."""
        return self.heads(num_heads) * self.width


class Part(Specification):
    """A named choice with its numbers; compared, hashed and stored by value."""

    model_config = ConfigDict(defer_build=True)  # most kinds are never used in a run, and building each takes time
    family: ClassVar[str] = "part"
    kind: ClassVar[str]
    variants: ClassVar[tuple[Declared, ...]] = ()
    learned: ClassVar[Mapping[str, Parameter]] = {}
    projected: ClassVar[Mapping[str, Projection]] = {}
    _known: ClassVar[dict[tuple[str, str], type[Part]]] = {}

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        assert self.text  # computed now, because `torch.compile` can read it later but not compute it

    @functools.cached_property
    def text(self) -> str:
        """The part as JSON."""
        return self.model_dump_json()

    def parameters(self, spec: AttentionSpec) -> Mapping[str, Parameter]:  # noqa: ARG002
        """Return the parameters of this part at the size of a spec."""
        return self.learned

    def projections(self, spec: AttentionSpec) -> Mapping[str, Projection]:  # noqa: ARG002
        """Return the projections that this part needs, at the size of a spec."""
        return self.projected

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


class Biased(Part):
    """A part that may add a bias to the scores, by the positions of query and key."""

    equation: ClassVar[str] = ""  # of the bias
    adds_bias: ClassVar[bool] = False  # whether the class states a `bias`

    @classmethod
    def __pydantic_init_subclass__(cls, **others: Any) -> None:
        super().__pydantic_init_subclass__(**others)
        cls.adds_bias = cls.bias is not Biased.bias

    def bias(self, queries: Tensor, keys: Tensor, num_heads: int, *args: Any, **own: Any) -> Tensor:
        """Return the bias on the scores of queries and keys at these positions, (heads or 1, queries, keys)."""
        raise NotImplementedError


def which_add_bias(*parts: Biased | None) -> tuple[Biased, ...]:
    """Return those parts that add a bias to the scores."""
    return tuple(part for part in parts if part is not None and part.adds_bias)
