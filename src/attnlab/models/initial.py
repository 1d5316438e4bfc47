"""Weight initialisation.

Each parameter is drawn from a separate generator, seeded by the run's seed and the parameter's name. So two variants
start from the same weights wherever their shapes agree, and a comparison of them is paired.

    weights and embeddings ~ N(0, σ²), biases 0, norms 1                       σ = `initial_std`, GPT-2's is 0.02
    output projections into the residual stream ~ N(0, σ² / 2L) for L layers, or 0 (`zero_outputs`)
    parameters of a part of attention as the part declares
    a custom layer as its constructor initialises it; its linear layers and embeddings by the rules above too, and the
    linear layer called `output` as an output projection, unless the layer has a method `reset_parameters`
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from attnlab.attention import MultiHeadAttention, WholeLayer
from attnlab.models.blocks import RMSNorm

if TYPE_CHECKING:
    from attnlab.models.language_model import LanguageModel


@torch.no_grad()
def initialise(model: LanguageModel, seed: int) -> None:
    """Draw new values for all weights of a model."""
    spec = model.spec
    outputs = 0.0 if spec.zero_outputs else spec.initial_std / (2 * spec.num_layers) ** 0.5
    settled: set[nn.Module] = set()  # modules whose weights a custom layer initialises itself
    for path, module in model.named_modules():
        if isinstance(module, WholeLayer):
            module.restart(_number(seed, path))
            own = module.part.starts_itself
            settled |= {one for one in module.modules() if own or not isinstance(one, nn.Linear | nn.Embedding)}
        if module in settled:
            continue
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


def restore_constants(model: nn.Module) -> None:
    """Recompute the buffers of custom layers, which no checkpoint holds."""
    for module in model.modules():
        if isinstance(module, WholeLayer):
            module.restore_buffers()


def _writes_residual(path: str) -> bool:
    """Return whether a linear layer writes to the residual stream: the output of attention and of the MLP."""
    return path.endswith(("attention.output", "attention.module.output", "mlp.narrow"))


def _draw(parameter: Tensor, mean: float, std: float, seed: int, name: str) -> None:
    """Fill a parameter with normal samples, drawn on the CPU so that every device begins alike."""
    if std == 0:
        parameter.fill_(mean)
        return
    generator = torch.Generator().manual_seed(_number(seed, name))
    parameter.copy_(torch.empty(parameter.shape, dtype=parameter.dtype).normal_(mean, std, generator=generator))


def _number(seed: int, name: str) -> int:
    """Return the seed of what is drawn under a name."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
