"""Changes to the attention of a model, by the names of the fields of an attention spec.

They are applied to every layer, after its variant: `--change num_key_value_heads=4` on the command line is
`estimate(…, num_key_value_heads=4)` in Python. `window` and `prefix` are those of the mask.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PositiveInt, SerializeAsAny

from attnlab.attention import AttentionSpec, HeadOutput, Latent, Normaliser, Operator, OwnLayer, Position, Score, Values
from attnlab.attention.parts import Part
from attnlab.attention.spec import Probability, Sharing
from attnlab.models import ModelSpec
from attnlab.specification import Specification

_MOST = 2**36  # beyond it, products of two of them are not valid shapes
Count = Annotated[PositiveInt, Field(le=_MOST)]
_MASK = ("window", "prefix")


def _unchanged() -> Any:
    """Return a field that is None by default, and is then left out when it is serialised."""
    return Field(default=None, exclude_if=lambda value: value is None)


def _part(family: type[Part]) -> BeforeValidator:
    return BeforeValidator(lambda value: None if value is None else family.parse(value))


class AttentionChanges(Specification):
    """Changes to attention; None keeps the value of the variant."""

    num_key_value_heads: Count | None = _unchanged()
    key_width: Count | None = _unchanged()
    value_width: Count | None = _unchanged()
    score: Annotated[SerializeAsAny[Score] | None, _part(Score)] = _unchanged()
    normaliser: Annotated[SerializeAsAny[Normaliser] | None, _part(Normaliser)] = _unchanged()
    sharing: Sharing | None = _unchanged()
    value_map: Literal["factored", "full"] | None = _unchanged()
    join: Literal["projection", "average"] | None = _unchanged()
    window: Count | None = _unchanged()
    prefix: Count | None = _unchanged()
    position: Annotated[SerializeAsAny[Position] | None, _part(Position)] = _unchanged()
    operator: Annotated[SerializeAsAny[Operator] | None, _part(Operator)] = _unchanged()
    head_output: Annotated[SerializeAsAny[HeadOutput] | None, _part(HeadOutput)] = _unchanged()
    compression: Annotated[SerializeAsAny[Latent] | None, _part(Latent)] = _unchanged()
    values: Annotated[SerializeAsAny[Values] | None, _part(Values)] = _unchanged()
    layer: Annotated[SerializeAsAny[OwnLayer] | None, _part(OwnLayer)] = _unchanged()
    bias: bool | None = _unchanged()
    weight_dropout: Probability | None = _unchanged()
    output_dropout: Probability | None = _unchanged()

    def attention_changes(self) -> dict[str, Any]:
        """Return the fields that are changed, with their values."""
        values = ((name, getattr(self, name)) for name in ATTENTION_CHANGES)
        return {name: value for name, value in values if value is not None}

    def with_changes(self, model: ModelSpec) -> ModelSpec:
        """Return a model with the attention of every layer changed."""
        changes = self.attention_changes()
        if not changes:
            return model
        mask = {name: changes.pop(name) for name in _MASK if name in changes}
        sized = self.layer or self.score
        if sized is not None:
            changes["context_length"] = model.context_length if sized.needs_context else None

        def changed(spec: AttentionSpec) -> AttentionSpec:
            return spec.replace(**changes, **({"mask": spec.mask.replace(**mask)} if mask else {}))

        made = {spec: changed(spec) for spec in set(model.attention)}
        return model.replace(
            attention=tuple(made[spec] for spec in model.attention), position=self.position or model.position
        )


ATTENTION_CHANGES = tuple(AttentionChanges.model_fields)
