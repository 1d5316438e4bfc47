"""A command in a forked process: the outcome, whatever troubles the process meanwhile."""

from __future__ import annotations

import ctypes
import datetime
import encodings
import functools
import gc
import importlib
import os
import pkgutil
import random
import signal
import socket
import stat
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch

import attnlab.processes.child
from attnlab.cli import app, main
from attnlab.studio.work.__main__ import TASKS
from support.campaign.system_calls import Supervisor, Trouble, install_filter
from support.campaign.workers import FORKING
from support.training import children_of

CRASHED = 70  # the exit code of a child that raised something
_PATIENCE = 20.0  # seconds that a process has to end after it was asked to
_SUBREAPER = 36
_IMPORTED_LATE = (
    *("attnlab.experiments.launching.worker", "attnlab.experiments.comparing", "attnlab.verification"),
    *("attnlab.lens.runs", "attnlab.exhibits.learning.analogy", "attnlab.experiments.reporting.report"),
    *("plotly.graph_objects", "plotly.io", "scipy.optimize", "scipy.stats", "torch._dynamo", "torch._refs"),
)
_NOISY = ("antigravity", "ensurepip", "idlelib", "lib2to3", "test", "this", "tkinter", "turtle", "turtledemo")
_reaps = False  # whether orphans become children of this process
_running: set[int] = set()  # processes of commands that are not finished


@dataclass(frozen=True)
class Circumstances:
    """What a command meets. `user` is the number of another user, `clock` the seed of a clock that jumps."""

    trouble: Trouble | None = None
    counted: bool = False
    user: int | None = None
    clock: int | None = None
    stdin: bytes = b""
    seconds: float = 60.0
    after: tuple[float, int] | None = None  # a signal after so many seconds


USUAL = Circumstances()


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    tokens: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float
    too_long: bool
    effects: tuple[str, ...] = ()
    troubled: int = 0
    left: int = 0  # processes that it left behind


def prepare(*, small: bool = False) -> None:
    """Import all that commands import, so that a forked process has it, and become the parent of orphans.

    For a `small` campaign, what only slow commands import is left out.
    """
    torch.set_num_threads(1)
    for verb in app.VERBS:
        importlib.import_module(verb.partition(":")[0])
    for name in {task.partition(":")[0] for task in TASKS.values()}:
        importlib.import_module(f"attnlab.studio.work.{name}")
    for name in () if small else _IMPORTED_LATE:
        importlib.import_module(name)
    app._read_docstring = functools.cache(app._read_docstring)
    app.build_app(app.VERBS, app.GlobalOptions())
    _import_standard_library()
    global _reaps
    _reaps = ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0) == 0
    gc.collect()
    gc.freeze()


def _import_standard_library() -> None:
    """Import what another user could not import later, where Python lies in a folder that only root may enter."""
    if is_reachable(Path(os.__file__)):
        return
    names = [f"encodings.{found.name}" for found in pkgutil.iter_modules(encodings.__path__)]
    names += [name for name in sys.stdlib_module_names if name[0] != "_" and name not in _NOISY]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:  # which grows: the modules of a package follow it
            with suppress(Exception):
                found = getattr(importlib.import_module(name), "__path__", ())
                names += [f"{name}.{one.name}" for one in pkgutil.iter_modules(found) if not one.name.startswith("__")]


def is_reachable(path: Path) -> bool:
    """Return whether every user may enter the folders above a path."""
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.resolve().parents)


