"""Save models as folders for Transformers: as GPT-2 or Llama if these can represent them, else with their own code."""

from __future__ import annotations

from pathlib import Path

from attnlab.corpora import BpeTokenizer, Tokenizer
from attnlab.errors import UnsupportedError
from attnlab.formats import file_name
from attnlab.models import LanguageModel, save_gpt2, save_llama
from attnlab.models.hf import save_own
from attnlab.retrofit.result import RetrofitResult
from attnlab.training import load_run


def save_retrofitted(result: RetrofitResult, folder: Path) -> dict[str, str]:
    """Write each retrofitted model of a result into a folder of its name below `folder`; return their types."""
    found = {}
    for one in result.variants:
        loaded = load_run(one.healed)
        found[one.name] = save_for_transformers(loaded.model, folder / file_name(one.name), loaded.tokenizer)
    return found


def save_for_transformers(model: LanguageModel, folder: Path, tokenizer: Tokenizer | None = None) -> str:
    """Write a model and its tokenizer into a folder that Transformers can load, and return its model type.

    The type is llama or gpt2 if these can represent the model, else attnlab, with the code that runs it.
    """
    for name, save in (("llama", save_llama), ("gpt2", save_gpt2)):
        try:
            save(model, folder)
        except UnsupportedError:
            continue
        if isinstance(tokenizer, BpeTokenizer):
            tokenizer.save(folder / "tokenizer.json")
        return name
    save_own(model, folder, tokenizer)
    return "attnlab"
