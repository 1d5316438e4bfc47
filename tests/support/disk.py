"""A disk that fails, or whose process is killed, at a chosen effect."""

from __future__ import annotations

import errno
import os
import signal
import warnings
from collections.abc import Callable
from typing import Any

from attnlab.storage import disk
from attnlab.storage.disk import Disk

EFFECTS = ("create", "append", "write", "flush", "make_folder", "rename", "remove_file", "remove_folder")


class FailingDisk(Disk):
    """Does everything until effect number `at` (from 0), where it calls `fail`; a write is half done by then."""

    def __init__(self, at: int, fail: Callable[[], None], *, for_ever: bool = False) -> None:
        self.done: list[str] = []
        self._at, self._fail, self._for_ever = at, fail, for_ever

    def __getattribute__(self, name: str) -> Any:
        attribute = object.__getattribute__(self, name)
        if name not in EFFECTS:
            return attribute

        def effect(*arguments: Any) -> Any:
            number = len(self.done)
            self.done.append(name)
            if number == self._at or (self._for_ever and number > self._at):
                if name == "write":
                    os.write(arguments[0], arguments[1][: len(arguments[1]) // 2])
                self._fail()
            return attribute(*arguments)

        return effect


def raising(number: int) -> Callable[[], None]:
    """Fail as the system does when the disk is full, or worse."""

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail


def killing() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def record_effects(work: Callable[[], object]) -> list[str]:
    """The effects that `work` has, in order."""
    counting, usual = FailingDisk(-1, raising(errno.EIO)), disk.disk
    disk.disk = counting
    try:
        work()
    finally:
        disk.disk = usual
    return counting.done


def kill_at(effect: int, work: Callable[[], object]) -> None:
    """Do `work` in another process, which is killed at this effect."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of threads, which the child has no need of
        process = os.fork()
    if process == 0:
        try:
            signal.alarm(60)
            disk.disk = FailingDisk(effect, killing)
            work()
        finally:
            os._exit(7)  # never back into the tests
    _, status = os.waitpid(process, 0)
    assert os.WIFSIGNALED(status), f"the process was not killed at effect {effect}"
    assert os.WTERMSIG(status) == signal.SIGKILL
