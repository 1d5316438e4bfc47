"""Another Python process that answers questions: one JSON object a line in, one a line out.

    with Child("some.module", name="a worker") as child:      runs python -m some.module
        answer = child.ask(steps=3)

and in that module

    if __name__ == "__main__":
        serve(answer)                                         answer(question: dict) -> dict

Whatever the other process prints goes to its stderr, which is kept in a file: its last lines tell why it died. A
mistake in answering is an answer too, and is raised here.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import IO, Any, Self

from attnlab.errors import AttnlabError

Answer = Callable[[dict[str, Any]], Mapping[str, Any]]

_TAIL = 5  # lines of what a process said before it died
_PATIENCE = 10.0  # seconds that a process has to end when it is asked to


class ChildError(AttnlabError):
    """Another process could not do what it was asked. `died` says that it is gone."""

    def __init__(self, message: str, *, hint: str | None = None, died: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.died = died


class Child:
    """A process that runs `python -m module arguments…` until it is closed."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str] = (),
        *,
        name: str,
        environment: Mapping[str, str] | None = None,
        apart: bool = False,
    ) -> None:
        """`apart`: what is typed in the terminal, such as Ctrl-C, does not reach it."""
        self.name = name
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**os.environ, **(environment or {})},
            process_group=0 if apart else None,
        )

    @property
    def number(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def interrupt(self) -> None:
        """Ask it to end in order, as a system that shuts down does."""
        self._process.terminate()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def ask(self, **question: Any) -> dict[str, Any]:
        """Put a question, and wait for the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = b""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            code = self._process.wait()
            raise ChildError(f"{self.name} ended with code {code}{self._last_words()}", hint=_reason(code), died=True)
        try:
            answer = json.loads(line)
        except ValueError:
            raise ChildError(f"{self.name} gave an answer that is not JSON: {line[:100]!r}") from None
        if not isinstance(answer, dict):
            raise ChildError(f"{self.name} gave an answer that is no object: {line[:100]!r}")
        if "error" in answer:
            raise ChildError(f"{self.name}: {answer['error']}", hint=answer.get("hint"))
        return answer

    def close(self) -> None:
        """Let it end: by itself, if it does so soon."""
        if self._said.closed:
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._said.close()

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = [line for line in self._said.read().decode(errors="replace").splitlines() if line.strip()]
        return "".join(f"\n  {line}" for line in ["", *lines[-_TAIL:]]) if lines else " and said nothing"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _reason(code: int) -> str | None:
    if code == -9:
        return "it was killed, perhaps because memory ran out: use a smaller size or fewer processes"
    return None


def serve(answer: Answer) -> None:
    """Answer questions until there are no more."""
    private = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nobody's print gets between the answers
    with os.fdopen(private, "w", encoding="utf-8") as answers:
        for line in sys.stdin:
            answers.write(json.dumps(_answered(answer, line)) + "\n")
            answers.flush()


def _answered(answer: Answer, line: str) -> Mapping[str, Any]:
    try:
        return answer(json.loads(line))
    except AttnlabError as error:
        return {"error": error.message, "hint": error.hint}
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}
