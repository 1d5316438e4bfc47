"""A block apart from its attention, as it is counted: the matrices of its perceptron and the vectors of its norms.

    attnlab's   y = φ(x W₁ᵀ) W₂ᵀ                        norms with weight and bias, with a weight, or with nothing
    Llama's     y = (silu(x W_gᵀ) ⊙ x W₁ᵀ) W₂ᵀ          RMSNorm with a weight (arXiv 2302.13971; the gate 2002.05202)

attnlab builds models of its own block only; a `LlamaSpec` is counted without being built.
"""

from __future__ import annotations

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.models import ModelSpec
from attnlab.models.blocks import make_norm
from attnlab.models.mlp import MLP


class LlamaSpec(ModelSpec):
    """A model with Llama's block. `bias` is that of its perceptron; the activation is always silu."""

    what = "a Llama spec"
    buildable: ClassVar[bool] = False


def mlp_shapes(spec: ModelSpec) -> dict[str, tuple[int, int]]:
    """Return the perceptron's matrices by name, each as (outputs, inputs)."""
    up, down = (spec.mlp_width, spec.model_width), (spec.model_width, spec.mlp_width)
    return {**({"gate": up} if isinstance(spec, LlamaSpec) else {}), "widen": up, "narrow": down}


def norm_vectors(spec: ModelSpec) -> tuple[str, ...]:
    """Return the names of a norm's parameters, each as wide as the model."""
    if isinstance(spec, LlamaSpec):
        return ("weight",)
    if spec.norm == "rms":
        return ()
    return ("weight", "bias") if spec.bias else ("weight",)


def block_modules(spec: ModelSpec) -> dict[str, nn.Module]:
    """Return one norm and one perceptron."""
    if isinstance(spec, LlamaSpec):
        return {"norm": nn.RMSNorm(spec.model_width, spec.norm_epsilon), "mlp": GatedMLP(spec)}
    return {"norm": make_norm(spec), "mlp": MLP(spec)}


class GatedMLP(nn.Module):
    """Llama's perceptron."""

    def __init__(self, spec: LlamaSpec) -> None:
        super().__init__()
        self.gate, self.widen = (nn.Linear(spec.model_width, spec.mlp_width, spec.bias) for _ in range(2))
        self.narrow = nn.Linear(spec.mlp_width, spec.model_width, spec.bias)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.narrow(F.silu(self.gate(x)) * self.widen(x))
        return result
