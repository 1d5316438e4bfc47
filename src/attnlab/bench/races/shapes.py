"""The shapes that whole models are measured at, the same for everybody who takes part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attnlab.errors import UnknownNameError
from attnlab.models import ModelSpec


@dataclass(frozen=True)
class Shape:
    """A model of GPT-2's architecture, and the batch that it is trained on."""

    name: str
    num_layers: int
    model_width: int
    num_heads: int
    context_length: int
    batch_size: int
    vocabulary_size: int = 65  # the characters of a Shakespeare text

    @property
    def tokens(self) -> int:
        """That one step learns from."""
        return self.batch_size * self.context_length

    @property
    def dimensions(self) -> dict[str, int]:
        """As a run's spec takes them."""
        names = ("num_layers", "model_width", "num_heads", "context_length", "batch_size")
        return {name: getattr(self, name) for name in names}

    def model(self, variant: str = "softmax") -> ModelSpec:
        shape: dict[str, Any] = {name: number for name, number in self.dimensions.items() if name != "batch_size"}
        return ModelSpec.build("nano", vocabulary_size=self.vocabulary_size, variant=variant, **shape)

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.num_layers} layers of width {self.model_width}, {self.num_heads} heads, "
            f"{self.batch_size} × {self.context_length} tokens, vocabulary {self.vocabulary_size}"
        )


SHAPES: dict[str, Shape] = {
    "small": Shape("small", 4, 128, 4, 64, 12),
    "mini": Shape("mini", 6, 384, 6, 256, 16),
    "gpt2": Shape("gpt2", 12, 768, 12, 512, 2, 50257),
    "rung": Shape("rung", 2, 32, 2, 64, 12, 96),  # the largest size of the default comparison, 25k
}
RACED = ("small", "mini", "gpt2")  # against the peers; `rung` is for comparing versions of attnlab
ONE_EACH = ("rung",)  # where every core trains a model of its own, with one thread
MEMORY_SHAPE = Shape("gpt2-memory", 12, 768, 12, 1024, 4, 50257)
VARIANTS_SHAPE = Shape("mini", 6, 384, 6, 256, 4)
WRITING_SHAPE = Shape("mini", 6, 384, 6, 256, 1)


def shape(name: str) -> Shape:
    """A shape by its name."""
    if name not in SHAPES:
        raise UnknownNameError("shape", name, SHAPES)
    return SHAPES[name]


def tiny(usual: Shape) -> Shape:
    """So small that a measurement takes no time and means nothing; the name stays."""
    return Shape(usual.name, 1, 16, 2, 16, 4, 17)
