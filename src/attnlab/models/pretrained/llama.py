"""The parts common to all files of the Llama family: the model, and the names of its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attnlab.attention import AttentionSpec, Position
from attnlab.models.spec import ModelSpec


def llama_model(
    *,
    vocabulary_size: int,
    context_length: int,
    num_layers: int,
    model_width: int,
    mlp_width: int,
    num_heads: int,
    num_key_value_heads: int,
    position: Position,
    head_width: int | None = None,
    norm_epsilon: float = 1e-5,
    attention_bias: bool = False,
    mlp_bias: bool = False,
    tied_embedding: bool = False,
) -> ModelSpec:
    """Return a model of the Llama family: RMSNorm, rotary positions, grouped keys, a gated MLP."""
    attention = AttentionSpec(
        model_width=model_width,
        num_heads=num_heads,
        num_key_value_heads=num_key_value_heads,
        key_width=head_width,
        bias=attention_bias,
        position=position,
    )
    return ModelSpec(
        vocabulary_size=vocabulary_size,
        context_length=context_length,
        num_layers=num_layers,
        model_width=model_width,
        mlp_width=mlp_width,
        attention=(attention,) * num_layers,
        norm="rms-weight",
        norm_epsilon=norm_epsilon,
        activation="silu",
        gated=True,
        bias=mlp_bias,
        tied_embedding=tied_embedding,
        position=position,
    )


@dataclass(frozen=True)
class Names:
    """The parameter names of a format: those of layer 0, prefixed by `layers` and the number, and the others."""

    layers: str
    inside: Mapping[str, str]
    embedding: str
    norm: str
    head: str

    def of(self, parameter: str) -> str:
        """Return the name of an attnlab parameter in this format."""
        outside = {"embedding.weight": self.embedding, "stack.norm.weight": self.norm, "head.weight": self.head}
        if parameter in outside:
            return outside[parameter]
        _, _, layer, *inside, kind = parameter.split(".")  # stack.blocks.0.mlp.gate.weight
        return f"{self.layers}.{layer}.{self.inside['.'.join(inside)]}.{kind}"
