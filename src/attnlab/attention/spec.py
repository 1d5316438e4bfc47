"""An attention variant as an immutable value with independent fields.

    AttentionSpec(model_width=768, num_heads=12)                                   GPT-2's attention
    AttentionSpec(model_width=768, num_heads=12, sharing="key-value")              one projection for keys and values
    AttentionSpec(model_width=768, num_heads=12, normaliser=Entmax(alpha=1.3))

A spec is validated when it is built: an impossible combination is refused with the reason and the nearest valid spec
(`rules.py`). Specs are compared and hashed by value; `to_json` and `from_json` serialise them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, PositiveInt, SerializeAsAny, model_validator
from torch import Tensor

from attnlab.attention.layers.own import OwnLayer
from attnlab.attention.parts.compression import Latent
from attnlab.attention.parts.head_outputs import HeadOutput
from attnlab.attention.parts.masks import Mask
from attnlab.attention.parts.normalisers import Normaliser, Softmax
from attnlab.attention.parts.operators import Operator
from attnlab.attention.parts.part import Biased, Parameter, Part, Projection, which_add_bias
from attnlab.attention.parts.positions import Position
from attnlab.attention.parts.scores import ScaledDot, Score
from attnlab.attention.parts.values import Values
from attnlab.attention.rules import check
from attnlab.errors import FileError, InputError, SpecError
from attnlab.specification import Specification

Sharing = Literal["none", "key-value", "query-key", "query-key-value", "identity"]
Probability = Annotated[float, Field(ge=0, lt=1)]


def _optional(family: type[Part]) -> BeforeValidator:
    return BeforeValidator(lambda value: None if value is None else family.parse(value))


class AttentionSpec(Specification):
    """The complete specification of one attention layer.

    Omitted widths are derived: `key_width` = model_width / num_heads, `value_width` = key_width (or the model's width
    for the full value map), `num_key_value_heads` = num_heads.
    """

    model_config = ConfigDict(defer_build=True)
    what = "an attention spec"

    model_width: PositiveInt
    num_heads: PositiveInt
    num_key_value_heads: PositiveInt = None  # type: ignore[assignment]  # derived before validation
    key_width: PositiveInt = None  # type: ignore[assignment]
    value_width: PositiveInt = None  # type: ignore[assignment]
    context_length: PositiveInt | None = None  # only for scores and layers with parameters of this size

    score: Annotated[SerializeAsAny[Score], BeforeValidator(Score.parse)] = ScaledDot()
    normaliser: Annotated[SerializeAsAny[Normaliser], BeforeValidator(Normaliser.parse)] = Softmax()
    sharing: Sharing = "none"
    value_map: Literal["factored", "full"] = "factored"
    join: Literal["projection", "average"] = "projection"
    mask: Annotated[SerializeAsAny[Mask], BeforeValidator(Mask.parse)] = Mask()
    source: Literal["self", "cross"] = "self"
    position: Annotated[SerializeAsAny[Position] | None, _optional(Position)] = None  # None: the recipe decides
    operator: Annotated[SerializeAsAny[Operator] | None, _optional(Operator)] = None
    head_output: Annotated[SerializeAsAny[HeadOutput] | None, _optional(HeadOutput)] = Field(
        default=None, exclude_if=lambda value: value is None
    )
    compression: Annotated[SerializeAsAny[Latent] | None, _optional(Latent)] = Field(
        default=None, exclude_if=lambda value: value is None
    )
    values: Annotated[SerializeAsAny[Values] | None, _optional(Values)] = Field(
        default=None, exclude_if=lambda value: value is None
    )
    layer: Annotated[SerializeAsAny[OwnLayer] | None, _optional(OwnLayer)] = Field(
        default=None, exclude_if=lambda value: value is None
    )

    bias: bool = True
    weight_dropout: Probability = 0.0
    output_dropout: Probability = 0.0

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, fields: Any) -> Any:
        """Fill in the widths that follow from the others; invalid values are left to field validation."""
        if not isinstance(fields, dict):
            return fields
        fields = dict(fields)
        width, heads = fields.get("model_width"), fields.get("num_heads")
        if not (type(width) is int and type(heads) is int and width > 0 and heads > 0):
            return fields
        if fields.get("key_width") is None:
            if width % heads:
                lower = width - width % heads
                raise SpecError(
                    f"a model width of {width} does not divide into {heads} heads",
                    hint=f"use a multiple of {heads} such as {lower or heads}, or give key_width",
                )
            fields["key_width"] = width // heads
        if fields.get("value_width") is None:
            fields["value_width"] = width if fields.get("value_map") == "full" else fields["key_width"]
        if fields.get("num_key_value_heads") is None:
            fields["num_key_value_heads"] = heads
        return fields

    @model_validator(mode="after")
    def _possible(self) -> Self:
        check(self)
        assert self._names is not None  # computed now, because `torch.compile` can read it later but not compute it
        assert self.one_map is not None
        return self

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed. Widths that were derived are derived again."""
        return super().replace(**{**dict.fromkeys(self._derived(changes)), **changes})

    def _derived(self, changes: Mapping[str, object]) -> set[str]:
        """Return the fields to derive again after these changes: those that have the value that would be derived."""
        names = set()
        if {"model_width", "num_heads"} & changes.keys() and self.key_width * self.num_heads == self.model_width:
            names.add("key_width")
        plain = self.model_width if self.value_map == "full" else self.key_width
        moved = {"model_width", "num_heads", "key_width", "value_map"} & changes.keys()
        if moved and self.value_width == plain:
            names.add("value_width")
        if "num_heads" in changes and self.num_key_value_heads == self.num_heads:
            names.add("num_key_value_heads")
        return names

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts in use: an operator replaces score and normaliser, a user-defined layer replaces all."""
        if self.layer is not None:
            return (self.layer,)
        middle = (self.score, self.normaliser) if self.operator is None else (self.operator,)
        others = (self.mask, self.position, self.head_output, self.compression, self.values)
        return tuple(part for part in (*middle, *others) if part is not None)

    @property
    def biased(self) -> tuple[Biased, ...]:
        """The parts that add a bias to the scores."""
        return which_add_bias(self.position, self.mask)

    def parameters_of(self, part: Part) -> dict[str, Parameter]:
        """Return the declared parameters of a part, by the names under which the layer keeps them."""
        names = self._names.get(part.family, {})
        return {key: one for key, one in names.values() if isinstance(one, Parameter)}

    @property
    def parameters(self) -> dict[str, Parameter]:
        """Return the declared parameters of all parts, by the names under which the layer keeps them."""
        return {key: one for key, one in self._declared() if isinstance(one, Parameter)}

    @property
    def projections(self) -> dict[str, Projection]:
        """The declared projections of all parts, by the names under which the layer keeps them."""
        return {key: one for key, one in self._declared() if isinstance(one, Projection)}

    @functools.cached_property
    def of_model(self) -> dict[str, tuple[str, Parameter]]:
        """The parameters that belong to the whole model, by the names of the layer, with the kind of their part."""
        return {
            name: (part.kind, one)
            for part in self.parts
            for name, one in self.parameters_of(part).items()
            if one.per == "model"
        }

    def _declared(self) -> Iterator[tuple[str, Parameter | Projection]]:
        return (item for names in self._names.values() for item in names.values())

    def own(self, part: Part, extras: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the parameters and projections of a part, by its own names and in the shapes that it expects."""
        found = {}
        for name, (key, one) in self._names.get(part.family, {}).items():
            if key not in extras:
                raise InputError(f"{part} needs its {name!r}, and it is missing", hint=f"pass extras={{{key!r}: …}}")
            found[name] = one.arrange(extras[key]) if isinstance(one, Parameter) else extras[key]
        return found

    @functools.cached_property
    def _names(self) -> dict[str, dict[str, tuple[str, Parameter | Projection]]]:
        """Return, by family, the own name of each declared tensor with its name in the layer and its declaration."""
        found = {}
        for part in self.parts:
            sized = self.one_map if part is self.score else self
            declared: dict[str, Parameter | Projection] = {**part.parameters(sized), **part.projections(sized)}
            if declared:
                prefix = "" if part.family == "score" else part.family.replace(" ", "_") + "_"
                found[part.family] = {name: (prefix + name, one) for name, one in declared.items()}
        return found

    @property
    def one_map(self) -> AttentionSpec:
        """Return the spec of one of the softmax maps that the normaliser combines; itself if it combines none."""
        return self if self.normaliser.maps == 1 else self._one_map

    @functools.cached_property
    def _one_map(self) -> AttentionSpec:
        halved = {"key_width": self.key_width // self.normaliser.maps, "value_width": self.value_width}
        plain = {"normaliser": Softmax(), "head_output": None, "values": None, "sharing": "none"}
        return self.replace(**halved, **plain)

    @property
    def group_size(self) -> int:
        """Return how many query heads share one key and value head."""
        return self.num_heads // self.num_key_value_heads

    @property
    def values_key(self) -> tuple[str, int, int]:
        """Return the key under which `FirstValues` holds values of this layer's source and shape."""
        return self.source, self.num_key_value_heads, self.value_width

    @property
    def has_map(self) -> bool:
        """Return whether the layer has attention weights."""
        return self.operator is None and self.layer is None

    @property
    def observed_heads(self) -> int:
        """Return how many heads can be observed: none in a user-defined layer."""
        return self.num_heads if self.layer is None else 0

    @property
    def needs_context(self) -> bool:
        """Return whether parameters have the size of the longest sequence, so that positions count from its start."""
        return self.score.needs_context if self.layer is None else self.layer.needs_context

    def to_json(self, indent: int | None = None) -> str:
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes | Path) -> AttentionSpec:
        """Return a spec from its JSON, or from a file that holds it."""
        if isinstance(text, Path):
            path = text
            try:
                text = path.read_bytes()
            except OSError as error:
                raise FileError(f"cannot read the spec {path}: {error.strerror}", hint="check the path") from None
        return super().from_json(text)


def borrowed(specs: Sequence[AttentionSpec]) -> list[frozenset[str]]:
    """Return, for each layer of a model, the names of its model-wide parameters that an earlier layer holds."""
    seen: set[tuple[str, tuple[str, Parameter]]] = set()
    found = []
    for spec in specs:
        shared = set(spec.of_model.items())
        found.append(frozenset(name for name, _ in shared & seen))
        seen |= shared
    return found


def first_value_layers(specs: Sequence[AttentionSpec]) -> dict[tuple[str, int, int], int]:
    """Return the index of each layer whose values later layers mix in, by its key in `FirstValues`."""
    found: dict[tuple[str, int, int], int] = {}
    for number, spec in enumerate(specs):
        if spec.values is not None:
            found.setdefault(spec.values_key, number)
    return found
