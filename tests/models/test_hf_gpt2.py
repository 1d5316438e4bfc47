"""GPT-2's weights: the same logits as in Transformers, both ways, and clear errors for what cannot be read."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from attnlab.errors import FileError, UnsupportedError
from attnlab.models import load_gpt2, save_gpt2
from attnlab.models.hf import folder as model_folder
from support.gpt2 import SHAPES, SMALL, change_tensors, edit, ours, shard, stored, theirs, tokens_of


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("name", SHAPES)
def test_logits_equal_those_of_transformers(name: str, implementation: str, tmp_path: Path) -> None:
    model = theirs(implementation, **SHAPES[name])
    model.save_pretrained(tmp_path)
    own = load_gpt2(tmp_path)
    assert not own.training
    tokens = tokens_of(model.config.vocab_size, model.config.n_positions)
    with torch.no_grad():
        torch.testing.assert_close(own(tokens), model(tokens).logits, rtol=1e-5, atol=1e-5)
    assert own.spec.tied_embedding == SHAPES[name].get("tie_word_embeddings", True)
    assert own.num_parameters() == model.num_parameters()


def test_gradients_equal_those_of_transformers(tmp_path: Path) -> None:
    model = theirs(**SMALL)
    model.save_pretrained(tmp_path)
    own = load_gpt2(tmp_path)
    tokens = tokens_of(50, 16)
    model(tokens, labels=tokens).loss.backward()
    own.loss(tokens[:, :-1], tokens[:, 1:]).backward()
    block, layer = model.transformer.h[1], own.stack.blocks[1]
    query, key, value = block.attn.c_attn.weight.grad.t().chunk(3)
    pairs = [
        (own.embedding.weight.grad, model.transformer.wte.weight.grad),
        (own.stack.positions.weight.grad, model.transformer.wpe.weight.grad),
        (layer.attention.projections["query"].weight.grad, query),
        (layer.attention.projections["key"].weight.grad, key),
        (layer.attention.projections["value"].weight.grad, value),
        (layer.mlp.widen.bias.grad, block.mlp.c_fc.bias.grad),
        (layer.mlp_norm.weight.grad, block.ln_2.weight.grad),
    ]
    for found, wanted in pairs:
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


OURS: dict[str, dict[str, Any]] = {
    "plain": {},
    "untied": {"tied_embedding": False},
    "dot, exact gelu": {"variant": "dot", "activation": "gelu"},
    "single head": {"variant": "single-head", "num_layers": 3},
    "no biases": {"bias": False},
    "narrow": {"mlp_width": 5, "norm_epsilon": 0.2, "dropout": 0.25},
}


@pytest.mark.parametrize("name", OURS)
def test_transformers_opens_what_is_saved(name: str, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, GPT2LMHeadModel

    model = ours(**OURS[name])
    save_gpt2(model, tmp_path / "a" / "saved")
    opened, report = AutoModelForCausalLM.from_pretrained(tmp_path / "a" / "saved", output_loading_info=True)
    assert isinstance(opened, GPT2LMHeadModel)
    assert not any(report.values())
    tokens = tokens_of(30, 12)
    with torch.no_grad():
        torch.testing.assert_close(opened.eval()(tokens).logits, model(tokens), rtol=1e-5, atol=1e-5)
    assert opened.config.resid_pdrop == opened.config.embd_pdrop == opened.config.attn_pdrop == model.spec.dropout
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["saved"]
    assert sorted(path.name for path in (tmp_path / "a/saved").iterdir()) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize("name", [name for name in OURS if name != "no biases"])
def test_saving_and_loading_changes_no_bit(name: str, tmp_path: Path) -> None:
    model = ours(**OURS[name])
    save_gpt2(model, tmp_path / "one")
    again = load_gpt2(tmp_path / "one")
    assert again.spec == model.spec
    assert {n: t.tolist() for n, t in again.state_dict().items()} == {
        n: t.tolist() for n, t in model.state_dict().items()
    }
    save_gpt2(again, tmp_path / "two")
    for file in ("config.json", "model.safetensors"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_the_end_of_a_text_is_known_for_gpt2s_own_vocabulary(tmp_path: Path) -> None:
    for vocabulary, end in ((50257, 50256), (30, None)):
        save_gpt2(ours(vocabulary_size=vocabulary, model_width=2, num_heads=1), tmp_path / str(vocabulary))
        config = json.loads((tmp_path / str(vocabulary) / "config.json").read_text())
        assert config["eos_token_id"] == config["bos_token_id"] == end


def test_names_without_prefix_and_old_buffers(tmp_path: Path) -> None:
    """As OpenAI's own files are: no prefix, no head, and the causal mask kept with the weights."""
    wanted = load_gpt2(stored(tmp_path)).state_dict()

    def older(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        plain = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
        masks = {f"h.{layer}.attn.bias": torch.ones(1, 1, 16, 16).tril() for layer in range(3)}
        return plain | masks | {"h.0.attn.masked_bias": torch.tensor(-1e4)}

    change_tensors(tmp_path, older)
    found = load_gpt2(tmp_path).state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())


