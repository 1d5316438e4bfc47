"""What a folder holds, as far as it must not be lost and comes out the same each time."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from attnlab.errors import AttnlabError
from attnlab.knowledge.store.store import FactStore
from attnlab.runs.checkpoints import digest as digest_tensors
from attnlab.storage.tensors import read_tensors

Digest = Mapping[str, str]
UNFINISHED = "unfinished"
_APART = {"cache", "tmp", "runs"}


def digest_of(folder: Path) -> dict[str, str]:
    """Return what there is, by its name: the weights of runs, verdicts, facts, and files that users named."""
    found = {}
    for kind, pattern, read in (("run", "run.json", _run), ("comparison", "plan.json", _comparison)):
        for path in sorted((folder / "runs").rglob(pattern)):
            name = path.parent.relative_to(folder)
            if not str(name).startswith("runs/."):  # half removed
                found[f"{kind} {name}"] = read(path.parent)
    for path in sorted((folder / "runs").glob("*.sqlite")):
        found[f"store {path.relative_to(folder)}"] = _facts(path)
    for path in sorted(folder.iterdir()):
        if path.name not in _APART and not path.name.startswith(".") and not path.name.endswith("-journal"):
            found[f"file {path.name}"] = _file(path)
    return found


def lost(before: Digest, after: Digest) -> list[str]:
    """Return what was there before and is not there, or is something else."""
    return [
        f"{name}: {kept[:60]} became {after.get(name, 'nothing')[:60]}"
        for name, kept in before.items()
        if kept != UNFINISHED and not _includes(after.get(name, ""), kept)
    ]


def _includes(now: str, before: str) -> bool:
    """Return whether nothing is lost; facts may come."""
    if before.startswith("facts\n"):
        return {*before.split("\n")} <= {*now.split("\n")}
    return now == before


def _run(path: Path) -> str:
    if not (path / "result.json").exists():
        return UNFINISHED
    with suppress(AttnlabError, OSError):
        return _weights(path / "model.safetensors")
    return "without weights"


def _once(read: Callable[[Path], str]) -> Callable[[Path], str]:
    """Return the same function, which reads a file only if it was written since: copies keep their times."""
    known: dict[tuple[str, int, int], str] = {}

    def reading(path: Path) -> str:
        about = path.stat()
        key = path.name, about.st_size, about.st_mtime_ns
        if key not in known:
            known[key] = read(path)
        return known[key]

    return reading


@_once
def _weights(path: Path) -> str:
    return digest_tensors(read_tensors(path))


@_once
def _bundle(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            return f"bundle {archive.testzip()}"
    except zipfile.BadZipFile:
        return "no bundle"


def _comparison(path: Path) -> str:
    try:
        answer = json.loads((path / "answer.json").read_text())["answer"]["data"]
    except (OSError, ValueError, KeyError):
        return UNFINISHED
    return hashlib.sha256(json.dumps(answer["verdicts"], sort_keys=True).encode()).hexdigest()


def _file(path: Path) -> str:
    if path.is_symlink():
        return f"link {path.readlink()}"
    if path.is_dir():
        return "folder " + " ".join(sorted(entry.name for entry in path.iterdir() if not entry.name.startswith(".")))
    match path.suffix:
        case ".sqlite":
            return _facts(path)
        case ".html":
            return "page" if path.read_bytes().rstrip().endswith(b"</html>") else "half a page"
        case ".zip":
            return _bundle(path)
        case ".csv":
            return f"{len(path.read_bytes().splitlines())} lines"
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _facts(path: Path) -> str:
    with FactStore(path, create=False) as store:
        if problems := store.check():
            return f"damaged: {problems}"
        return "\n".join(["facts", *sorted(f"{one.question}\t{one.answer}" for one in store.facts())])
