"""A model folder in the layout of Transformers: config.json, and tensors in safetensors. Pickles are never read.

    config.json
    model.safetensors                     or model-00001-of-00002.safetensors, … with model.safetensors.index.json

A folder is written under a temporary name next to its path and renamed, so that it is either complete or absent.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from attnlab.errors import FileError
from attnlab.storage.disk import flush_file, flush_folder, name_temporary
from attnlab.storage.files import read_file

CONFIG, TENSORS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_REPLACED = (CONFIG, "model*.safetensors", INDEX, "pytorch_model*.bin", "pytorch_model*.bin.index.json")
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def read_config(folder: Path) -> Mapping[str, Any]:
    """Return the content of config.json."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise FileError(f"{folder} {what}, not a model's folder", hint=f"name a folder with {CONFIG} and {TENSORS}")
    if not (folder / CONFIG).is_file():
        raise FileError(f"{folder} is no model's folder: it has no {CONFIG}", hint=f"it needs {CONFIG} and {TENSORS}")
    return read_json(folder / CONFIG)


class TensorFiles:
    """The tensors of a folder by their names, read one at a time."""

    def __init__(self, sources: Mapping[str, Any]) -> None:
        self._sources = sources

    @property
    def names(self) -> list[str]:
        return list(self._sources)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._sources[name].get_slice(name).get_shape())

    def read(self, name: str) -> Tensor:
        """Return a tensor, which may be memory-mapped from the file: clone it to keep it."""
        tensor: Tensor = self._sources[name].get_tensor(name)
        return tensor


@contextmanager
def open_tensors(folder: Path) -> Iterator[TensorFiles]:
    """Open the tensors of a folder, in one file or in several that an index lists."""
    sources: dict[str, Any] = {}
    with ExitStack() as stack:
        for path in _tensor_files(folder):
            try:
                file = stack.enter_context(safe_open(path, framework="pt"))
                names = list(file.keys())
            except (OSError, SafetensorError) as error:
                hint = "fetch it again" if path.exists() else f"every file that {INDEX} lists must be there"
                raise FileError(f"{path} cannot be read: {_reason(error)}", hint=hint) from None
            twice = sorted(sources.keys() & set(names))
            if twice:
                raise FileError(f"{folder} is damaged: {twice[0]} is in two files", hint="fetch it again")
            sources.update(dict.fromkeys(names, file))
        yield TensorFiles(sources)


def ties_head(files: TensorFiles, names: dict[str, str], head: str, embedding: str) -> bool:
    """Return whether the files hold no head but the embedding; of two equal ones `names` keeps the embedding.

    `names` are those in the files by plain names.
    """
    if head not in names:
        return True
    if embedding in names and not torch.equal(files.read(names[head]), files.read(names[embedding])):
        return False
    stored = names.pop(head)
    names.setdefault(embedding, stored)
    return True


def _tensor_files(folder: Path) -> list[Path]:
    if (folder / TENSORS).exists():
        return [folder / TENSORS]
    if not (folder / INDEX).exists():
        pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
        if pickles:
            raise FileError(
                f"{folder} has its weights in a pickle ({pickles[0]}), which could run any code when it is read",
                hint="if you trust it, convert it with Transformers: "
                "AutoModelForCausalLM.from_pretrained(folder).save_pretrained(new_folder)",
            )
        raise FileError(f"{folder} has no weights", hint=f"it needs {TENSORS}, or {INDEX} with the files that it lists")
    listed = read_json(folder / INDEX).get("weight_map")
    if not isinstance(listed, dict) or not all(isinstance(name, str) for name in listed.values()):
        raise FileError(f"{folder / INDEX} is damaged: it has no weight_map", hint="fetch it again")
    names = sorted(set(listed.values()))
    outside = [name for name in names if Path(name).name != name or not name.endswith(".safetensors")]
    if outside or not names:
        what = f"lists {outside[0]!r}" if outside else "lists nothing"
        raise FileError(f"{folder / INDEX} {what}", hint="it may list safetensors files of its own folder, and must")
    return [folder / name for name in names]


def write_folder(folder: Path, config: Mapping[str, object], tensors: Mapping[str, Tensor], kind: str) -> None:
    """Write a model into a folder that is new or empty, or that holds a model of this kind, which is replaced.

    Other files in such a folder, such as a tokenizer, are kept.
    """
    try:
        _write_folder(folder, config, tensors, kind)
    except FileError:
        raise
    except (OSError, SafetensorError, RuntimeError) as error:  # the last for symbolic links that form a cycle
        full = (isinstance(error, OSError) and error.errno in _NO_SPACE) or "No space left" in str(error)
        hint = "free some space, or name a folder on another disk" if full else "name a new folder in one of your own"
        raise FileError(f"{folder} cannot be written: {_reason(error)}", hint=hint) from None


def _write_folder(folder: Path, config: Mapping[str, object], tensors: Mapping[str, Tensor], kind: str) -> None:
    target = folder.resolve()  # follow symbolic links, so that a link is not replaced by a file
    for path in (target, target.parent):
        if path.exists() and not path.is_dir():
            raise FileError(f"{path} is a file", hint="name a folder")
    occupied = target.is_dir() and any(target.iterdir())
    if occupied and not _holds(target, kind):
        raise FileError(f"{folder} holds other things already", hint=f"name a new folder, or one of a {kind} model")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = name_temporary(target.parent, target.name)
    try:
        if occupied:
            shutil.copytree(target, temporary, True, _weights_of(target), copy_function=_link)
        else:
            temporary.mkdir()
        (temporary / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        safetensors.torch.save_file(dict(tensors), temporary / TENSORS, metadata={"format": "pt"})
        for path in (temporary / CONFIG, temporary / TENSORS):
            flush_file(path)
        flush_folder(temporary)
        _put_in_place(temporary, target, occupied)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _holds(folder: Path, kind: str) -> bool:
    try:
        return read_config(folder).get("model_type") == kind
    except FileError:
        return False


def _put_in_place(temporary: Path, target: Path, occupied: bool) -> None:
    if not occupied:
        temporary.rename(target)
    else:
        old = name_temporary(target.parent, target.name)
        target.rename(old)
        try:
            temporary.rename(target)
        except BaseException:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    flush_folder(target.parent)


def _weights_of(target: Path) -> Callable[[str, list[str]], set[str]]:
    """Return a filter for `shutil.copytree`: ignore the files that a new model replaces, but not in subfolders."""
    replaced = shutil.ignore_patterns(*_REPLACED)
    return lambda path, names: replaced(path, names) if Path(path) == target else set()


def _link(source: str, copy: str) -> None:
    """Make a hard link to the file, or a copy where the file system has no links."""
    try:
        os.link(source, copy, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, copy, follow_symlinks=False)


def read_json(path: Path) -> Mapping[str, Any]:
    """Return the object that a JSON file holds."""
    try:
        data = json.loads(read_file(path).decode("utf-8"))
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{path} cannot be read: {_reason(error)}", hint="check the path and its permissions") from None
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is damaged: it is no JSON ({error})", hint="fetch it again") from None
    if not isinstance(data, dict):
        raise FileError(f"{path} is damaged: it holds no JSON object", hint="fetch it again")
    return data


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return re.sub(r"\s+", " ", text[:1].lower() + text[1:])
