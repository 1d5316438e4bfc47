"""Published models of the Llama family by name, without weights: for `attnlab cost`, and to build and train.

published("smollm2-135m")          as its config.json on Hugging Face describes it

SmolLM2: arXiv 2502.02737. TinyLlama: 2401.02385. Llama 2: 2307.09288. Llama 3 to 3.2: 2407.21783 and their model cards.
"""

from __future__ import annotations

from typing import Any

from attnlab.attention import Rope
from attnlab.attention.parts.positions import Llama3Rope
from attnlab.errors import UnknownNameError
from attnlab.models.pretrained.llama import llama_model
from attnlab.models.spec import ModelSpec

_SMOLLM2: dict[str, Any] = {"vocabulary_size": 49152, "context_length": 8192, "tied_embedding": True}
_LLAMA2: dict[str, Any] = {"vocabulary_size": 32000, "context_length": 4096, "position": Rope()}
_LLAMA3: dict[str, Any] = {"vocabulary_size": 128256, "context_length": 131_072}
_SMALL, _LARGE = Rope(base=100_000), Rope(base=130_000)


def _shape(num_layers: int, model_width: int, mlp_width: int, num_heads: int, num_key_value_heads: int) -> Any:
    return {
        "num_layers": num_layers,
        "model_width": model_width,
        "mlp_width": mlp_width,
        "num_heads": num_heads,
        "num_key_value_heads": num_key_value_heads,
    }


def _llama3(factor: float) -> Llama3Rope:
    return Llama3Rope(base=500_000, factor=factor)


PUBLISHED: dict[str, dict[str, Any]] = {
    "smollm2-135m": _SMOLLM2 | _shape(30, 576, 1536, 9, 3) | {"position": _SMALL},
    "smollm2-360m": _SMOLLM2 | _shape(32, 960, 2560, 15, 5) | {"position": _SMALL},
    "smollm2-1.7b": _SMOLLM2 | _shape(24, 2048, 8192, 32, 32) | {"position": _LARGE},
    "tinyllama-1.1b": _LLAMA2 | _shape(22, 2048, 5632, 32, 4) | {"context_length": 2048},
    "llama-2-7b": _LLAMA2 | _shape(32, 4096, 11008, 32, 32),
    "llama-2-13b": _LLAMA2 | _shape(40, 5120, 13824, 40, 40),
    "llama-2-70b": _LLAMA2 | _shape(80, 8192, 28672, 64, 8),
    "llama-3-8b": _LLAMA3 | _shape(32, 4096, 14336, 32, 8) | {"position": Rope(base=500_000), "context_length": 8192},
    "llama-3.1-8b": _LLAMA3 | _shape(32, 4096, 14336, 32, 8) | {"position": _llama3(8)},
    "llama-3.1-70b": _LLAMA3 | _shape(80, 8192, 28672, 64, 8) | {"position": _llama3(8)},
    "llama-3.2-1b": _LLAMA3 | _shape(16, 2048, 8192, 32, 8) | {"position": _llama3(32), "tied_embedding": True},
    "llama-3.2-3b": _LLAMA3 | _shape(28, 3072, 8192, 24, 8) | {"position": _llama3(32), "tied_embedding": True},
}


def published(name: str) -> ModelSpec:
    """Return a published model by its name."""
    if name not in PUBLISHED:
        raise UnknownNameError("published model", name, PUBLISHED)
    return llama_model(**PUBLISHED[name])
