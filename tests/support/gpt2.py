"""GPT-2 folders as Transformers writes them, and models of ours with random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from attnlab.models import LanguageModel, ModelSpec, build_model

SHAPES: dict[str, dict[str, Any]] = {
    "one layer, one head": {"n_layer": 1, "n_head": 1, "n_embd": 8, "n_positions": 5, "vocab_size": 11},
    "three layers": {"n_layer": 3, "n_head": 4, "n_embd": 24, "n_positions": 16, "vocab_size": 50},
    "narrow perceptron": {"n_layer": 2, "n_head": 3, "n_embd": 18, "n_positions": 9, "vocab_size": 20, "n_inner": 7},
    "untied": {"n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 30, "tie_word_embeddings": False},
    "exact gelu": {"n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 30, "activation_function": "gelu"},
    "other epsilon": {"n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 30, "layer_norm_epsilon": 0.3},
    "raw dot": {"n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 30, "scale_attn_weights": False},
}
SMALL = SHAPES["three layers"]


def theirs(implementation: str = "eager", **shape: Any) -> Any:
    """A GPT-2 of Transformers, all of whose weights matter, the biases and norms too."""
    from transformers import GPT2Config, GPT2LMHeadModel

    fields = {"n_positions": 12, "bos_token_id": None, "eos_token_id": None} | shape
    model = GPT2LMHeadModel(GPT2Config(attn_implementation=implementation, **fields)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1.0 if ".ln_" in name and name.endswith("weight") else 0.0, 0.3)
    return model


def stored(folder: Path, **shape: Any) -> Path:
    """A folder as Transformers writes it."""
    theirs(**(shape or SMALL)).save_pretrained(folder)
    return folder


def ours(**changes: Any) -> LanguageModel:
    sizes = {"num_layers": 2, "model_width": 16, "num_heads": 2, "context_length": 12, "vocabulary_size": 30}
    model = build_model(ModelSpec.build(**(sizes | changes))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def tokens_of(vocabulary: int, length: int) -> Tensor:
    return torch.randint(vocabulary, (2, length), generator=torch.Generator().manual_seed(3))


def edit(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def change_tensors(folder: Path, change: Any) -> None:
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    safetensors.torch.save_file(change(dict(tensors)), folder / "model.safetensors", {"format": "pt"})


def shard(folder: Path) -> list[str]:
    """The same weights in two files, with an index."""
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    files = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    where = {name: files[number % 2] for number, name in enumerate(tensors)}
    for file in files:
        safetensors.torch.save_file({n: t for n, t in tensors.items() if where[n] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    (folder / "model.safetensors").unlink()
    return files
