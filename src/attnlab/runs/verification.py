"""Check files read from a run directory against the hashes that were written with them.

    run.json            contains the hash of its own content
    result.json         the last receipt contains the hash of its content
    model.safetensors   result.json contains the hash of the final weights
    tokenizer.json      run.json contains the hash of the tokenizer

A run of an older attnlab version, without these hashes and without receipts, is read without the check.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from torch import Tensor

from attnlab.errors import FileError
from attnlab.runs.checkpoints import add_to_digest, digest
from attnlab.runs.receipts import RECEIPTS
from attnlab.storage.records import content_hash
from attnlab.storage.tensors import iterate_tensors, read_tensors

SEAL = "sha256"
_LARGE = 1 << 20  # bytes of a weights file from which on a second thread pays off
_NUMBER = (int, float, type(None))
_RESULT = {
    "outcome": (str,),
    "steps": (int,),
    "seconds": (int, float),
    "validation_loss": _NUMBER,
    "tokens_per_second": _NUMBER,
    "weights_sha256": (str, type(None)),
    "message": (str, type(None)),
}


def seal(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the hash of its content."""
    return {**record, SEAL: content_hash(record)}


def check_record(path: Path, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a record that was read from `path`; refuse one that was changed after it was written."""
    content = {name: value for name, value in record.items() if name != SEAL}
    if SEAL in record:
        problem = "its content does not have the recorded hash" if record[SEAL] != content_hash(content) else None
    else:
        problem = "its hash is missing, although the run has receipts" if _has_receipts(path) else None
    if problem is not None:
        raise FileError(
            f"{path} was changed after the run began: {problem}",
            hint="restore the old file, or train in another folder by `out=FOLDER`",
        )
    return content


def check_result(path: Path, result: Mapping[str, Any]) -> None:
    """Refuse a result with values that no run writes, and one that the last receipt of the run does not name."""
    for name, kinds in _RESULT.items():
        value = result.get(name, 0)
        if name in result and (not isinstance(value, kinds) or isinstance(value, bool)):
            raise FileError(
                f"{path} is damaged: {name} is {value!r}", hint="restore the old file, or train the run again"
            )
    if _linked_result(path.parent) not in {None, content_hash(result)}:
        raise FileError(
            f"{path} was changed after the run ended: its content does not have the hash in its receipts",
            hint=train_again(path),
        )


def _linked_result(folder: Path) -> str | None:
    """Return the hash of the result in the last receipt of a run; None if there is none that can be read."""
    try:
        last = (folder / RECEIPTS).read_bytes().rstrip(b"\n").rpartition(b"\n")[2]
        return str(json.loads(last)["result"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def read_final_weights(path: Path, known: str | None) -> dict[str, Tensor]:
    """Return the final weights in a file after comparing all of them with their hash, if that is known."""
    if not path.exists():
        raise FileError(
            f"{path.parent} has finished, but its final weights are missing: there is no {path.name}",
            hint=train_again(path),
        )
    if known is None and _has_receipts(path):
        raise FileError(
            f"{path.parent / 'result.json'} was changed after the run finished: the hash of the weights is missing, "
            "although the run has receipts",
            hint=train_again(path),
        )
    tensors, found = _read_hashed(path)
    if known not in {None, found}:
        raise FileError(
            f"{path} was changed after the run finished: its weights do not have the hash in result.json",
            hint=train_again(path),
        )
    return tensors


def _read_hashed(path: Path) -> tuple[dict[str, Tensor], str]:
    """Return tensors with their digest; in a large file a second thread hashes each while the next one is read."""
    if path.stat().st_size < _LARGE:
        tensors = read_tensors(path)
        return tensors, digest(tensors)
    tensors = {}
    found = hashlib.sha256()
    with ThreadPoolExecutor(1) as hashing:
        waiting: Future[None] | None = None
        for name, tensor in iterate_tensors(path):
            tensors[name] = tensor
            waiting = hashing.submit(add_to_digest, found, name, tensor)
        if waiting is not None:
            waiting.result()
    return tensors, found.hexdigest()


def _has_receipts(path: Path) -> bool:
    """Return whether the run that a file belongs to has receipts, which no run without hashes has."""
    return (path.parent / RECEIPTS).exists()


def check_tokenizer(path: Path, tokenizer: str, known: str | None) -> None:
    """Refuse a tokenizer, as text, that was changed after the run began."""
    if known is not None and hash_text(tokenizer) != known:
        raise FileError(f"{path} was changed after the run began: it is another tokenizer", hint=train_again(path))


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def train_again(path: Path) -> str:
    """Return what to do about a damaged file of a finished run."""
    return f"restore the old file, or remove the run by `attnlab runs rm {path.parent}` and train it again"
