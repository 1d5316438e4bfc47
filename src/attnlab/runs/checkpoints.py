"""Exact checkpoints: tensors in safetensors and state in JSON, complete or absent.

    checkpoints/step-000200/  model.safetensors, or model-00001-of-00002.safetensors, …   each group of tensors
                              state.json                                                 everything except tensors
                              manifest.json                                              written last: sizes and hashes

A checkpoint is written into a temporary folder, flushed, and renamed into place; only then is an older one removed, by
renaming it first. So a process may be killed, or the disk may fail, at any moment: a folder named step-… is complete,
and if the disk damages it later, its manifest shows it. The manifest also contains a hash of itself.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from attnlab.errors import FileError, InputError
from attnlab.storage import disk
from attnlab.storage.files import hash_file
from attnlab.storage.records import content_hash, encode_json, read_json
from attnlab.storage.tensors import encode_tensors, read_tensors, tensor_bytes

FORMAT = 1
MANIFEST, STATE = "manifest.json", "state.json"
_STEP = re.compile(r"step-(\d+)")
_GROUP = re.compile(r"[a-z][a-z0-9_]*")


class DamagedCheckpointWarning(UserWarning):
    """A checkpoint was skipped because one of its files is missing, truncated or changed."""


class LeftoverWarning(UserWarning):
    """A checkpoint was saved, but a superfluous older one could not be removed."""


class DamagedCheckpointError(FileError):
    """A file of a checkpoint is missing, truncated or changed."""


@dataclass
class Manifest:
    """The files of a checkpoint. `groups` lists the files that contain the tensors of each group."""

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
        return encode_json({**content, "sha256": content_hash(content)})

    @classmethod
    def read(cls, folder: Path, step: int) -> Manifest:
        """Read the manifest in a folder that should hold the checkpoint of `step`."""
        path = folder / MANIFEST
        if not path.is_file():
            raise DamagedCheckpointError(f"{MANIFEST} is missing")
        try:
            content = read_json(path)
        except FileError as error:
            raise DamagedCheckpointError(error.message) from error
        if content.pop("sha256", None) != content_hash(content):
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


class Checkpoint:
    """A checkpoint whose files all match its manifest."""

    def __init__(self, step: int, path: Path, manifest: Manifest) -> None:
        self.step = step
        self.path = path
        self._manifest = manifest

    def tensors(self, group: str) -> dict[str, Tensor]:
        """Return the tensors of a group, on the CPU."""
        files = self._manifest.groups.get(group)
        if files is None:
            known = ", ".join(self._manifest.groups) or "none"
            raise FileError(f"{self.path} holds no group {group!r}", hint=f"its groups: {known}")
        return {name: tensor for file in files for name, tensor in read_tensors(self.path / file).items()}

    @cached_property
    def state(self) -> dict[str, Any]:
        """Return the saved state other than tensors."""
        return read_json(self.path / STATE)


class Checkpoints:
    """The checkpoints in a folder, of which the newest `keep` are kept. The files in `flush_first` are flushed first.

    One process at a time may save: the one that holds the run directory. All may read.
    """

    def __init__(
        self, folder: Path, keep: int = 2, shard_bytes: int = 1 << 30, *, flush_first: Sequence[Path] = ()
    ) -> None:
        if keep < 2:
            raise InputError(
                f"at least 2 checkpoints are kept, and {keep} are asked for", hint="the disk may damage one"
            )
        if shard_bytes < 1:
            raise InputError(f"a file of a checkpoint cannot have at most {shard_bytes} bytes")
        self.folder, self.keep, self.shard_bytes = folder, keep, shard_bytes
        self._flush_first = tuple(flush_first)
        self._damaged: set[int] = set()

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint, damaged or not, in order."""
        return sorted(self._paths())

    def path(self, step: int) -> Path:
        """Return the path of the checkpoint of a step, whether it exists or not."""
        return self._paths().get(step, self.folder / f"step-{step:06d}")

    def latest(self) -> Checkpoint | None:
        """Return the newest checkpoint that is complete, with a warning for each newer one that is damaged."""
        for step in reversed(self.steps()):
            try:
                return self.check(step)
            except DamagedCheckpointError as damage:
                message = f"{self.path(step)} is damaged and passed over: {damage}"
                warnings.warn(DamagedCheckpointWarning(message), stacklevel=2)
        return None

    def check(self, step: int) -> Checkpoint:
        """Return the checkpoint of a step after checking every byte; raises `DamagedCheckpointError`."""
        path = self.path(step)
        try:
            manifest = Manifest.read(path, step)
            _check_files(path, manifest)
        except DamagedCheckpointError:
            self._damaged.add(step)
            raise
        return Checkpoint(step, path, manifest)

    def save(self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]) -> Path:
        """Write a checkpoint, and remove those that are then superfluous. A whole one of this step is left alone."""
        encoded_state = _encode_state(state)
        shards = _plan(step, tensors, self.shard_bytes)
        try:
            self._prepare()
            if not self._is_whole(step):
                self._write(step, shards, encoded_state)
        except OSError as error:
            raise self._refusal(step, error) from error
        self._damaged.discard(step)
        self._remove_superfluous(step)
        return self.path(step)

    def _prepare(self) -> None:
        for path in self._flush_first:
            if path.exists():
                disk.flush_file(path)
        disk.make_folders(self.folder)
        for path in disk.find_temporaries(self.folder):
            disk.remove_tree(path)

    def _is_whole(self, step: int) -> bool:
        if step not in self.steps():
            return False
        try:
            self.check(step)
        except DamagedCheckpointError:
            return False
        return True

    def _write(self, step: int, shards: Mapping[str, list[Mapping[str, Tensor]]], state: bytes) -> None:
        target = self.path(step)
        temporary = disk.name_temporary(self.folder, target.name)
        try:
            disk.disk.make_folder(temporary)
            manifest = Manifest(step)
            for group, name, data in _encode(shards):
                disk.write_new(temporary / name, data)
                manifest.add(name, data, group)
            disk.write_new(temporary / STATE, state)
            manifest.add(STATE, state)
            disk.write_new(temporary / MANIFEST, manifest.encode())
            disk.flush_folder(temporary)
            if target.exists() or target.is_symlink():  # then it is damaged
                disk.move_away(target)
            disk.disk.rename(temporary, target)
        except BaseException:
            with suppress(OSError):
                disk.remove_tree(temporary)
            raise
        disk.flush_folder(self.folder)

    def _remove_superfluous(self, saved: int) -> None:
        """Keep the one just saved and the newest others that look whole; the disk may have damaged one."""
        others = [step for step in reversed(self.steps()) if step != saved]
        looking_whole = [step for step in others if step not in self._damaged and self._looks_whole(step)]
        kept = looking_whole[: self.keep - 1]
        try:
            for step in others:
                if step not in kept:
                    disk.move_away(self.path(step))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            message = f"the checkpoint of step {saved} is saved, but an older one cannot be removed: {reason}"
            warnings.warn(LeftoverWarning(message), stacklevel=3)

    def _looks_whole(self, step: int) -> bool:
        """Return whether all files are there with their sizes; reading them at every save would take too long."""
        try:
            _check_files(self.path(step), Manifest.read(self.path(step), step), hashes=False)
        except DamagedCheckpointError:
            return False
        return True

    def _paths(self) -> dict[int, Path]:
        try:
            found = [(_STEP.fullmatch(path.name), path) for path in self.folder.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise disk.refusal(f"{self.folder} cannot be read", error) from error
        return {int(match[1]): path for match, path in found if match}

    def _refusal(self, step: int, error: OSError) -> FileError:
        return disk.refusal(
            f"the checkpoint of step {step} cannot be written to {self.folder}",
            error,
            after="the older checkpoints are untouched, and training again resumes from them",
        )


def digest(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of names, types, shapes and values, in the order of the names."""
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        add_to_digest(found, name, tensor)
    return found.hexdigest()


def add_to_digest(found: hashlib._Hash, name: str, tensor: Tensor) -> None:
    """Add one tensor to the hash that `digest` returns."""
    found.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
    found.update(tensor_bytes(tensor))


def _encode_state(state: Mapping[str, Any]) -> bytes:
    """Return the state as JSON that restores it exactly, with Python's NaN and Infinity; refuse what would change."""
    _check_keys(state)
    try:
        return (json.dumps(state, indent=2) + "\n").encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"the state cannot be saved: {error}", hint="give numbers, text, lists and dicts") from error


def _check_keys(data: object) -> None:
    if isinstance(data, Mapping):
        for key, value in data.items():
            if not isinstance(key, str):
                raise InputError(f"the state cannot be saved: the key {key!r} is no text", hint=f"use {str(key)!r}")
            _check_keys(value)
    elif isinstance(data, list | tuple):
        for value in data:
            _check_keys(value)


def _plan(
    step: int, tensors: Mapping[str, Mapping[str, Tensor]], shard_bytes: int
) -> dict[str, list[Mapping[str, Tensor]]]:
    """Return for each group its tensors, file by file."""
    if step < 0:
        raise InputError(f"there is no step {step}", hint="steps are counted from 0")
    for group in tensors:
        if not _GROUP.fullmatch(group):
            raise InputError(f"{group!r} cannot name a group of tensors", hint="use small letters, digits and _")
    return {group: _divide(named, shard_bytes) for group, named in tensors.items()}


def _divide(tensors: Mapping[str, Tensor], shard_bytes: int) -> list[Mapping[str, Tensor]]:
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        added = tensor.numel() * tensor.element_size()
        if shards[-1] and size + added > shard_bytes:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += added
    return list(shards)


def _encode(shards: Mapping[str, list[Mapping[str, Tensor]]]) -> Iterator[tuple[str, str, bytes]]:
    """Yield group, file name and content, one at a time, so that no more than one is in memory."""
    for group, parts in shards.items():
        for number, part in enumerate(parts, start=1):
            numbered = f"-{number:05d}-of-{len(parts):05d}" if len(parts) > 1 else ""
            yield group, f"{group}{numbered}.safetensors", encode_tensors(part)


def _check_files(folder: Path, manifest: Manifest, *, hashes: bool = True) -> None:
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
