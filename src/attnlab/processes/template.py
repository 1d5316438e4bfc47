"""A process that has imported all modules, and forks copies of itself that answer questions.

    template = Template("some.module")                        runs python -m some.module NUMBER
    with Child(template.copy(), name="a worker") as child:
        answer = child.ask(steps=3)

and in that module, after everything is imported

    if __name__ == "__main__":
        serve_copies(answer, int(sys.argv[-1]))               answer(question: dict) -> dict

A copy starts within milliseconds, where importing PyTorch takes seconds, and shares with the others the memory that
none of them changes: about 180 of 230 MB. The template itself computes nothing, because threads do not survive a fork.
Only Linux lets a process watch one that it did not start, so on other systems each `Child` is started separately.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import IO

from attnlab.errors import AttnlabError
from attnlab.processes.child import Answer, serve

CAN_COPY = sys.platform == "linux"

_LONGEST_START = 300.0  # seconds, on a busy machine
_MESSAGE = 1 << 12  # bytes at most
_SECONDS_TO_END = 10.0
_ENDED = [signal.SIGCHLD]


class Template:
    """The parent's side. The process starts at the first copy, and restarts if it died."""

    def __init__(self, module: str, arguments: Sequence[str] = ()) -> None:
        self._words = [sys.executable, "-m", module, *arguments]
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def copy(self, threads: int | None = None) -> Copy:
        """Start a copy in which PyTorch uses so many threads; by default as many as there are cores."""
        with self._lock:
            try:
                return self._copy(threads)
            except _GoneError:
                self._end()
                return self._copy(threads)

    def close(self) -> None:
        """End the template. Its copies are not concerned."""
        with self._lock:
            self._end()

    def _copy(self, threads: int | None) -> Copy:
        ours = self._socket or self._start()
        question, stdin = os.pipe()
        stdout, answers = os.pipe()
        try:
            socket.send_fds(ours, [json.dumps({"threads": threads}).encode()], [question, answers])
            message, (handle, *_), *_ = socket.recv_fds(ours, _MESSAGE, 1)
        except (OSError, ValueError):  # the latter: no handle was received, because the template has died
            for one in (stdin, stdout):
                os.close(one)
            raise _GoneError(f"{self._words[2]} cannot be started", hint="try again") from None
        finally:
            for one in (question, answers):
                os.close(one)
        return Copy(json.loads(message)["pid"], handle, stdin, stdout)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(_LONGEST_START)
        with theirs:
            self._process = subprocess.Popen(
                [*self._words, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,  # Ctrl-C in the terminal reaches only this process, which then ends the template
            )
        self._socket = ours
        return ours

    def _end(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            try:
                self._process.wait(_SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._socket = self._process = None


class _GoneError(AttnlabError):
    """The template died."""


class Copy:
    """The handle of a copy; it has the attributes of `subprocess.Popen` that are needed."""

    def __init__(self, pid: int, handle: int, stdin: int, stdout: int) -> None:
        self.pid, self._handle = pid, handle
        self.stdin: IO[bytes] = os.fdopen(stdin, "wb", buffering=0)
        self.stdout: IO[bytes] = os.fdopen(stdout, "rb", buffering=0)

    def poll(self) -> int | None:
        """Return 0 if it has ended, else None; only the template knows the exit code."""
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended."""
        if self._handle < 0:
            return 0
        ready = select.poll()
        ready.register(self._handle, select.POLLIN)
        if not ready.poll(None if timeout is None else timeout * 1000):
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        os.close(self._handle)
        self._handle = -1
        return 0

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, what: signal.Signals) -> None:
        if self._handle >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, what)


# In the template


def serve_copies(answer: Answer, number: int, prepare: Callable[[int | None], None] = lambda _: None) -> None:
    """Make copies that answer questions, as long as the other end of the socket with this file descriptor is open.

    `prepare` is called in each copy with the requested number of threads.
    """
    gc.collect()
    gc.freeze()  # otherwise garbage collection would write to the shared pages, and so copy them
    signal.signal(signal.SIGCHLD, _forget_ended)
    with socket.socket(fileno=number) as theirs:
        while True:
            message, handles, *_ = socket.recv_fds(theirs, _MESSAGE, 2)
            if not message:
                return
            signal.pthread_sigmask(signal.SIG_BLOCK, _ENDED)  # no reaping before the handle is sent
            pid = os.fork()
            if not pid:
                theirs.close()
                _be_copy(answer, handles, functools.partial(prepare, json.loads(message)["threads"]))
            handles.append(os.pidfd_open(pid))
            socket.send_fds(theirs, [json.dumps({"pid": pid}).encode()], handles[-1:])
            for one in handles:
                os.close(one)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDED)


def _forget_ended(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _be_copy(answer: Answer, handles: Sequence[int], prepare: Callable[[], None]) -> None:
    code = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDED)
        for handle, place in zip(handles, (sys.stdin.fileno(), sys.stdout.fileno()), strict=True):
            os.dup2(handle, place)
            os.close(handle)
        prepare()
        serve(answer)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)  # a copy must not run the exit handlers of the template
