"""A child process for an event loop: it starts with the first question, and answers one question after another.

    answer = await AsyncChild("attnlab.studio.work", "the desk", seconds=20).ask("attend", state=…)

If a question takes too long, the process is killed; the next question restarts it. If the process dies for another
reason, it is restarted and asked the same question once more, unless the task has side effects. A question may name its
owner, who can withdraw it, see how many are ahead of it, or replace it by a newer one. A thread waits for the pipes of
`Child`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.errors import AttnlabError
from attnlab.processes.child import Child, ChildError, ChildTimeoutError
from attnlab.processes.template import Template

_MOST_WAITING = 64  # questions
_SECONDS_TO_START = 300.0  # on a busy machine
_IDLE_CHECK = 5.0  # seconds between two checks for idleness
_GRACE = 1.0  # seconds that a withdrawn question may still take, because starting a process again takes longer


class BusyError(AttnlabError):
    """Too many questions are waiting for one process."""


class WithdrawnError(AttnlabError):
    """The owner of a question left or asked a newer one before it was answered."""


@dataclass(eq=False)
class _Question:
    owner: str | None
    task: asyncio.Task[dict[str, Any]] | None = None
    withdrawn: bool = False


class AsyncChild:
    """A process that answers tasks in order: `ask("task", a=1)` sends the question {"task": "task", "a": 1}."""

    def __init__(
        self,
        module: str | Template,
        name: str,
        arguments: Sequence[str] = (),
        *,
        seconds: float,
        threads: int | None = None,
        idle: float | None = None,
        answers: int | None = None,
        once: Collection[str] = (),
        on_death: Callable[[str], None] | None = None,
        on_ask: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Prepare a process that runs `module`, or is a copy of it if it is a template.

        `seconds` is the timeout of an answer. A process without questions for `idle` seconds is ended, and one that has
        given `answers` answers is replaced, which frees the memory that it accumulated. Tasks named in `once` are never
        retried. `on_death` is called when a process that died was replaced, `on_ask` before each question.
        """
        self._module, self._name, self._seconds, self._idle = module, name, seconds, idle
        self._arguments = tuple(arguments)
        self._threads = threads
        self._most_answers, self._given = answers, 0  # the latter counts those of the current process
        self._once, self._on_death, self._on_ask = frozenset(once), on_death, on_ask
        self._child: Child | None = None
        self._lock = asyncio.Lock()  # held by the current question
        self._questions: list[_Question] = []  # the current one and those waiting, in the order of their answers
        self._current: _Question | None = None
        self._asked = time.monotonic()
        self._idle_check: asyncio.Task[None] | None = None
        self._stopped = self._closed = False
        self._progress = ""  # of the current question, as reported by the child

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    async def ask(
        self, task: str, *, seconds: float | None = None, owner: str | None = None, **question: object
    ) -> dict[str, Any]:
        """Put a question and return its answer; an error in answering is raised with the child's own message.

        A question with an owner replaces an earlier one of the same owner, which raises `WithdrawnError`.
        """
        if owner is not None:
            self.withdraw(owner)
        if len(self._questions) >= _MOST_WAITING:
            raise BusyError(f"{self._name} has {_MOST_WAITING} questions waiting", hint="wait a moment, and try again")
        mine = _Question(owner)
        self._questions.append(mine)
        mine.task = asyncio.ensure_future(self._in_turn(mine, {"task": task, **question}, seconds))
        try:
            # If the asking task is cancelled, its answer must still be read, or the next question would get it.
            return await asyncio.shield(mine.task)
        except asyncio.CancelledError:
            if mine.withdrawn:
                raise WithdrawnError("the question was withdrawn") from None
            raise

    def withdraw(self, owner: str) -> None:
        """Give up all questions of an owner, or of owners whose names begin with it and a slash."""
        for question in list(self._questions):
            name = question.owner or ""
            if question.withdrawn or not (name == owner or name.startswith(f"{owner}/")):
                continue
            question.withdrawn = True
            if question is self._current:
                asyncio.get_running_loop().call_later(_GRACE, self._stop_if_current, question)
            elif question.task is not None:
                question.task.cancel()

    def progress(self, owner: str) -> str:
        """Return how far the question of an owner is: the child's words, or how many questions are ahead of it."""
        mine = next((one for one in self._questions if one.owner == owner and not one.withdrawn), None)
        if mine is None:
            return ""
        if mine is self._current:
            return self._progress
        ahead = self._questions.index(mine)
        return f"waiting for {ahead} earlier {'question' if ahead == 1 else 'questions'}" if ahead else ""

    def stop(self) -> None:
        """Give up the question under way; its caller gets an error that says so."""
        self._stopped = True
        if self._child is not None:
            self._child.kill()

    def _stop_if_current(self, question: _Question) -> None:
        if question is self._current:
            self.stop()

    async def end_if_idle(self, seconds: float) -> None:
        """End the process if it was asked nothing for so long; the next question starts it again."""
        if self._child is not None and not self._questions and time.monotonic() - self._asked > seconds:
            async with self._lock:
                await self._end()

    async def close(self) -> None:
        """End the process for good."""
        self._closed = True
        self.stop()
        async with self._lock:
            if self._idle_check is not None:
                self._idle_check.cancel()  # under the lock: never while the check ends the process
            await self._end()

    async def _in_turn(self, mine: _Question, question: Mapping[str, object], seconds: float | None) -> dict[str, Any]:
        try:
            async with self._lock:
                self._current = mine
                answer = await self._answer(question, seconds or self._seconds)
        except AttnlabError:
            if mine.withdrawn:
                raise WithdrawnError("the question was withdrawn") from None
            raise
        finally:
            self._questions.remove(mine)
            self._current = None if self._current is mine else self._current
            self._asked = time.monotonic()
        if mine.withdrawn:
            raise WithdrawnError("the question was withdrawn")
        return answer

    async def _answer(self, question: Mapping[str, object], seconds: float) -> dict[str, Any]:
        self._progress, self._stopped = "", self._closed
        if self._on_ask is not None:
            await self._on_ask()
        again = question["task"] not in self._once
        while True:
            try:
                if self._given == self._most_answers:
                    await self._end()
                if not self._stopped and (self._child is None or self._child.has_ended):
                    await self._start()
                self._given += 1
                return await self._put(question, seconds)
            except ChildError as error:
                if error.died:
                    await self._end()
                if not again or not error.died or self._stopped or isinstance(error, ChildTimeoutError):
                    raise self._refusal(error, seconds) from None
                again = False
                self._tell_death()

    def _refusal(self, error: ChildError, seconds: float) -> AttnlabError:
        """Return what the caller is told."""
        if self._stopped:
            return AttnlabError("it was stopped", hint="start it again when you like")
        if isinstance(error, ChildTimeoutError):
            message = f"this took more than {seconds:g} seconds, and was stopped"
            return AttnlabError(message, hint="ask for less: fewer tokens or runs")
        if error.died:
            return AttnlabError(f"{self._name} died over this", hint="try again, or ask for less")
        return AttnlabError(error.reason, hint=error.hint)

    def _tell_death(self) -> None:
        if self._on_death is not None:
            self._on_death(self._name)

    async def _put(self, question: Mapping[str, object], seconds: float) -> dict[str, Any]:
        if self._stopped or self._child is None:
            raise ChildError(self._name, "was stopped")
        return await asyncio.to_thread(self._child.put, question, seconds=seconds, on_progress=self._note)

    def _note(self, text: str) -> None:
        self._progress = text

    async def _start(self) -> None:
        if self._child is not None:  # it died between two questions
            self._tell_death()
        await self._end()
        self._child = await asyncio.to_thread(self._new_child)
        await self._put({}, _SECONDS_TO_START)  # the start does not count towards the timeout of the question
        if self._idle is not None and (self._idle_check is None or self._idle_check.done()):
            self._idle_check = asyncio.create_task(self._end_when_idle(self._idle))

    def _new_child(self) -> Child:
        if isinstance(self._module, Template):
            return Child(self._module.copy(self._threads), name=self._name, keep_stderr=False)
        return Child(
            self._module,
            self._arguments,
            name=self._name,
            environment={} if self._threads is None else {"OMP_NUM_THREADS": str(self._threads)},
            apart=True,  # Ctrl-C in the terminal reaches only this process, which then ends the child
            keep_stderr=False,
        )

    async def _end_when_idle(self, idle: float) -> None:
        while self._child is not None:
            await asyncio.sleep(min(_IDLE_CHECK, idle))
            await self.end_if_idle(idle)

    async def _end(self) -> None:
        """Kill the process; only under the lock, so that no thread reads from the pipes that are closed."""
        child, self._child, self._given = self._child, None, 0
        if child is not None:
            child.kill()
            await asyncio.to_thread(child.close)
