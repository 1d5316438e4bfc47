"""Durable file-system operations: a file is on the disk when a function returns, and appears whole or not at all.

A new file is written under a temporary name, flushed, and renamed; then its folder is flushed too, because a name is
part of the folder. All operations go through `disk`, so that a test can let any single one fail.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attnlab.errors import FileError

_PIECE = 1 << 24  # bytes per write; the system accepts 2 GiB at most
_LABEL = 50  # characters of a name in that of its temporary
_TEMPORARY = re.compile(r"\.tmp-(?P<label>.+)-(?P<process>\d+)-[0-9a-f]{8}")

NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_ALLOWED = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_FOLDER = {errno.ENOTDIR, errno.EEXIST}


class Disk:
    """The operations that can fail, or after which a process may die."""

    def create(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)

    def append(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def write(self, descriptor: int, data: memoryview) -> int:
        return os.write(descriptor, data)

    def flush(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def make_folder(self, path: Path) -> None:
        path.mkdir()

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove_file(self, path: Path) -> None:
        path.unlink()

    def remove_folder(self, path: Path) -> None:
        path.rmdir()


disk = Disk()


def write_new(path: Path, data: bytes) -> None:
    """Write a new file and flush it. Its name lasts once its folder is flushed."""
    _write(disk.create(path), data, lasting=True)


def append(path: Path, data: bytes) -> None:
    """Add `data`, at once unless the system cuts it, at the end of a file that need not exist. It is not flushed."""
    _write(disk.append(path), data, lasting=False)


def _write(descriptor: int, data: bytes, *, lasting: bool) -> None:
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[disk.write(descriptor, rest[:_PIECE]) :]
        if lasting:
            disk.flush(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` into a file, new or not, that at every moment holds all of the old or all of the new.

    A file that was there keeps its permissions.
    """
    temporary = name_temporary(path.parent, path.name)
    try:
        write_new(temporary, data)
        if path.exists():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        disk.rename(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a folder to fill that becomes `target` at the end: whole, in place of what was there, or not at all."""
    temporary = name_temporary(target.parent, target.name)
    try:
        disk.make_folder(temporary)
        yield temporary
        flush_folder(temporary)
        if target.exists() or target.is_symlink():
            move_away(target)
        disk.rename(temporary, target)
    except BaseException:
        with suppress(OSError):
            remove_tree(temporary)
        raise
    flush_folder(target.parent)


def try_folder(path: Path) -> None:
    """Find out whether a folder takes a new file, and leave nothing in it."""
    temporary = name_temporary(path, "try")
    try:
        write_new(temporary, b"")
    finally:
        temporary.unlink(missing_ok=True)


def flush_file(path: Path) -> None:
    """Flush what others appended to a file."""
    _flush(path, os.O_RDONLY)


def flush_folder(path: Path) -> None:
    """Let the names in a folder last."""
    try:
        _flush(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems cannot flush a folder
            raise


def _flush(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        disk.flush(descriptor)
    finally:
        os.close(descriptor)


def make_folders(path: Path) -> None:
    """Make a folder and those above it, where they are missing."""
    if path.is_dir():
        return
    make_folders(path.parent)
    try:
        disk.make_folder(path)
    except FileExistsError:
        if not path.is_dir():  # otherwise another process has just created it
            raise
    flush_folder(path.parent)


def remove_tree(path: Path) -> None:
    """Remove a file, or a folder with all that is in it. Links are removed, not followed."""
    if path.is_symlink() or not path.is_dir():
        disk.remove_file(path)
        return
    for entry in sorted(path.iterdir()):
        remove_tree(entry)
    disk.remove_folder(path)


def move_away(path: Path) -> None:
    """Remove a folder so that there is never half of it: under a temporary name first."""
    temporary = name_temporary(path.parent, path.name)
    disk.rename(path, temporary)
    flush_folder(path.parent)
    remove_tree(temporary)


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder; what vanishes meanwhile or cannot be read counts 0."""
    try:
        if path.is_symlink() or not path.is_dir():
            return path.lstat().st_size
        return sum(size_of(entry) for entry in path.iterdir())
    except OSError:
        return 0


def name_temporary(folder: Path, label: str) -> Path:
    """Return a new name that `find_temporaries` finds; a long label is cut, because names have a longest length."""
    return folder / f".tmp-{label[:_LABEL]}-{os.getpid()}-{secrets.token_hex(4)}"


def find_temporaries(folder: Path, label: str | None = None, *, of_living: bool = False) -> list[Path]:
    """Return the temporaries in a folder that processes left behind, or also those of other living processes.

    With a label, only those of what it names.
    """
    if not folder.is_dir():
        return []
    found = [(path, match) for path in sorted(folder.iterdir()) if (match := _TEMPORARY.fullmatch(path.name))]
    return [
        path
        for path, match in found
        if (label is None or match["label"] == label[:_LABEL]) and (of_living or not _lives_elsewhere(match["process"]))
    ]


def _lives_elsewhere(process: str) -> bool:
    """Return whether this is a living process other than this one, which writes one thing at a time."""
    return int(process) != os.getpid() and is_alive(int(process))


def is_alive(process: int) -> bool:
    """Return whether there is such a process on this machine."""
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def refusal(what: str, error: OSError, *, after: str = "") -> FileError:
    """Return an error that says what failed, why, and what to do about it; `after` is what to do then."""
    if isinstance(error, FileError):
        return error
    if error.errno in NO_SPACE:
        hint = "free some space, such as the checkpoints of finished runs"
    elif error.errno in _NOT_ALLOWED:
        hint = "choose a folder of your own by `out=FOLDER`"
    elif error.errno in _NO_FOLDER:
        hint = "a file has the name of a folder; name another folder by `out=FOLDER`"
    else:
        hint = "check the disk, or choose a folder on another one by `out=FOLDER`"
    return FileError(f"{what}: {reason(error)}", hint=f"{hint}; {after}" if after else hint)


def reason(error: OSError) -> str:
    """Return what the system says, to be read after a colon."""
    return (error.strerror or str(error)).lower()
