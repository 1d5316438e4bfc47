"""Llama's folders: the same logits as in Transformers, both ways, and clear words for what cannot be read or saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from transformers import LlamaForCausalLM

from attnlab.attention.parts.positions import Llama3Rope, Rope
from attnlab.errors import AttnlabError, SpecError
from attnlab.models import ModelSpec, Sampling, build_model, generate, load_llama, save_llama
from attnlab.models.decoding import TokenDecoder
from attnlab.models.pretrained import weights
from support.pretrained import some_tokens, their_llama

ROPE = {"rope_theta": 20_000.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
SHAPES: dict[str, dict[str, Any]] = {
    "grouped, tied": {},
    "untied, biases": {"tie_word_embeddings": False, "attention_bias": True, "mlp_bias": True},
    "one key head, wide heads": {"num_key_value_heads": 1, "head_dim": 12, "rms_norm_eps": 0.1},
    "all key heads, other base": {"num_key_value_heads": 4, "rope_parameters": {"rope_type": "default", **ROPE}},
    "linear": {"rope_parameters": {"rope_type": "linear", "factor": 3.0, **ROPE}},
    "llama3": {"rope_parameters": LLAMA3 | ROPE},
}


@pytest.mark.parametrize("name", SHAPES)
def test_logits_are_those_of_transformers_both_ways(name: str, tmp_path: Path) -> None:
    model, tokens = their_llama(**SHAPES[name]), some_tokens()
    model.save_pretrained(tmp_path / "theirs")
    ours = load_llama(tmp_path / "theirs")
    with torch.no_grad():
        wanted, found = model(tokens).logits, ours(tokens)
    assert (found - wanted).abs().max() < 1e-5 * wanted.std()
    save_llama(ours, tmp_path / "ours")
    again = LlamaForCausalLM.from_pretrained(tmp_path / "ours").eval()
    with torch.no_grad():
        assert torch.equal(again(tokens).logits, wanted)
    assert load_llama(tmp_path / "ours").spec == ours.spec


def test_decoding_one_token_at_a_time_gives_the_same_text(tmp_path: Path) -> None:
    model = their_llama(**SHAPES["llama3"])
    model.save_pretrained(tmp_path)
    ours, prompt = load_llama(tmp_path), some_tokens(1, 5)
    assert TokenDecoder.serves(ours)
    written = generate(ours, prompt.tolist(), 30, Sampling(temperature=0))
    wanted = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=30, do_sample=False)
    assert written == wanted[:, 5:].tolist()


def test_shards_and_old_buffers(tmp_path: Path) -> None:
    model = their_llama()
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    shards = sorted(tmp_path.glob("model-*.safetensors"))
    assert len(shards) > 1
    held = safetensors.torch.load_file(shards[0])
    held["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    safetensors.torch.save_file(held, shards[0], {"format": "pt"})
    assert torch.equal(load_llama(tmp_path).embedding.weight, model.model.embed_tokens.weight)
    shards[0].unlink()
    with pytest.raises(AttnlabError, match="cannot be read"):
        load_llama(tmp_path)


def test_a_gated_model_trains_and_keeps_its_json() -> None:
    spec = ModelSpec.build("pico", vocabulary_size=20, architecture="llama", variant="gqa:1")
    assert (spec.norm, spec.activation, spec.gated) == ("rms-weight", "silu", True)
    assert ModelSpec.from_json(spec.model_dump_json()) == spec
    assert "gated" not in ModelSpec.build("pico", vocabulary_size=20).model_dump()
    model = build_model(spec)
    assert model.stack.norm.weight.eq(1).all()
    tokens = torch.randint(20, (2, 8))
    model.loss(tokens, tokens).backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("changes", "said", "hinted"),
    [
        ({"model_type": "mamba"}, "type 'mamba'", "open_pretrained"),
        ({"hidden_act": "relu"}, "hidden_act .* is 'relu'", "silu"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "by 'yarn'", "default, linear, llama3"),
        ({"rope_parameters": {"rope_type": "linear", "factor": "two"}}, "'two', not a number", "factor"),
        ({"rope_parameters": [1]}, "not an object", "rope_parameters"),
        ({"num_hidden_layers": 50}, "tensors can have", "num_hidden_layers"),
        ({"num_hidden_layers": 1}, "hold more than a Llama has", "config.json"),
        ({"num_hidden_layers": 10**9}, "at most", "num_hidden_layers"),
        ({"intermediate_size": 63}, "hold wrong shapes", "config.json"),
        ({"attention_bias": True}, "lack", "config.json"),
        ({"num_key_value_heads": 3}, "describes no model", ""),
    ],
)
def test_what_is_no_llama(changes: dict[str, Any], said: str, hinted: str, tmp_path: Path) -> None:
    their_llama().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(AttnlabError, match=said) as caught:
        load_llama(tmp_path)
    assert hinted in (caught.value.hint or "")


def test_too_little_memory_is_said_before_weights_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    their_llama().save_pretrained(tmp_path)
    monkeypatch.setattr(weights, "free_bytes", lambda: 1000)
    with pytest.raises(AttnlabError, match="KiB of memory, and 1000 B are free"):
        load_llama(tmp_path)


def test_what_llama_cannot_hold(tmp_path: Path) -> None:
    plain = ModelSpec.build("pico", vocabulary_size=20, architecture="llama")
    save_llama(build_model(plain.replace(dropout=0.1)), tmp_path / "plain")
    other = ModelSpec.build("pico", vocabulary_size=20, architecture="llama", variant="sigmoid,softmax")
    for spec, said in (
        (other, "normaliser of attention is sigmoid"),
        (ModelSpec.build("pico", vocabulary_size=20), "norm is layer, and Llama has rms-weight"),
    ):
        with pytest.raises(AttnlabError, match=said):
            save_llama(build_model(spec), tmp_path / "other")
    assert not (tmp_path / "other").exists()
    with pytest.raises(AttnlabError, match="holds other things"):
        save_llama(build_model(plain), tmp_path)


def test_scaled_rotations() -> None:
    position = Llama3Rope(factor=8, original_context_length=64)
    exponents = torch.arange(16) / 16
    plain, scaled = Rope().frequencies(exponents), position.frequencies(exponents)
    rotations = 64 * plain / (2 * torch.pi)
    assert torch.equal(scaled[rotations > 4], plain[rotations > 4])
    assert torch.allclose(scaled[rotations < 1], plain[rotations < 1] / 8)
    between = (rotations > 1) & (rotations < 4)
    assert between.any()
    assert (scaled[between] < plain[between]).all()
    with pytest.raises(SpecError, match="low_rotations must be below"):
        Llama3Rope(factor=8, low_rotations=4)
    with pytest.raises(SpecError, match="factor"):
        Llama3Rope(factor=0.5)
