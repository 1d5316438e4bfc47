"""Jobs in processes of this machine: one for each core, with one thread each, unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.experiments.launching.board import RETAKES, Board, interruptible
from attnlab.experiments.launching.jobs import Job, JobEnd, LaunchListener, Work
from attnlab.processes.pool import Answered, PoolListener, WorkerPool
from attnlab.runs.directory import RunResult

_MODULE = "attnlab.experiments.launching.worker"


class LocalLauncher:
    """Has jobs done by processes that are started when there is something to do, and never outlive this one."""

    def __init__(self, work: Work, processes: int) -> None:
        self.work, self.processes, self.threads = work, processes, work.threads

    def run(self, jobs: Sequence[Job], *, listener: LaunchListener | None = None) -> list[JobEnd]:
        """Have all jobs done. Interrupted, it has every run saved and stopped, and raises KeyboardInterrupt."""
        board = Board(jobs, self.work, listener)
        if board.left:
            pool = WorkerPool(_MODULE, self.processes, unfinished=_why_unfinished, retakes=RETAKES)
            with interruptible():
                pool.ask_all([board.order(number) for number in board.left], _Telling(board))
        return board.ends()


def _why_unfinished(answer: Mapping[str, Any]) -> str | None:
    return RunResult.from_plain(answer["result"]).why_unfinished


class _Telling(PoolListener):
    """Passes on to the board what the pool tells."""

    def __init__(self, board: Board) -> None:
        self._board, self._numbers = board, list(board.left)

    def answered(self, number: int, answer: Answered) -> None:
        if answer.content is None:
            self._board.fail(self._numbers[number], answer.problem or "no answer")
        else:
            self._board.answer(self._numbers[number], answer.content)
        self._board.look()

    def lost(self, number: int, reason: str, retake: int) -> None:
        self._board.note_loss(self._numbers[number], reason, retake)

    def tick(self) -> None:
        self._board.look()
