"""The manifest of a checkpoint: which files belong to it, how long they are, and their SHA-256.

It holds a hash of itself too, so that a changed bit in it is found like one in any other file.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab.errors import FileError
from attnlab.storage.files import hash_file
from attnlab.storage.records import encode_json, read_json

FORMAT = 1
MANIFEST, STATE = "manifest.json", "state.json"


class DamagedCheckpointError(FileError):
    """What is wrong with a checkpoint, and with which file of it."""


@dataclass
class Manifest:
    """What a checkpoint consists of. `groups` tells in which files the tensors of a group lie."""

    step: int
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, data: bytes, group: str | None = None) -> None:
        """List a file with this content."""
        self.files[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        if group is not None:
            self.groups.setdefault(group, []).append(name)

    def encode(self) -> bytes:
        content = {"format": FORMAT, "step": self.step, "files": self.files, "groups": self.groups}
        return encode_json({**content, "sha256": _hash(content)})

    @classmethod
    def read(cls, folder: Path, step: int) -> Manifest:
        """The manifest in a folder that should hold the checkpoint of `step`."""
        path = folder / MANIFEST
        if not path.is_file():
            raise DamagedCheckpointError(f"{MANIFEST} is missing")
        try:
            content = read_json(path)
        except FileError as error:
            raise DamagedCheckpointError(error.message) from error
        if content.pop("sha256", None) != _hash(content):
            raise DamagedCheckpointError(f"{MANIFEST} has changed since it was written")
        if content.get("format") != FORMAT:
            raise DamagedCheckpointError(
                f"it has format {content.get('format')}, and this attnlab reads format {FORMAT}"
            )
        if content.get("step") != step:
            raise DamagedCheckpointError(f"{MANIFEST} is that of step {content.get('step')}")
        files, groups = content.get("files"), content.get("groups")
        if not isinstance(files, dict) or not isinstance(groups, dict):
            raise DamagedCheckpointError(f"{MANIFEST} is incomplete")
        if any(Path(name).name != name for name in files):
            raise DamagedCheckpointError(f"{MANIFEST} names files elsewhere")
        if STATE not in files or any(name not in files for names in groups.values() for name in names):
            raise DamagedCheckpointError(f"{MANIFEST} is incomplete")
        return cls(step, files, groups)


def check_files(folder: Path, manifest: Manifest, *, hashes: bool = True) -> None:
    """Compare the files with the manifest: that they are there, their sizes and, if wanted, every byte."""
    for name, written in manifest.files.items():
        try:
            _check_file(folder / name, written, hashes=hashes)
        except FileNotFoundError:
            raise DamagedCheckpointError(f"{name} is missing") from None
        except DamagedCheckpointError:
            raise
        except OSError as error:
            raise DamagedCheckpointError(f"{name} cannot be read: {(error.strerror or str(error)).lower()}") from error


def _check_file(path: Path, written: dict[str, Any], *, hashes: bool) -> None:
    size = path.stat().st_size
    if size != written.get("bytes"):
        raise DamagedCheckpointError(f"{path.name} has {size} bytes instead of {written.get('bytes')}")
    if hashes and hash_file(path) != written.get("sha256"):
        raise DamagedCheckpointError(f"{path.name} has changed since it was written")


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
