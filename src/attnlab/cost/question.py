"""What may be asked: which model, how it is trained, on how much at once."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PositiveInt, model_validator

from attnlab.errors import SpecError, UnknownNameError
from attnlab.models import ModelSpec
from attnlab.models.sizes import Size
from attnlab.models.sizes import size as size_called
from attnlab.models.spec import RECIPE_OPTIMIZERS, OptimizerKind
from attnlab.specification import Specification

GPT2_VOCABULARY = 50257

_MOST = 2**36  # beyond it, products of two of them are no shapes any more
Count = Annotated[PositiveInt, Field(le=_MOST)]


class Question(Specification):
    """A model by its names, with what is changed about its size. What is left out is the size's own.

    A recipe is an architecture of the same name and an optimizer; the rest of it costs nothing.
    """

    what: ClassVar[str] = "a question of cost"
    help_at: ClassVar[str | None] = "give another number, or leave it out"

    size: str = "gpt2"
    variant: str = "softmax"
    recipe: str = "gpt2"
    family: Literal["decoder", "encoder"] = "decoder"
    batch_size: Count = 1
    vocabulary_size: Count = GPT2_VOCABULARY
    bytes_per_number: Literal[2, 4, 8] = 4
    context_length: Count | None = None
    num_layers: Annotated[PositiveInt, Field(le=2**16)] | None = None
    model_width: Count | None = None
    num_heads: Annotated[PositiveInt, Field(le=2**20)] | None = None
    head_width: Count | None = None
    mlp_width: Count | None = None

    @model_validator(mode="after")
    def _known(self) -> Question:
        size_called(self.size)
        if self.recipe not in RECIPE_OPTIMIZERS:
            raise UnknownNameError("recipe", self.recipe, RECIPE_OPTIMIZERS)
        return self

    @property
    def optimizer(self) -> OptimizerKind:
        return RECIPE_OPTIMIZERS[self.recipe]

    @property
    def shape(self) -> Size:
        """Layers, width, heads and context."""
        usual = size_called(self.size).dimensions()
        return Size(**{name: getattr(self, name) or number for name, number in usual.items()})

    @property
    def is_changed(self) -> bool:
        """Whether its shape is not that of the named size."""
        return self.shape != size_called(self.size) or self.head_width is not None or self.mlp_width is not None

    def model(self) -> ModelSpec:
        """The spec of the model; what is impossible is refused here."""
        shape = self.shape
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
            vocabulary_size=self.vocabulary_size,
            variant=self.variant,
            architecture=self.recipe,
            family=self.family,
            **sizes,
        )
