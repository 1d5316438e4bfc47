"""A file at a path given by the user: checked before the work begins, and written as a whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

from attnlab.errors import FileError
from attnlab.storage import disk


def check_writable(path: Path) -> None:
    """Refuse a path that `write_whole` could not write, without touching what is there."""
    try:
        _check(path, path.resolve())  # follow symbolic links, so that a link is not replaced by a file
    except FileError:
        raise
    except (OSError, RuntimeError) as error:  # the latter for symbolic links that form a cycle
        raise _refusal(path, error) from None


def _check(path: Path, target: Path) -> None:
    if target.is_dir():
        raise FileError(f"{path} is a folder", hint=f"name a file in it, such as {path / 'page.html'}")
    if target.exists() and not target.is_file():
        raise FileError(f"{path} is no ordinary file", hint="name a file that may be replaced")
    if not target.parent.is_dir():
        raise FileError(f"there is no folder {path.parent} to write {path.name} into", hint="make it, or name another")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    disk.try_folder(target.parent)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a text or bytes; at every moment the file holds all of the old content or all of the new."""
    check_writable(path)
    try:
        disk.replace_file(path.resolve(), content.encode("utf-8") if isinstance(content, str) else content)
    except OSError as error:
        raise _refusal(path, error) from None


def read_file(path: Path) -> bytes:
    """Return the bytes of a file, which must not be a device."""
    check_no_device(path)
    return path.read_bytes()


def check_no_device(path: Path) -> None:
    """Refuse a device, which may never end."""
    if path.is_char_device() or path.is_block_device():
        raise FileError(f"{path} is a device and no file", hint="name a file")


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file, however large."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _refusal(path: Path, error: Exception) -> FileError:
    reason = (getattr(error, "strerror", None) or str(error)).lower()
    return FileError(f"{path} cannot be written: {reason}", hint="name a file in a folder of your own")
