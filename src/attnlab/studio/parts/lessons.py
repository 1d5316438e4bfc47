"""Models that learn facts: one at a time in a separate process, visible to every visitor, and cancelled by a button.

A lesson continues when its visitor leaves. A cancelled lesson keeps its progress, and resumes when it is started again;
the original model never changes.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from attnlab.errors import AttnlabError
from attnlab.processes.async_child import AsyncChild, WithdrawnError


@dataclass
class Lesson:
    """One model that learns, or has learned."""

    task: asyncio.Task[dict[str, Any]]
    begun: float  # by the monotonic clock

    @property
    def is_running(self) -> bool:
        return not self.task.done()

    def result(self) -> dict[str, Any]:
        """Return what was learned, or raise what went wrong."""
        try:
            return self.task.result()
        except WithdrawnError:
            raise AttnlabError("it was cancelled", hint="start again: what was trained is kept") from None


class Lessons:
    """All lessons since the start of the studio, by the model that is taught."""

    def __init__(self, teacher: AsyncChild, runs: str) -> None:
        self._teacher, self._runs = teacher, runs
        self._lessons: dict[str, Lesson] = {}

    def of(self, model: str) -> Lesson | None:
        return self._lessons.get(model)

    def start(self, model: str) -> None:
        """Teach a model what people told, unless it is being taught already."""
        known = self._lessons.get(model)
        if known is not None and known.is_running:
            return
        asked = self._teacher.ask("learn", owner=_owner(model), runs=self._runs, name=model)
        task = asyncio.ensure_future(asked)
        task.add_done_callback(_seen)
        self._lessons[model] = Lesson(task, time.monotonic())

    def cancel(self, model: str) -> None:
        self._teacher.withdraw(_owner(model))

    def progress(self, model: str) -> str:
        """Return how far a lesson is, in the words of the process that gives it."""
        return self._teacher.progress(_owner(model))


def _owner(model: str) -> str:
    return f"learn {model}"


def _seen(task: asyncio.Task[dict[str, Any]]) -> None:
    """Take note of an error that no visitor may ask for."""
    if not task.cancelled():
        task.exception()