class Running:
    """A command that was started."""

    def __init__(
        self, tokens: Sequence[str], folder: Path, how: Circumstances = USUAL, work: Callable[[], int] | None = None
    ) -> None:
        """`work` is done instead of running the command."""
        self.tokens, self._folder, self._how = tuple(tokens), folder, how
        self._streams: list[IO[bytes]] = [tempfile.TemporaryFile() for _ in range(3)]  # noqa: SIM115
        self._streams[0].write(how.stdin)
        self._streams[0].seek(0)
        watched = how.counted or how.trouble is not None
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer Pythons warn of threads, which the child has no need of
            self.process = os.fork()
        if self.process == 0:
            self._be_child(work or (lambda: main(list(tokens))), theirs if watched else None)
        _running.add(self.process)
        theirs.close()
        self._begin = time.monotonic()
        self._status: int | None = None
        self._supervisor: Supervisor | None = None
        if watched:
            listener = socket.recv_fds(ours, 1, 1)[1]
            if listener:
                self._supervisor = Supervisor(listener[0], self.process, folder, how.trouble)
        ours.close()

    def finish(self) -> Outcome:
        """Wait until the command has ended; one that takes too long is interrupted, and in the end killed."""
        how, too_long = self._how, False
        if how.after is not None and not self._watch(how.after[0]):
            self.send(how.after[1])
        if not self._watch(how.seconds):
            too_long = True
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                self.send(number)
                if self._watch(time.monotonic() - self._begin + _PATIENCE):
                    break
        self._watch(float("inf"))
        _running.discard(self.process)
        left = _reap_orphans(self._supervisor)
        if self._supervisor is not None:
            self._supervisor.close()
        self._streams[0].close()
        assert self._status is not None
        return Outcome(
            self.tokens,
            os.waitstatus_to_exitcode(self._status),
            *(_read(stream) for stream in self._streams[1:]),
            seconds=time.monotonic() - self._begin,
            too_long=too_long,
            effects=tuple(self._supervisor.effects) if self._supervisor else (),
            troubled=self._supervisor.troubled if self._supervisor else 0,
            left=left,
        )

    def send(self, number: int) -> None:
        if not self._has_ended():
            os.kill(self.process, number)

    def _has_ended(self) -> bool:
        if self._status is None:
            found, status = os.waitpid(self.process, os.WNOHANG)
            self._status = status if found else None
        return self._status is not None

    def _watch(self, seconds: float) -> bool:
        """Wait until so many seconds after the beginning; return whether the process has ended."""
        end = self._begin + seconds
        if self._supervisor is not None and not self._supervisor.watch(end, self._has_ended):
            return self._has_ended()
        pause = 0.001
        while not self._has_ended() and time.monotonic() < end:
            time.sleep(pause)
            pause = min(0.02, 1.3 * pause)
        return self._has_ended()

    def _be_child(self, work: Callable[[], int], told: socket.socket | None) -> None:
        """Run the command, and never come back."""
        code = CRASHED
        try:
            for number, stream in enumerate(self._streams):
                os.dup2(stream.fileno(), number)
            sys.stdin, sys.stdout, sys.stderr = (
                open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 (a descriptor)
                for number, mode in enumerate("rww")
            )
            _enter(self._folder, self._how, self.tokens)
            if told is not None:
                listener = install_filter()
                socket.send_fds(told, [b"!"], [listener])
                os.close(listener)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            code = work()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else CRASHED
        except BaseException:
            traceback.print_exc()
        finally:
            with suppress(BaseException):
                sys.stdout.flush()
            with suppress(BaseException):
                sys.stderr.flush()
            os._exit(code)


def run(
    tokens: Sequence[str], folder: Path, how: Circumstances = USUAL, work: Callable[[], int] | None = None
) -> Outcome:
    """Run a command in a folder, and wait for it."""
    return Running(tokens, folder, how, work).finish()


def environment(folder: Path) -> Mapping[str, str]:
    """Return what a command in a folder finds in its environment besides the usual."""
    return {
        "ATTNLAB_CACHE": str(folder / "cache"),
        "TMPDIR": str(folder / "tmp"),
        "COLUMNS": "100",
        "HOME": str(folder),
    }


def _enter(folder: Path, how: Circumstances, tokens: Sequence[str]) -> None:
    os.environ.update(environment(folder))
    tempfile.tempdir = None
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # until the command begins
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    warnings.resetwarnings()
    warnings.simplefilter("ignore", DeprecationWarning)
    sys.argv = ["attnlab", *tokens]
    attnlab.processes.child.subprocess = FORKING  # type: ignore[attr-defined]
    if how.clock is not None:
        _let_jump(random.Random(how.clock))
    if how.user is not None:
        os.setgroups([])
        os.setgid(how.user)
        os.setuid(how.user)


def _let_jump(chosen: random.Random) -> None:
    """Let the clock of the wall jump by up to years, forwards and backwards, whenever it is looked at."""
    usual, away = time.time, 0.0

    def jumping() -> float:
        nonlocal away
        if chosen.random() < 0.3:
            away = chosen.choice([0, 1, -1]) * chosen.choice([1.0, 3600.0, 3e7, 3e8])
        return usual() + away

    class Jumping(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return datetime.datetime.fromtimestamp(jumping(), tz)

    time.time = jumping
    for name, module in list(sys.modules.items()):
        if name.startswith("attnlab.") and getattr(module, "datetime", None) is datetime.datetime:
            module.datetime = Jumping  # type: ignore[attr-defined]


def _reap_orphans(supervisor: Supervisor | None) -> int:
    """Wait for the processes that a command left behind; return how many had to be killed.

    What they do to the disk is reported too, and has to be answered.
    """
    end = time.monotonic() + _PATIENCE
    killed: set[int] = set()
    while orphans := {*children_of(os.getpid())} - _running if _reaps else ():
        for orphan in orphans:
            if time.monotonic() > end:
                with suppress(ProcessLookupError):
                    os.kill(orphan, signal.SIGKILL)
                    killed.add(orphan)
            with suppress(ChildProcessError):
                os.waitpid(orphan, os.WNOHANG)
        if supervisor is not None:
            supervisor.watch(time.monotonic() + 0.01, lambda: False)
        time.sleep(0.01)
    return len(killed)


def _read(stream: IO[bytes]) -> str:
    stream.seek(0)
    text = stream.read().decode("utf-8", "replace")
    stream.close()
    return text
