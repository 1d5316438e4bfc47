"""A child process that answers questions over its pipes: one JSON object per line in, one per line out.

    with Child("some.module", name="a worker") as child:      runs python -m some.module
        answer = child.ask(steps=3)

and in that module

    if __name__ == "__main__":
        serve(answer)                                         answer(question: dict) -> dict

Before its answer, the process may report its progress by `report_progress`. Its standard output is redirected to
standard error, so that prints do not mix with the answers. An error is sent as an answer, and raised in this process.
`AsyncChild` is the same for an event loop.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Self

from attnlab.errors import AttnlabError

if TYPE_CHECKING:
    from attnlab.processes.template import Copy

Answer = Callable[[dict[str, Any]], Mapping[str, object]]

_LAST_LINES = 5  # of standard error, shown when a process died
_SECONDS_TO_END = 10.0  # for a process to end by itself after its input is closed
_PIECE = 1 << 20  # bytes read at once
_PARENT_CHECK = 1.0  # seconds between two checks that the parent is alive
_PROGRESS_SECONDS = 0.2  # between two progress reports

_answers: IO[str] | None = None  # in a process that serves
_reported = 0.0


class ChildError(AttnlabError):
    """A child process could not answer. `died` says whether it has ended, `reason` is the message without its name."""

    def __init__(self, name: str, reason: str, *, hint: str | None = None, died: bool = False) -> None:
        super().__init__(f"{name} {reason}" if died else f"{name}: {reason}", hint=hint)
        self.reason, self.died = reason, died


class ChildTimeoutError(ChildError):
    """A child process took too long to answer, and was killed."""


class Child:
    """A process that runs `python -m module arguments…` until it is closed."""

    def __init__(
        self,
        module: str | Copy,
        arguments: Sequence[str] = (),
        *,
        name: str,
        environment: Mapping[str, str] | None = None,
        apart: bool = False,
        keep_stderr: bool = True,
    ) -> None:
        """Start `module`, or take over a running process, the copy of a template.

        `apart` puts a new process in its own group, so that terminal signals such as Ctrl-C do not reach it.

        `keep_stderr` captures its standard error for the message of a `ChildError`; otherwise it is inherited.
        """
        self.name = name
        self._stderr: IO[bytes] | None = tempfile.TemporaryFile() if keep_stderr else None  # noqa: SIM115
        self._process: subprocess.Popen[bytes] | Copy
        if isinstance(module, str):
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env={**os.environ, **(environment or {})},
                process_group=0 if apart else None,
                bufsize=0,
            )
        else:
            self._process = module
        self._unread = b""
        self._closed = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def interrupt(self) -> None:
        """Ask the process to end in order, as a system that shuts down does."""
        self._process.terminate()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def ask(self, **question: object) -> dict[str, Any]:
        """Put a question and return the answer."""
        return self.put(question)

    def put(
        self,
        question: Mapping[str, object],
        *,
        seconds: float | None = None,
        on_progress: Callable[[str], None] | None = None,
    ) -> dict[str, Any]:
        """Put a question and return the answer; a process that takes longer than `seconds` is killed."""
        assert self._process.stdin is not None
        end = None if seconds is None else time.monotonic() + seconds
        line = b""
        with contextlib.suppress(BrokenPipeError):
            _write(self._process.stdin, json.dumps(question).encode() + b"\n")
            line = self._read_line(end)
        while line.startswith(b'{"progress":'):
            if on_progress is not None:
                on_progress(json.loads(line)["progress"])
            line = self._read_line(end)
        return self._checked(line)

    def close(self) -> None:
        """End the process: by itself if it does so soon, else at once."""
        if self._closed:
            return
        self._closed = True
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        if self._stderr is not None:
            self._stderr.close()

    def _read_line(self, end: float | None) -> bytes:
        """Return the next line; what is left without an end of line if the process has closed its output."""
        assert self._process.stdout is not None
        pieces, piece = [], self._unread
        ready = select.poll()
        ready.register(self._process.stdout, select.POLLIN | select.POLLHUP)
        while b"\n" not in piece:
            pieces.append(piece)
            if not ready.poll(None if end is None else max(0.0, end - time.monotonic()) * 1000):
                self._process.kill()
                self._process.wait()
                raise ChildTimeoutError(self.name, "took too long to answer, and was killed", died=True)
            piece = os.read(self._process.stdout.fileno(), _PIECE)
            if not piece:
                break
        last, newline, self._unread = piece.partition(b"\n")
        return b"".join((*pieces, last, newline))

    def _checked(self, line: bytes) -> dict[str, Any]:
        if not line.endswith(b"\n"):
            code = self._process.wait()
            hint = None
            if code == -signal.SIGKILL:
                hint = "it was killed, perhaps because memory ran out: use a smaller size or fewer processes"
            how = f"ended with code {code}" if isinstance(self._process, subprocess.Popen) else "ended"
            raise ChildError(self.name, f"{how}{self._last_lines()}", hint=hint, died=True)
        try:
            answer = json.loads(line)
        except ValueError:
            raise ChildError(self.name, f"the answer is not JSON: {line[:100]!r}") from None
        if not isinstance(answer, dict):
            raise ChildError(self.name, f"the answer is not an object: {line[:100]!r}")
        if "error" in answer:
            raise ChildError(self.name, answer["error"], hint=answer.get("hint"))
        return answer

    def _last_lines(self) -> str:
        if self._stderr is None:
            return ""
        self._stderr.seek(0)
        lines = [line for line in self._stderr.read().decode(errors="replace").splitlines() if line.strip()]
        return "".join(f"\n  {line}" for line in ["", *lines[-_LAST_LINES:]]) if lines else " and said nothing"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _write(pipe: IO[bytes], data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[pipe.write(rest) :]


# In the child


def serve(answer: Answer) -> None:
    """Answer questions until there are no more; the empty question, which asks whether it is ready, by itself."""
    global _answers
    private = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # prints go to standard error
    with os.fdopen(private, "w", encoding="utf-8") as _answers:
        for line in sys.stdin:
            _send(_answered(answer, line))


def serve_until_alone(answer: Answer) -> None:
    """Answer questions as long as the parent, whose number is the first argument of the command line, lives.

    When the parent has died, this process gets SIGTERM, so that a run is saved and stopped: another process will resume
    it.
    """
    threading.Thread(target=_watch_parent, args=[int(sys.argv[1])], daemon=True).start()
    serve(answer)


def report_progress(what: str, done: int | None = None, total: int | None = None) -> None:
    """Report how far the answer is, at most a few times a second; does nothing in a process that does not serve.

    Without `done`, it reports only `what` is being done, not how far it is.
    """
    global _reported
    if _answers is None or (done != total and time.monotonic() - _reported < _PROGRESS_SECONDS):
        return
    _reported = time.monotonic()
    counted = "" if done is None else f": {done}" if total is None else f": {done} of {total}"
    _send({"progress": f"{what}{counted}"})


def _send(message: Mapping[str, object]) -> None:
    assert _answers is not None
    _answers.write(json.dumps(message) + "\n")
    _answers.flush()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK)
    os.kill(os.getpid(), signal.SIGTERM)


def _answered(answer: Answer, line: str) -> Mapping[str, object]:
    try:
        question = json.loads(line)
        return answer(question) if question else {}
    except AttnlabError as error:
        return {"error": error.message, "hint": error.hint}
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}
