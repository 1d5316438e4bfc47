"""Work in other processes: one question at a time, each with a limit of time; the event loop only waits.

    answer = await Worker("the desk", seconds=20).ask("attend", state=…)

A worker is `python -m attnlab.studio.work`. It starts when it is first asked, is killed when a question takes too long,
starts again at the next, and ends by itself when the studio is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from typing import Any

from attnlab.errors import AttnlabError
from attnlab.studio.work.telling import SIGN

_MODULE = "attnlab.studio.work"
_LINE = 64_000_000  # bytes of an answer
_WAITING = 64  # questions that may wait for a worker
_START = 300.0  # seconds that a process may take to start, on a machine that has much else to do
_LOOK = 5.0  # seconds between two looks for idleness


class BusyError(AttnlabError):
    """Too many questions at once."""


class Worker:
    """A process that answers questions in turn."""

    def __init__(self, name: str, *, seconds: float, threads: int | None = None, idle: float | None = None) -> None:
        """`seconds` limits an answer; one that was asked nothing for `idle` seconds is let go."""
        self._name, self._seconds, self._idle = name, seconds, idle
        self._environment = dict(os.environ) | ({} if threads is None else {"OMP_NUM_THREADS": str(threads)})
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._asked = time.monotonic()
        self._letting_go: asyncio.Task[None] | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._stopped = False
        self.progress = ""  # how far the question under way is, in its own words

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def ask(self, task: str, *, seconds: float | None = None, **question: Any) -> dict[str, Any]:
        """Put a question and wait for its answer; what is wrong with it is raised as the command line would say it."""
        if self._waiting >= _WAITING:
            raise BusyError(f"{self._name} has {_WAITING} questions waiting", hint="wait a moment, and try again")
        # Whoever asked may be gone before the answer comes, which must not be taken for that of the next question.
        return await asyncio.shield(asyncio.ensure_future(self._in_turn({"task": task, **question}, seconds)))

    async def stop(self) -> None:
        """Give up the question under way; whoever asked it is told so."""
        self._stopped = True
        await self._end()

    async def close(self) -> None:
        """End the process."""
        if self._letting_go is not None:
            self._letting_go.cancel()
        await self._end()

    async def _in_turn(self, question: dict[str, Any], seconds: float | None) -> dict[str, Any]:
        self._waiting += 1
        try:
            async with self._lock:
                return await self._answer(question, seconds or self._seconds)
        finally:
            self._waiting -= 1
            self._asked = time.monotonic()

    async def _answer(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        self.progress, self._stopped = "", False
        if self._process is None or self._process.returncode is not None:
            await self._start()
            await self._put({"task": "hello"}, _START)  # what it takes to start is not held against the question
        answer = await self._put(question, seconds)
        if "error" in answer:
            raise AttnlabError(answer["error"], hint=answer.get("hint"))
        return answer

    async def _put(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        """One line to the process, and one back."""
        line, process = b"", self._process
        try:
            if process is not None and process.stdin is not None and process.stdout is not None:
                process.stdin.write(json.dumps(question).encode() + b"\n")
                await process.stdin.drain()
                line = await asyncio.wait_for(process.stdout.readline(), seconds)
        except TimeoutError:
            await self._end()
            raise AttnlabError(
                f"this took more than {seconds:g} seconds, and was stopped", hint="ask for less: fewer tokens or runs"
            ) from None
        except (ConnectionError, ValueError):
            pass  # it died, or its answer is longer than there is room for
        if self._stopped:
            raise AttnlabError("it was stopped", hint="start it again when you like")
        if not line.endswith(b"\n"):
            await self._end()
            raise AttnlabError(f"{self._name} died over this", hint="try again, or ask for less")
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def _start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            _MODULE,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
            limit=_LINE,
            start_new_session=True,  # Ctrl-C in the terminal is for the studio, which then ends it
        )
        assert self._process.stderr is not None
        self._hearing = asyncio.create_task(self._hear(self._process.stderr))
        if self._idle is not None and (self._letting_go is None or self._letting_go.done()):
            self._letting_go = asyncio.create_task(self._let_go(self._idle))

    async def _hear(self, said: asyncio.StreamReader) -> None:
        """Take note of progress; what else the worker says is for the terminal."""
        async for line in said:
            text = line.decode(errors="replace")
            if text.startswith(SIGN):
                self.progress = text[len(SIGN) :].strip()
            else:
                sys.stderr.write(text)

    async def _let_go(self, idle: float) -> None:
        while self._process is not None:
            await asyncio.sleep(min(_LOOK, idle))
            if not self._waiting and time.monotonic() - self._asked > idle:
                await self._end()

    async def _end(self) -> None:
        process, hearing = self._process, self._hearing
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()
        if hearing is not None:
            await asyncio.shield(hearing)  # to the end of what it said
        if self._process is process:
            self._process = None
