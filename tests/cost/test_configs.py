"""Models from a config.json of Hugging Face, against Transformers' own on the meta device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from attnlab.bench import peak_bytes
from attnlab.cost import Question, Sweep, estimate, model_cost, named_tensors
from attnlab.cost.peak import _mlp_scratch
from attnlab.cost.questions.configs import model_of_config
from attnlab.cost.questions.sweep import flops_by_group
from attnlab.errors import AttnlabError
from attnlab.models import PUBLISHED, build_model, published
from attnlab.models.meta import on_meta
from attnlab.models.mlp import MLP

GPT2 = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}
GROUPED = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 700,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 48,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
    "attention_bias": True,
    "mlp_bias": True,
    "tie_word_embeddings": False,
}
SMOLLM2 = {
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 100000,
    "tie_word_embeddings": True,
}


def written(folder: Path, config: object) -> str:
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return str(folder)


def theirs(config: dict[str, Any]) -> Any:
    fields = {name: value for name, value in config.items() if name not in ("model_type", "rope_theta")}
    with on_meta():
        if config["model_type"] == "gpt2":
            return GPT2LMHeadModel(GPT2Config(**fields))
        return LlamaForCausalLM(LlamaConfig(**fields))


@pytest.mark.parametrize("config", [GPT2, GROUPED, SMOLLM2], ids=["gpt2", "llama", "smollm2"])
@pytest.mark.parametrize("number", [2, 4])
def test_parameters_and_cache_are_those_of_transformers(config: dict[str, Any], number: int, tmp_path: Path) -> None:
    model = theirs(config).to({2: torch.bfloat16, 4: torch.float32}[number]).eval()
    found = estimate(written(tmp_path, config), context_length=64, batch_size=3, bytes_per_number=number)
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(torch.zeros(3, 64, dtype=torch.int64, device="meta"), past_key_values=cache, use_cache=True)
    assert found.cache_bytes == sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    whole = estimate(str(tmp_path)).training
    assert whole.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert whole.parameters == sum(tensor.parameters for tensor in named_tensors(whole.call.spec))


def test_smollm2_has_135_million_parameters(tmp_path: Path) -> None:
    assert estimate(written(tmp_path, SMOLLM2)).parameters == 134_515_008


def test_gpt2_is_the_named_size(tmp_path: Path) -> None:
    ours, named = estimate(written(tmp_path, GPT2)), estimate("gpt2")
    assert ours.model == named.model
    assert ours.as_dict()["totals"] == named.as_dict()["totals"]
    assert ours.question.vocabulary_size is None


def test_flops_of_a_gated_perceptron(tmp_path: Path) -> None:
    found = estimate(written(tmp_path, SMOLLM2), context_length=128, batch_size=2)
    flops = 30 * 3 * 2 * (2 * 128) * 576 * 1536
    assert sum(part.forward_flops for part in found.parts() if part.name == "mlp") == flops
    assert next(part.flops for part in found.prefill.parts if part.name == "mlp") == flops
    assert 2 * flops_by_group(found.model, 128)["mlp"] == flops


def test_what_a_gated_perceptron_keeps_and_holds(tmp_path: Path) -> None:
    """Its input, the gate before and after silu, the other factor, and the product; measured while it goes backward."""
    spec = model_of_config(written(tmp_path, GROUPED))
    rows, width, inner = 4 * 512, 256, 700
    kept = model_cost(spec, batch=4).part("layer 1: mlp").activation_bytes
    assert kept == 4 * rows * (width + 4 * inner)
    module, x = MLP(spec), torch.randn(rows, width, requires_grad=True)
    grad = torch.randn(rows, width)
    for tensor in (x, *module.parameters()):
        tensor.grad = torch.zeros_like(tensor)
    measured = peak_bytes(lambda: module(x).backward(grad))
    predicted = kept - 4 * rows * width + _mlp_scratch(spec, rows, 4)
    assert 1 / 1.15 < measured / predicted < 1.15


def test_a_variant_changes_the_configured_attention(tmp_path: Path) -> None:
    place = written(tmp_path, SMOLLM2)
    own, shared, window = (estimate(place, variant=name) for name in ("softmax", "mqa", "window"))
    assert 3 * shared.cache_bytes == own.cache_bytes
    assert 4 * window.cache_bytes == own.cache_bytes
    assert own.model.attention[0].position.base == 100_000
    with pytest.raises(AttnlabError, match="rope"):
        estimate(place, variant="linear")


def test_a_configuration_can_be_changed(tmp_path: Path) -> None:
    place = written(tmp_path, SMOLLM2)
    model = Question(size=place, num_layers=2, model_width=288, vocabulary_size=100, head_width=16).model()
    assert (model.num_layers, model.mlp_width, model.vocabulary_size) == (2, 768, 100)
    assert (model.attention[0].num_heads, model.attention[0].num_key_value_heads) == (9, 3)
    assert model.attention[0].key_width == model.attention[0].value_width == 16
    assert Question(size=place, recipe="fast").optimizer == "muon"
    assert Question(size=place, num_layers=2).is_changed
    assert not Question(size=f"{place}/config.json").is_changed
    assert Question(size=f"{place}/config.json").name == place
    assert Sweep.over("context", Question(size=place)).crossovers[0].value


def test_it_is_built_as_it_is_counted(tmp_path: Path) -> None:
    place = written(tmp_path, GROUPED)
    assert build_model(model_of_config(place)).num_parameters() == estimate(place).parameters


def test_published_models_are_sizes(tmp_path: Path) -> None:
    assert model_of_config(written(tmp_path, SMOLLM2)) == published("smollm2-135m")
    millions = {name: round(estimate(name, context_length=64).parameters / 1e6) for name in PUBLISHED}
    assert millions == {
        "smollm2-135m": 135,
        "smollm2-360m": 362,
        "smollm2-1.7b": 1711,
        "tinyllama-1.1b": 1100,
        "llama-2-7b": 6738,
        "llama-2-13b": 13016,
        "llama-2-70b": 68977,
        "llama-3-8b": 8030,
        "llama-3.1-8b": 8030,
        "llama-3.1-70b": 70554,
        "llama-3.2-1b": 1236,
        "llama-3.2-3b": 3213,
    }
    with pytest.raises(AttnlabError, match="no published model called 'llama-9'"):
        published("llama-9")


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in GROUPED.items() if key != name}


@pytest.mark.parametrize(
    ("config", "said", "hinted"),
    [
        ([1], "no JSON object", "fetch"),
        ({"model_type": "mamba"}, "type 'mamba'", "gpt2, llama"),
        ({}, "type None", "gpt2, llama"),
        *((without(name), f"no {name}", name) for name in ("hidden_size", "intermediate_size", "vocab_size")),
        ({**GPT2, "n_head": None}, "no n_head", "n_head"),
        ({**GROUPED, "hidden_size": "wide"}, "'wide', not a whole number", "hidden_size"),
        ({**GROUPED, "num_hidden_layers": 0}, "0, not a whole number", "num_hidden_layers"),
        ({**GROUPED, "mlp_bias": 1}, "1, not true or false", "mlp_bias"),
        ({**GROUPED, "rms_norm_eps": -1}, "-1, not a number above 0", "rms_norm_eps"),
        ({**GROUPED, "num_key_value_heads": 3}, "describes no model", ""),
        ({**GPT2, "add_cross_attention": True}, "with cross-attention", "false"),
        ({**GPT2, "activation_function": "relu"}, "is 'relu'", "gelu_new"),
    ],
)
def test_what_no_configuration_is(config: object, said: str, hinted: str, tmp_path: Path) -> None:
    with pytest.raises(AttnlabError, match=said) as caught:
        estimate(written(tmp_path, config))
    assert caught.value.hint
    assert hinted in caught.value.hint


def test_missing_files_and_other_sweeps(tmp_path: Path) -> None:
    for place in (tmp_path / "none.json", tmp_path, tmp_path / "none"):
        with pytest.raises(AttnlabError, match="there is no file"):
            Question(size=str(place)).model()
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(AttnlabError, match="no JSON"):
        Question(size=str(tmp_path)).model()
    with pytest.raises(AttnlabError, match="needs a named size"):
        Sweep.over("width", Question(size=written(tmp_path, SMOLLM2)))
