"""Writing a file as a whole or not at all, and finding out beforehand whether it can be written."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from attnlab.errors import FileError


def check_writable(path: Path) -> None:
    """Refuse a path that `write_whole` could not write, without touching what is there."""
    try:
        _check(path, path.resolve())  # through symbolic links, so that a link stays one
    except FileError:
        raise
    except (OSError, RuntimeError) as error:  # the latter for links that go in circles
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
    with _beside(target):
        pass  # the folder takes a new file


def write_whole(path: Path, text: str) -> None:
    """Write into a temporary file beside it and rename that, so that nobody ever sees half a file."""
    check_writable(path)
    target = path.resolve()
    try:
        with _beside(target) as (temporary, file):
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
            temporary.chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask())
            temporary.replace(target)
    except OSError as error:
        raise _refusal(path, error) from None


@contextmanager
def _beside(target: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A temporary file in the same folder, gone afterwards unless it was renamed."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".attnlab-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield Path(name), file
    finally:
        Path(name).unlink(missing_ok=True)


def _refusal(path: Path, error: Exception) -> FileError:
    reason = (getattr(error, "strerror", None) or str(error)).lower()
    return FileError(f"{path} cannot be written: {reason}", hint="name a file in a folder of your own")


def _umask() -> int:
    """What the system takes away from the permissions of new files; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
