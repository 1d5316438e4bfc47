"""A question about cost: a model by name, with changes to its size and its attention."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PositiveInt, model_validator

from attnlab.attention import Mask
from attnlab.cost.questions.changes import AttentionChanges, Count
from attnlab.cost.questions.configs import is_config, model_of_config
from attnlab.errors import SpecError, UnknownNameError
from attnlab.models import ModelSpec
from attnlab.models.hf.folder import CONFIG
from attnlab.models.sizes import Size
from attnlab.models.sizes import size as size_called
from attnlab.models.spec import RECIPE_OPTIMIZERS, OptimizerKind, attention_layers

SIZE_CHANGES = ("num_layers", "model_width", "num_heads", "head_width", "mlp_width")
GPT2_VOCABULARY = 50257


class Question(AttentionChanges):
    """A model by name, with changes to its size and its attention. Omitted fields default to those of the size.

    A size is a name, a number of parameters, a published model, or the path of a GGUF file, of a Hugging Face
    config.json or of its folder. A named size has GPT-2's vocabulary. A recipe is an architecture of the same name and
    an optimizer; the rest of it does not affect the cost. A configuration defines its own architecture.

    With `mixed_precision`, weights, gradients and activations are bfloat16, master weights and the optimizer's state
    float32. With `checkpointing`, training keeps only the inputs of blocks, and recomputes their forward pass.
    """

    what: ClassVar[str] = "a question of cost"
    help_at: ClassVar[str | None] = "give another number, or leave it out"

    size: str = "gpt2"
    variant: str = "softmax"
    recipe: str = "gpt2"
    family: Literal["decoder", "encoder"] = "decoder"
    batch_size: Count = 1
    vocabulary_size: Count | None = None
    bytes_per_number: Literal[2, 4, 8] = 4
    mixed_precision: bool = False
    checkpointing: bool = False
    context_length: Count | None = None
    num_layers: Annotated[PositiveInt, Field(le=2**16)] | None = None
    model_width: Count | None = None
    num_heads: Annotated[PositiveInt, Field(le=2**20)] | None = None
    head_width: Count | None = None
    mlp_width: Count | None = None

    @model_validator(mode="before")
    @classmethod
    def _precise(cls, fields: Any) -> Any:
        """Set 2 bytes per number for mixed precision, which computes in bfloat16."""
        if not isinstance(fields, dict) or fields.get("mixed_precision") is not True:
            return fields
        if fields.get("bytes_per_number", 2) != 2:
            raise SpecError(
                f"mixed precision has numbers of 2 bytes, not of {fields['bytes_per_number']}",
                hint="leave out `bytes_per_number`, or `mixed_precision`",
            )
        return {**fields, "bytes_per_number": 2}

    @model_validator(mode="after")
    def _known(self) -> Question:
        if not is_config(self.size):
            size_called(self.size)
        if self.recipe not in RECIPE_OPTIMIZERS:
            raise UnknownNameError("recipe", self.recipe, RECIPE_OPTIMIZERS)
        return self

    @property
    def label(self) -> str:
        """Return the size and the variant."""
        return f"{self.name} {self.variant}"

    @property
    def name(self) -> str:
        """Return the name of the size; a configuration is named after its folder."""
        return self.size.removesuffix(CONFIG).rstrip("/") or self.size

    @property
    def optimizer(self) -> OptimizerKind:
        return RECIPE_OPTIMIZERS[self.recipe]

    @property
    def shape(self) -> Size:
        """Return the layers, width, heads and context."""
        return self._changed(self._usual(self._configured()))

    @property
    def is_changed(self) -> bool:
        """Return whether its shape differs from that of the size, or its attention from that of the variant."""
        usual = self._usual(self._configured())
        widths = self.head_width, self.mlp_width
        return self._changed(usual) != usual or widths != (None, None) or bool(self.attention_changes())

    def model(self) -> ModelSpec:
        """Return the spec of the model; refuse what is impossible."""
        base = self._configured()
        shape = self._changed(self._usual(base))
        return self.with_changes(self._named_model(shape) if base is None else self._changed_model(base, shape))

    def _configured(self) -> ModelSpec | None:
        """Return the model of the configuration; None for a named size."""
        return model_of_config(self.size) if is_config(self.size) else None

    def _usual(self, base: ModelSpec | None) -> Size:
        if base is None:
            return size_called(self.size)
        return Size(base.num_layers, base.model_width, base.attention[0].num_heads, base.context_length)

    def _changed(self, usual: Size) -> Size:
        return Size(**{name: getattr(self, name) or number for name, number in usual.dimensions().items()})

    def _changed_model(self, base: ModelSpec, shape: Size) -> ModelSpec:
        """Return the model of a configuration with another attention; its MLP keeps its ratio to the width."""
        attention = base.attention[0].replace(
            model_width=shape.model_width,
            num_heads=shape.num_heads,
            position=None,
            mask=Mask(causal=self.family == "decoder"),
        )
        if self.head_width is not None:
            attention = attention.replace(key_width=self.head_width)
        return base.replace(
            family=self.family,
            vocabulary_size=self.vocabulary_size or base.vocabulary_size,
            context_length=shape.context_length,
            num_layers=shape.num_layers,
            model_width=shape.model_width,
            mlp_width=self.mlp_width or base.mlp_width * shape.model_width // base.model_width,
            attention=attention_layers(self.variant, shape.num_layers, shape.context_length, attention, base.position),
        )

    def _named_model(self, shape: Size) -> ModelSpec:
        if self.head_width is None and shape.model_width % shape.num_heads:
            lower = shape.model_width - shape.model_width % shape.num_heads
            raise SpecError(
                f"a width of {shape.model_width} does not divide into {shape.num_heads} heads",
                hint=f"use a multiple of {shape.num_heads} such as {lower or shape.num_heads}, or other num_heads",
            )
        widths = {"head_width": self.head_width, "mlp_width": self.mlp_width}
        sizes: dict[str, Any] = {name: width for name, width in widths.items() if width is not None}
        sizes |= shape.dimensions()
        return ModelSpec.build(
            self.size,
            vocabulary_size=self.vocabulary_size or GPT2_VOCABULARY,
            variant=self.variant,
            architecture=self.recipe,
            family=self.family,
            **sizes,
        )