def test_half_precision_becomes_float32(tmp_path: Path) -> None:
    stored(tmp_path)
    change_tensors(tmp_path, lambda tensors: {name: tensor.bfloat16() for name, tensor in tensors.items()})
    halved = safetensors.torch.load_file(tmp_path / "model.safetensors")["transformer.wte.weight"]
    model = load_gpt2(tmp_path)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert torch.equal(model.embedding.weight, halved.float())


def test_numbers_that_are_not_finite_are_loaded_as_they_are(tmp_path: Path) -> None:
    model = ours()
    with torch.no_grad():
        model.embedding.weight[3, 4] = float("nan")
    save_gpt2(model, tmp_path / "saved")
    assert load_gpt2(tmp_path / "saved").embedding.weight.isnan().nonzero().tolist() == [[3, 4]]


def test_a_tied_head_that_is_stored(tmp_path: Path) -> None:
    """One equal to the embedding is the embedding, also where it alone is stored; any other is a head."""
    name, head = "transformer.wte.weight", "lm_head.weight"
    plain = load_gpt2(stored(tmp_path))
    change_tensors(tmp_path, lambda tensors: tensors | {head: tensors[name].clone()})
    assert load_gpt2(tmp_path).spec == plain.spec
    change_tensors(tmp_path, lambda tensors: {n: tensor for n, tensor in tensors.items() if n != name})
    assert torch.equal(load_gpt2(tmp_path).embedding.weight, plain.embedding.weight)
    change_tensors(tmp_path, lambda tensors: tensors | {name: tensors[head] + 1})
    other = load_gpt2(tmp_path)
    assert not other.spec.tied_embedding
    assert torch.equal(other.head_weight, plain.embedding.weight)


def test_config_may_be_silent_or_use_other_names(tmp_path: Path) -> None:
    config = json.loads((stored(tmp_path) / "config.json").read_text())
    silent = {"model_type": "gpt2", "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4}
    wanted = load_gpt2(tmp_path).spec
    (tmp_path / "config.json").write_text(
        json.dumps(silent | {"max_position_embeddings": 16, "vocab_size": config["vocab_size"]})
    )
    assert load_gpt2(tmp_path).spec == wanted
    assert wanted.dropout == 0.1


def test_weights_in_several_files(tmp_path: Path) -> None:
    wanted = load_gpt2(stored(tmp_path)).state_dict()
    files = shard(tmp_path)
    found = load_gpt2(tmp_path).state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())
    (tmp_path / files[1]).unlink()
    with pytest.raises(FileError, match=r"00002-of-00002.*cannot be read"):
        load_gpt2(tmp_path)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("{", "no JSON"),
        ("[]", "no JSON object"),
        ("{}", "no weight_map"),
        ('{"weight_map": {"a": 3}}', "no weight_map"),
        ('{"weight_map": {}}', "lists nothing"),
        ('{"weight_map": {"a": "../model.safetensors"}}', "lists '../model.safetensors'"),
        ('{"weight_map": {"a": "pytorch_model.bin"}}', "lists 'pytorch_model.bin'"),
    ],
)
def test_a_bad_index(index: str, message: str, tmp_path: Path) -> None:
    shard(stored(tmp_path))
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(FileError, match=message):
        load_gpt2(tmp_path)


class Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def test_a_pickle_is_never_read(tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    folder = stored(tmp_path / "model")
    for name in ("pytorch_model.bin", "model.pt"):
        (folder / name).write_bytes(pickle.dumps(Trap(sprung)))
    load_gpt2(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileError, match="pickle") as caught:
        load_gpt2(folder)
    assert "save_pretrained" in str(caught.value.hint)
    assert not sprung.exists()
    pickle.loads((folder / "pytorch_model.bin").read_bytes())
    assert sprung.exists(), "the trap would not have told"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another model": ({"model_type": "llama"}, "of type 'llama'"),
    "no type": ({"model_type": None}, "of type None"),
    "relu": ({"activation_function": "relu"}, "activation_function='relu' is not one of gelu_new"),
    "odd activation": ({"activation_function": ["gelu"]}, "activation_function=.'gelu'. is not one of"),
    "scaled by layer": ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx divides"),
    "cross": ({"add_cross_attention": True}, "add_cross_attention makes"),
    "dropouts": ({"embd_pdrop": 0.2}, "embd_pdrop=0.2 and resid_pdrop=0.1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_another_gpt2_is_refused(case: str, tmp_path: Path) -> None:
    changes, message = REFUSED[case]
    edit(stored(tmp_path), **changes)
    with pytest.raises(UnsupportedError, match=message) as caught:
        load_gpt2(tmp_path)
    assert caught.value.hint


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "more layers": ({"n_layer": 4}, "lack h.3.attn.c_attn.weight.* and 9 more"),
    "fewer layers": ({"n_layer": 2}, "hold more than a GPT-2 has: transformer.h.2"),
    "absurd layers": ({"n_layer": 10**12}, "n_layer=1000000000000"),
    "layers that are text": ({"n_layer": "many"}, "n_layer='many'"),
    "another width": ({"n_embd": 32}, r"wrong shapes: transformer.wte.weight \(50, 24\), not \(50, 32\)"),
    "absurd width": ({"n_embd": 4 * 10**18}, "wrong shapes"),
    "another context": ({"n_positions": 17}, r"wpe.weight \(16, 24\), not \(17, 24\)"),
    "another vocabulary": ({"vocab_size": 51}, "wte.weight"),
    "another perceptron": ({"n_inner": 97}, r"mlp.c_fc.weight \(24, 96\), not \(24, 97\)"),
    "heads that do not divide": ({"n_head": 5}, "does not divide into 5 heads"),
    "no heads": ({"n_head": 0}, "num_heads"),
    "no width": ({"n_embd": None}, "model_width"),
    "an epsilon of zero": ({"layer_norm_epsilon": 0.0}, "norm_epsilon"),
    "an epsilon that is not a number": ({"layer_norm_epsilon": float("nan")}, "norm_epsilon"),
    "an untied head that is missing": ({"tie_word_embeddings": False}, "lack lm_head.weight"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_config_of_other_weights(case: str, tmp_path: Path) -> None:
    changes, message = WRONG[case]
    edit(stored(tmp_path), **changes)
    with pytest.raises(FileError, match=message) as caught:
        load_gpt2(tmp_path)
    assert caught.value.hint
    assert "\n" not in caught.value.message


def test_tensors_that_do_not_belong(tmp_path: Path) -> None:
    name = "transformer.h.0.ln_1.bias"
    changes: list[tuple[Any, str]] = [
        (lambda t: t | {"score.weight": torch.zeros(2, 24)}, "more than a GPT-2 has: score.weight"),
        (lambda t: {n: x for n, x in t.items() if n != name}, "lack h.0.ln_1.bias"),
        (lambda t: t | {name: torch.zeros(23)}, r"ln_1.bias \(23,\), not \(24,\)"),
        (lambda t: t | {name: torch.zeros(24, dtype=torch.int8)}, "ln_1.bias is of type torch.int8"),
        (lambda t: t | {name.removeprefix("transformer."): torch.zeros(24)}, "both"),
    ]
    for number, (change, message) in enumerate(changes):
        folder = stored(tmp_path / str(number))
        change_tensors(folder, change)
        with pytest.raises(FileError, match=message):
            load_gpt2(folder)


def test_damaged_or_missing_files(tmp_path: Path) -> None:
    folder = stored(tmp_path / "model")
    whole = (folder / "model.safetensors").read_bytes()
    for damaged in (b"", whole[:7], whole[:200], whole[:-1], b"\xff" * 100, b"\x80\x02}"):
        (folder / "model.safetensors").write_bytes(damaged)
        with pytest.raises(FileError, match=r"model\.safetensors cannot be read"):
            load_gpt2(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileError, match="has no weights"):
        load_gpt2(folder)
    for text in (b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000):
        (folder / "config.json").write_bytes(text)
        with pytest.raises(FileError, match=r"config\.json is damaged"):
            load_gpt2(folder)
    (folder / "config.json").unlink()
    with pytest.raises(FileError, match=r"no config\.json"):
        load_gpt2(folder)
    with pytest.raises(FileError, match="does not exist"):
        load_gpt2(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="is a file"):
        load_gpt2(tmp_path / "file")


def test_transformers_is_not_needed() -> None:
    source = Path(model_folder.__file__).parent
    for name in ("gpt2.py", "folder.py"):
        text = (source / name).read_text(encoding="utf-8")
        assert "import transformers" not in text
        assert "from transformers" not in text
