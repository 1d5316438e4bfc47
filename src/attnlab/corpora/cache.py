"""The cache of generated texts and tokens: entries are created once, atomically, and checked when opened.

An entry is a folder named by a hash of its inputs, with a manifest of its files' sizes and hashes. It is written to a
temporary folder, flushed and renamed, under a lock, so that two processes can request it at once. If the size of a file
or its hash (checked once per process) does not match, the entry is created again. Reading an existing entry needs no
write permission.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock
from platformdirs import user_cache_path

from attnlab.corpora.randomness import digest
from attnlab.errors import FileError
from attnlab.storage.disk import find_temporaries, flush_file, make_folders, new_folder, remove_tree, write_new
from attnlab.storage.files import hash_file
from attnlab.storage.records import encode_json, read_json

VARIABLE = "ATTNLAB_CACHE"
MANIFEST = "manifest.json"
FORMAT = 1
_checked: set[tuple[str, int, int, int]] = set()  # files whose hash matched, identified by their status at that time

Builder = Callable[[Path], Mapping[str, object]]  # fills a folder, and returns what to record in the manifest


class CacheWarning(UserWarning):
    """A cache entry was damaged, and is created again."""


class _DamagedError(Exception):
    pass


@dataclass(frozen=True)
class CacheEntry:
    """The entry of a key: a folder of files, and the metadata that its builder returned."""

    folder: Path
    about: Mapping[str, Any]
    hashes: Mapping[str, str]  # of each file


def default_cache() -> Path:
    """Return $ATTNLAB_CACHE, or the place that the system has for such things."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen).expanduser() if chosen else user_cache_path("attnlab") / "corpora"


class CorpusCache:
    """Entries by key, in one folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = default_cache() if folder is None else folder

    def entry(self, key: str, build: Builder) -> CacheEntry:
        """Return the entry of this key, made by `build` if it is not there or is damaged."""
        found = self._read(key, warn=True)
        if found is not None:
            return found
        try:
            make_folders(self.folder)
            with FileLock(self.folder / f"{key}.lock"):
                found = self._read(key, warn=False)  # another process may have created it in the meantime
                return found if found is not None else self._make(key, build)
        except FileError:
            raise
        except (OSError, NotImplementedError) as error:  # the latter if the file system has no locks
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise FileError(
                f"the cache {self.folder} cannot be written: {reason}",
                hint=f"name a folder of your own with space in it by the environment variable {VARIABLE}",
            ) from None

    def _read(self, key: str, *, warn: bool) -> CacheEntry | None:
        folder = self.folder / key
        if not folder.is_dir():
            return None
        try:
            return _open(folder)
        except (_DamagedError, OSError) as error:
            if warn:
                warnings.warn(f"{folder} is damaged ({error}) and is made again", CacheWarning, stacklevel=2)
            return None

    def _make(self, key: str, build: Builder) -> CacheEntry:
        for left_over in find_temporaries(self.folder, key):  # by processes that were killed; we hold the lock
            remove_tree(left_over)
        with new_folder(self.folder / key) as temporary:
            about = build(temporary)
            files = {}
            for path in sorted(temporary.iterdir()):
                flush_file(path)
                files[path.name] = {"bytes": path.stat().st_size, "sha256": hash_file(path)}
            manifest = {"format": FORMAT, "files": files, "about": about, "sha256": digest(files, about)}
            write_new(temporary / MANIFEST, encode_json(manifest))
        return _open(self.folder / key)


def _open(folder: Path) -> CacheEntry:
    try:
        manifest = read_json(folder / MANIFEST)
    except FileError as error:
        raise _DamagedError(error.message) from None
    try:
        if manifest["format"] != FORMAT:
            raise _DamagedError(f"its format is {manifest['format']}")
        if manifest["sha256"] != digest(manifest["files"], manifest["about"]):
            raise _DamagedError("its manifest does not have the hash that it had")
        files = {name: (kept["bytes"], kept["sha256"]) for name, kept in manifest["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _DamagedError(f"its manifest cannot be read: {error!r}") from None
    for name, (size, sha256) in files.items():
        _check(folder / name, size, sha256)
    return CacheEntry(folder, manifest["about"], {name: sha256 for name, (_, sha256) in files.items()})


def _check(path: Path, size: int, sha256: str) -> None:
    state = path.stat()
    if state.st_size != size:
        raise _DamagedError(f"{path.name} has {state.st_size} bytes instead of {size}")
    seen = (str(path.resolve()), state.st_ino, state.st_size, state.st_mtime_ns)
    if seen in _checked:
        return
    if hash_file(path) != sha256:
        raise _DamagedError(f"{path.name} does not have the hash that it had")
    _checked.add(seen)
