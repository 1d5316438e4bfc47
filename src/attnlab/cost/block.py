"""The parameters of a block apart from its attention: the matrices of its MLP and the vectors of its norms.

y = φ(x W₁ᵀ) W₂ᵀ                        norms with weight and bias, with a weight, or with nothing
y = (φ(x W_gᵀ) ⊙ x W₁ᵀ) W₂ᵀ             if it is gated, as in the Llama family
"""

from __future__ import annotations

from torch import nn

from attnlab.models import ModelSpec
from attnlab.models.blocks import make_norm
from attnlab.models.mlp import MLP


def mlp_shapes(spec: ModelSpec) -> dict[str, tuple[int, int]]:
    """Return the MLP's matrices by name, each as (outputs, inputs)."""
    up, down = (spec.mlp_width, spec.model_width), (spec.model_width, spec.mlp_width)
    return {**({"gate": up} if spec.gated else {}), "widen": up, "narrow": down}


def norm_vectors(spec: ModelSpec) -> tuple[str, ...]:
    """Return the names of a norm's parameters, each as wide as the model."""
    if spec.norm == "rms":
        return ()
    return ("weight", "bias") if spec.norm == "layer" and spec.bias else ("weight",)


def block_modules(spec: ModelSpec) -> dict[str, nn.Module]:
    """Return one norm and one MLP."""
    return {"norm": make_norm(spec), "mlp": MLP(spec)}
