"""The two architectures: GPT-2 as it was published, and what reaches a loss soonest.

gpt2   learned positions, LayerNorm, GELU (its tanh form), biases, output projections scaled by the depth
fast   RoPE, RMSNorm without parameters, squared ReLU, no biases, output projections that begin at zero, as in the
       public NanoGPT speedrun

Both tie the embedding to the head. The attention of the layers is chosen apart from either.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from attnlab.attention import Learned, Position, Rope
from attnlab.errors import UnknownNameError

OptimizerKind = Literal["adamw", "muon"]


@dataclass(frozen=True)
class Architecture:
    """What a block is made of, apart from its size and its attention."""

    norm: str
    activation: str
    bias: bool
    tied_embedding: bool
    zero_outputs: bool
    position: Position

    def model_fields_of_spec(self) -> dict[str, Any]:
        return {**asdict(self), "position": self.position}


ARCHITECTURES: dict[str, Architecture] = {
    "gpt2": Architecture("layer", "gelu-tanh", True, True, False, Learned()),
    "fast": Architecture("rms", "relu-squared", False, True, True, Rope()),
}


# What trains each architecture in the recipe of its name (`attnlab.training.recipes` has the numbers).
RECIPE_OPTIMIZERS: dict[str, OptimizerKind] = {"gpt2": "adamw", "fast": "muon"}


def architecture(name: str) -> Architecture:
    """An architecture by its name."""
    if name not in ARCHITECTURES:
        raise UnknownNameError("architecture", name, ARCHITECTURES)
    return ARCHITECTURES[name]
