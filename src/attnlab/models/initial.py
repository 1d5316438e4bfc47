"""How weights begin.

Each parameter is drawn from a generator of its own, seeded by the run's seed and the parameter's name. So two variants
begin with the same weights wherever their shapes agree, whatever else they have, and a comparison of them is paired.

    weights and embeddings ~ N(0, σ²), biases 0, norms 1                       σ = `initial_std`, GPT-2's is 0.02
    projections back into the residual path ~ N(0, σ² / 2L) for L layers, or 0 (`zero_outputs`)
    what a part of attention learns as the part says
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from attnlab.attention import MultiHeadAttention
from attnlab.models.blocks import RMSNorm

if TYPE_CHECKING:
    from attnlab.models.language_model import LanguageModel


@torch.no_grad()
def initialise(model: LanguageModel, seed: int) -> None:
    """Draw all weights of a model anew."""
    spec = model.spec
    outputs = 0.0 if spec.zero_outputs else spec.initial_std / (2 * spec.num_layers) ** 0.5
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(path, recurse=False):
            is_norm = isinstance(module, nn.LayerNorm | RMSNorm) and name.endswith("weight")
            if is_norm or name.endswith("bias"):
                parameter.fill_(1.0 if is_norm else 0.0)
            elif isinstance(module, nn.Linear | nn.Embedding):
                _draw(parameter, 0.0, outputs if _writes_residual(path) else spec.initial_std, seed, name)
        if isinstance(module, MultiHeadAttention):
            for name, tensor in module.extras.items():
                declared = module.spec.parameters[name]
                _draw(tensor, declared.initial, declared.std, seed, f"{path}.extras.{name}")


def _writes_residual(path: str) -> bool:
    """Whether a linear map adds to the residual path: the output of attention and of the perceptron."""
    return path.endswith(("attention.output", "mlp.narrow"))


def _draw(parameter: Tensor, mean: float, std: float, seed: int, name: str) -> None:
    """Normal numbers, drawn on the CPU so that every device begins alike."""
    if std == 0:
        parameter.fill_(mean)
        return
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
    parameter.copy_(torch.empty(parameter.shape, dtype=parameter.dtype).normal_(mean, std, generator=generator))
