"""Models with attention of attnlab's own, opened by Transformers from a folder with their code, and back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from attnlab.errors import AttnlabError
from attnlab.models import LanguageModel, ModelSpec, build_model, open_pretrained
from attnlab.models.hf import load_own, push_to_hub, save_own
from attnlab.models.hf.modeling_attnlab import AttnlabForCausalLM
from support.pretrained import small_tokenizer

TOKENS = torch.randint(280, (2, 24), generator=torch.Generator().manual_seed(1))


def model_of(variant: str, architecture: str = "gpt2") -> LanguageModel:
    shape = {"num_layers": 2, "model_width": 32, "num_heads": 4, "context_length": 24, "initial_std": 0.2}
    spec = ModelSpec.build("pico", vocabulary_size=280, variant=variant, architecture=architecture, **shape)
    model = build_model(spec).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "extras" in name:
                parameter.add_(0.3)
    return model


@torch.no_grad()
def difference(wanted: Tensor, found: Tensor) -> float:
    return float((found - wanted).abs().max() / wanted.std())


@pytest.mark.parametrize(
    ("variant", "architecture"),
    [
        ("softmax", "gpt2"),
        ("tied-kv", "llama"),
        ("tied-qk", "gpt2"),
        ("tied-qkv", "gpt2"),
        ("mqa+sigmoid", "fast"),
        ("sink-window:6", "llama"),
        ("window:6,softmax-sink", "gpt2"),
        ("mla:16", "llama"),
        ("relu", "gpt2"),
        ("squared-relu", "llama"),
        ("softmax-plus-one", "gpt2"),
        ("softmax-capped", "gpt2"),
        ("scalable-softmax", "gpt2"),
        ("cosine-learned", "gpt2"),
        ("qk-norm", "llama"),
        ("dot", "gpt2"),
        ("low-rank-value:4", "llama"),
    ],
)
def test_logits_are_the_same(variant: str, architecture: str, tmp_path: Path) -> None:
    model = model_of(variant, architecture)
    save_own(model, tmp_path / "own")
    theirs = AttnlabForCausalLM.from_pretrained(tmp_path / "own").eval()
    with torch.no_grad():
        wanted = model(TOKENS)
        assert difference(wanted, theirs(TOKENS).logits) < 2e-5
        again = load_own(tmp_path / "own")
        assert torch.equal(again(TOKENS), wanted)
    assert open_pretrained(tmp_path / "own").spec == again.spec


SCRIPT = """
import json, sys
sys.modules["attnlab"] = None  # importing it fails, as where it is not installed
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
folder = sys.argv[1]
model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True).eval()
tokens = torch.tensor(json.loads(sys.argv[2]))
logits = model(tokens).logits
loss = model(tokens, labels=tokens).loss
written = model.generate(tokens[:1, :4], max_new_tokens=5, do_sample=False, pad_token_id=0)
model.save_pretrained(folder + "-again")
print(json.dumps([logits[0, -1].tolist(), loss.item(), written[0].tolist()]))
"""


def test_a_process_without_attnlab_runs_it(tmp_path: Path) -> None:
    model, folder = model_of("tied-kv+sigmoid", "llama"), tmp_path / "own"
    save_own(model, folder, small_tokenizer())
    assert (folder / "tokenizer.json").is_file()
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONPATH", None)
    command = [sys.executable, "-c", SCRIPT, str(folder), json.dumps(TOKENS.tolist())]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    logits, loss, written = json.loads(done.stdout.splitlines()[-1])
    with torch.no_grad():
        wanted = model(TOKENS)
        assert difference(wanted[0, -1], torch.tensor(logits)) < 2e-5
        expected = model.loss(TOKENS[:, :-1], TOKENS[:, 1:]).item()
    assert loss == pytest.approx(expected, abs=1e-4)
    assert written[:4] == TOKENS[0, :4].tolist()
    assert len(written) == 9
    assert json.loads((tmp_path / "own-again" / "config.json").read_text())["spec"]["num_layers"] == 2


def test_what_the_code_does_not_know_is_refused(tmp_path: Path) -> None:
    for variant, words in (("linear", "operator"), ("entmax", "entmax"), ("alibi", "alibi"), ("prefix", "prefix")):
        with pytest.raises(AttnlabError, match=words):
            save_own(model_of(variant), tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    save_own(model_of("tied-kv"), tmp_path / "own")
    config = tmp_path / "own" / "config.json"
    whole = json.loads(config.read_text())
    for changed, words in (
        ({**whole, "spec": None}, "no model of attnlab"),
        ({**whole, "spec": {**whole["spec"], "num_layers": 3}}, "describes no model"),
        ({**whole, "spec": {**whole["spec"], "vocabulary_size": 9}}, "wrong shapes"),
    ):
        config.write_text(json.dumps(changed))
        with pytest.raises(AttnlabError, match=words):
            load_own(tmp_path / "own")


def test_the_hub_gets_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}

    class Hub:
        @staticmethod
        def create_repo(name: str, **options: object) -> None:
            seen["repo"] = (name, options)

        @staticmethod
        def upload_folder(repo_id: str, folder_path: Path, **_: object) -> str:
            seen["files"] = sorted(path.name for path in folder_path.iterdir())
            return f"https://example.org/{repo_id}"

    monkeypatch.setitem(sys.modules, "huggingface_hub", Hub)
    assert push_to_hub(model_of("tied-kv"), "me/it", private=True) == "https://example.org/me/it"
    assert seen["repo"] == ("me/it", {"private": True, "exist_ok": True})
    assert seen["files"] == ["config.json", "model.safetensors", "modeling_attnlab.py"]
