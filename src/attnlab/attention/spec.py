"""A variant of attention as a value: a point in independent dimensions.

    AttentionSpec(model_width=768, num_heads=12)                                   GPT-2's attention
    AttentionSpec(model_width=768, num_heads=12, sharing="key-value")              one projection for keys and values
    AttentionSpec(model_width=768, num_heads=12, normaliser=Entmax(alpha=1.3))

A spec is checked when it is built: what is impossible is refused with the reason and the nearest that is possible
(`rules.py`). It is compared and hashed by value, and `to_json` / `from_json` keep it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, PositiveInt, SerializeAsAny, model_validator

from attnlab.attention.parts.masks import Mask
from attnlab.attention.parts.normalisers import Normaliser, Softmax
from attnlab.attention.parts.operators import Operator
from attnlab.attention.parts.positions import Position
from attnlab.attention.parts.scores import ScaledDot, Score
from attnlab.attention.rules import check
from attnlab.errors import FileError, SpecError
from attnlab.specification import Specification

Sharing = Literal["none", "key-value", "query-key", "query-key-value", "identity"]
Probability = Annotated[float, Field(ge=0, lt=1)]


def _optional(family: type[Position] | type[Operator]) -> BeforeValidator:
    return BeforeValidator(lambda value: None if value is None else family.parse(value))


class AttentionSpec(Specification):
    """Everything that there is to say about one attention layer.

    Widths left out are derived: `key_width` = model_width / num_heads, `value_width` = key_width (or the model's width
    for the full value map), `num_key_value_heads` = num_heads.
    """

    model_config = ConfigDict(defer_build=True)
    what = "an attention spec"

    model_width: PositiveInt
    num_heads: PositiveInt
    num_key_value_heads: PositiveInt = None  # type: ignore[assignment]  # derived before validation
    key_width: PositiveInt = None  # type: ignore[assignment]
    value_width: PositiveInt = None  # type: ignore[assignment]
    context_length: PositiveInt | None = None  # only for scores whose parameters have its size

    score: Annotated[SerializeAsAny[Score], BeforeValidator(Score.parse)] = ScaledDot()
    normaliser: Annotated[SerializeAsAny[Normaliser], BeforeValidator(Normaliser.parse)] = Softmax()
    sharing: Sharing = "none"
    value_map: Literal["factored", "full"] = "factored"
    join: Literal["projection", "average"] = "projection"
    mask: Annotated[Mask, BeforeValidator(Mask.parse)] = Mask()
    source: Literal["self", "cross"] = "self"
    position: Annotated[SerializeAsAny[Position] | None, _optional(Position)] = None  # None: as the recipe says
    operator: Annotated[SerializeAsAny[Operator] | None, _optional(Operator)] = None

    bias: bool = True
    weight_dropout: Probability = 0.0
    output_dropout: Probability = 0.0

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, fields: Any) -> Any:
        """Fill in the widths that follow from the others; anything odd is left to the validation of the field."""
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
        return self

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed. Widths that were derived are derived again."""
        return super().replace(**{**dict.fromkeys(self._derived(changes)), **changes})

    def _derived(self, changes: Mapping[str, object]) -> set[str]:
        """The widths that a change of these fields leaves open, because they have the value that would be derived."""
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
    def group_size(self) -> int:
        """How many query heads use one key and value head."""
        return self.num_heads // self.num_key_value_heads

    @property
    def has_map(self) -> bool:
        """Whether there are attention weights to look at."""
        return self.operator is None

    def to_json(self, indent: int | None = None) -> str:
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes | Path) -> AttentionSpec:
        """A spec from its JSON, or from a file that holds it."""
        if isinstance(text, Path):
            path = text
            try:
                text = path.read_bytes()
            except OSError as error:
                raise FileError(f"cannot read the spec {path}: {error.strerror}", hint="check the path") from None
        return super().from_json(text)
