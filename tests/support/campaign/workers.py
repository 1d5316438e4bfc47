"""Worker processes that are forked from one that has imported everything, instead of started with an empty Python."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import IO, Any

_POLL = 0.005  # seconds


class ForkedProcess:
    """Takes the place of `subprocess.Popen([python, "-m", module, …])` in `attnlab.processes.child`."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        stderr: IO[bytes] | None,
        env: Mapping[str, str],
        process_group: int | None,
        **_: Any,
    ) -> None:
        assert words[1] == "-m"
        questions, answers = os.pipe(), os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer Pythons warn of threads, which the child has no need of
            self.pid = os.fork()
        if self.pid == 0:
            _become(words[2:], questions, answers, stderr, env, process_group)
        os.close(questions[0])
        os.close(answers[1])
        self.stdin: IO[bytes] = os.fdopen(questions[1], "wb", 0)
        self.stdout: IO[bytes] = os.fdopen(answers[0], "rb", 0)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._wait(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        while end is not None and self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("a forked worker", timeout or 0)
            time.sleep(_POLL)
        code = self._wait(0)
        assert code is not None
        return code

    def _wait(self, how: int) -> int | None:
        if self.returncode is None:
            try:
                found, status = os.waitpid(self.pid, how)
            except ChildProcessError:
                found, status = self.pid, 0
            if found:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def _become(
    words: Sequence[str],
    questions: tuple[int, int],
    answers: tuple[int, int],
    stderr: IO[bytes] | None,
    env: Mapping[str, str],
    process_group: int | None,
) -> None:
    """Be the worker, and never come back."""
    code = 1
    try:
        if process_group is not None:
            os.setpgid(0, process_group)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(questions[0], 0)
        os.dup2(answers[1], 1)
        if stderr is not None:
            os.dup2(stderr.fileno(), 2)
        os.closerange(3, 256)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in enumerate("rww"))
        os.environ.clear()
        os.environ.update(env)
        sys.argv = list(words)
        warnings.simplefilter("ignore")  # of a module that is imported already
        runpy.run_module(words[0], run_name="__main__", alter_sys=False)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


# Takes the place of the module `subprocess` there.
FORKING = SimpleNamespace(Popen=ForkedProcess, PIPE=subprocess.PIPE, TimeoutExpired=subprocess.TimeoutExpired)
