"""Who holds a run directory: a lock of the operating system, which a killed process cannot leave behind.

The lock says that a process holds it; a file beside it, written by the holder, says who.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from attnlab.errors import AttnlabError, FileError
from attnlab.storage.disk import is_alive, refusal
from attnlab.storage.records import read_json, write_json

LOCK, HOLDER = ".lock", ".holder.json"
_PATIENCE = 0.5  # seconds; a process that only checks has the lock for a moment


@dataclass(frozen=True)
class Holder:
    """A process that holds a run directory. Unknown values are None."""

    pid: int | None = None
    host: str | None = None
    command: str | None = None
    since: str | None = None

    @classmethod
    def this_process(cls) -> Holder:
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]) if sys.argv else ""
        now = datetime.now().astimezone().isoformat(timespec="seconds")
        return cls(os.getpid(), socket.gethostname(), command, now)

    def __str__(self) -> str:
        if self.pid is None:
            return "another process"
        return f"process {self.pid} on {self.host} ({self.command}) since {self.since}"


class RunHeldError(AttnlabError):
    """A run directory is held by another process."""

    def __init__(self, path: Path, holder: Holder) -> None:
        super().__init__(
            f"{path} is held by {holder}", hint="wait until it has ended, or end it: what it saved is kept"
        )
        self.holder = holder


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Hold a folder, which must exist, or raise `RunHeldError`."""
    if not folder.is_dir():  # creating the lock would create the folder
        raise FileError(f"there is no folder {folder}")
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=_PATIENCE, poll_interval=0.02)
    except Timeout:
        raise RunHeldError(folder, find_holder(folder) or Holder()) from None
    except (OSError, NotImplementedError) as error:
        cause = error if isinstance(error, OSError) else OSError(str(error))
        raise refusal(f"{folder} cannot be held for writing", cause) from error
    try:
        write_json(folder / HOLDER, asdict(Holder.this_process()))
        yield
    finally:
        with suppress(OSError):
            (folder / HOLDER).unlink()
        lock.release()


def stop_holder(folder: Path, what: str) -> Holder:
    """Ask the process that holds a folder to end, and return it; `what` names its work in messages."""
    holder = find_holder(folder)
    if holder is None:
        raise AttnlabError(f"no process carries this {what} out", hint="it can be resumed")
    if holder.pid is None or holder.host != socket.gethostname():
        raise AttnlabError(f"this {what} is held by {holder}", hint="stop it where it runs")
    os.kill(holder.pid, signal.SIGTERM)
    return holder


def find_holder(folder: Path) -> Holder | None:
    """Return the process that holds a folder now, if there is one."""
    if not _is_locked(folder / LOCK):
        return None
    try:
        content = read_json(folder / HOLDER)
    except FileError:
        return Holder()
    pid = content.get("pid")
    known = {name: content.get(name) for name in ("host", "command", "since")}
    if not isinstance(pid, int) or (known["host"] == socket.gethostname() and not is_alive(pid)):
        return Holder()  # the file is from a holder that was killed
    return Holder(pid, **{name: str(value) for name, value in known.items()})


def _is_locked(path: Path) -> bool:
    """Return whether the lock is taken. The check itself takes a shared lock, so two checks do not conflict."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False  # no process ever held it, or we lack the permission to check
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks
    finally:
        os.close(descriptor)
    return False
