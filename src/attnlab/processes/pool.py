"""A worker pool that answers questions in parallel; a process that dies costs only time.

    answers = WorkerPool("some.module", processes=2).ask_all([{"seed": 0}, {"seed": 1}, {"seed": 2}])

The module serves as in `child`. A process answers one question after another. If it dies, a new process gets the same
question, a few times at most; an error in one question does not stop the others. Ctrl-C asks all processes to shut down
cleanly, and waits for them; a second one kills them.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import Any

from attnlab.processes.child import Child, ChildError

RETAKES = 3  # retries of a question after a process was lost
TICK = 1.0  # seconds


@dataclass(frozen=True)
class Answered:
    """The answer of a process, or the reason why there is none."""

    content: dict[str, Any] | None
    problem: str | None = None


class PoolListener:
    """Receives the progress of the pool, always in the calling thread. This base class does nothing."""

    def answered(self, number: int, answer: Answered) -> None: ...

    def lost(self, number: int, reason: str, retake: int) -> None:
        """Handle the loss of the process that worked on this question; another process gets the question."""

    def tick(self) -> None:
        """Handle a tick: about a second has passed."""


class WorkerPool:
    """Processes that all run the same module. A pool is used for one list of questions."""

    def __init__(
        self,
        module: str,
        processes: int,
        *,
        name: str = "a process of the grid",
        unfinished: Callable[[Mapping[str, Any]], str | None] = lambda _: None,
        retakes: int = RETAKES,
    ) -> None:
        """Prepare a pool; `unfinished` returns why the question of an answer must be asked again, or None."""
        self._module, self._processes, self._name = module, processes, name
        self._unfinished, self._retakes = unfinished, retakes
        self._questions: Sequence[Mapping[str, object]] = ()
        self._left: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._news: queue.SimpleQueue[Callable[[PoolListener], None]] = queue.SimpleQueue()
        self._answers: dict[int, Answered] = {}
        self._children: set[Child] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def ask_all(
        self, questions: Sequence[Mapping[str, object]], listener: PoolListener | None = None
    ) -> list[Answered]:
        """Return the answers, in the order of the questions."""
        self._questions = questions
        for number in range(len(questions)):
            self._left.put(number)
        count = min(self._processes, len(questions))
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(count)]
        try:
            for thread in threads:
                thread.start()
            self._listen(listener or PoolListener())
        except BaseException:
            self._stop(Child.interrupt)
            try:
                _join(threads)
            except BaseException:
                self._stop(Child.kill)
                raise
            raise
        _join(threads)
        return [self._answers[number] for number in range(len(questions))]

    def _listen(self, listener: PoolListener) -> None:
        told = time.monotonic()
        while len(self._answers) < len(self._questions):
            wait = max(0.0, told + TICK - time.monotonic())
            try:
                self._news.get(timeout=wait)(listener)
            except queue.Empty:
                told = time.monotonic()
                listener.tick()

    def _stop(self, end: Callable[[Child], None]) -> None:
        with self._lock:
            self._stopped = True
            for child in self._children:
                end(child)

    # In one thread per process

    def _work(self) -> None:
        """Have the questions that are left answered by one process as long as it lives."""
        child: Child | None = None
        try:
            while not self._stopped:
                try:
                    number = self._left.get_nowait()
                except queue.Empty:
                    return
                child = self._answer(number, child)
        except BaseException as error:
            self._news.put(_raising(error))
        finally:
            self._end(child)

    def _answer(self, number: int, child: Child | None) -> Child | None:
        """Have one question answered; return the process that is there afterwards."""
        for retake in range(1, self._retakes + 2):
            answer, reason, child = self._try(number, child)
            if answer is None and self._stopped:
                return child
            if answer is None and retake > self._retakes:
                answer = Answered(None, f"{reason}\n\nit was tried {retake} times, and each time the process was lost")
            if answer is not None:
                self._news.put(partial(self._keep, number, answer))
                return child
            self._news.put(methodcaller("lost", number, reason, retake))
        return child

    def _try(self, number: int, child: Child | None) -> tuple[Answered | None, str, Child | None]:
        """Return the answer, or None and the reason to ask again; and the process that is there afterwards."""
        try:
            child = child or self._start()
        except OSError as error:  # such as a limit on processes, or no memory
            return None, f"no process can be started: {error}", None
        answer, reason = self._ask(child, number)
        if child.has_ended:
            self._end(child)
            child = None
        return answer, reason, child

    def _ask(self, child: Child, number: int) -> tuple[Answered | None, str]:
        """Return the answer, or None and the reason to ask again."""
        try:
            content = child.put(self._questions[number])
        except ChildError as error:
            return (None, str(error)) if error.died else (Answered(None, str(error)), "")
        reason = self._unfinished(content)
        return (Answered(content), "") if reason is None else (None, reason)

    def _keep(self, number: int, answer: Answered, listener: PoolListener) -> None:
        self._answers[number] = answer
        listener.answered(number, answer)

    def _start(self) -> Child:
        with self._lock:
            if self._stopped:
                raise InterruptedError("all is being stopped")
            child = Child(self._module, [str(os.getpid())], name=self._name, apart=True)
            self._children.add(child)
        return child

    def _end(self, child: Child | None) -> None:
        if child is None:
            return
        child.close()
        with self._lock:
            self._children.discard(child)


def _raising(error: BaseException) -> Callable[[PoolListener], None]:
    def fail(_: PoolListener) -> None:
        raise error

    return fail


def _join(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        while thread.is_alive():
            thread.join(TICK)
