"""The part of a page that teaches a model new facts: how many there are, the progress, and before and after."""

from __future__ import annotations

import time
from collections.abc import Mapping
from html import escape
from typing import Any

from nicegui import ui

from attnlab.errors import AttnlabError
from attnlab.formats import clock_time, plural
from attnlab.pages import Table, Tone
from attnlab.studio.frame import Frame, guarded, message_html
from attnlab.studio.studio import Studio
from attnlab.studio.widgets import button, markup

_REFRESH = 1.0  # seconds between two progress updates
_TONES: dict[str, Tone] = {"right": "good", "wrong": "bad"}


class LessonPart:
    """One visitor's view of the lessons of a model."""

    def __init__(self, frame: Frame, studio: Studio) -> None:
        self.frame, self.studio = frame, studio
        self.model = ""
        self._shown: object = None  # the lesson whose result is shown
        self._count = markup("")
        with ui.element("div").classes("row"):
            self._start = button("Learn them", guarded(frame, self._learn))
            self._cancel = button("Cancel", guarded(frame, self._cancelled))
        self._status = markup("").props("role=status")
        self._result = markup("")
        self._start.set_visibility(False)
        self._cancel.set_visibility(False)
        ui.timer(_REFRESH, self._look)

    def choose(self, model: str) -> None:
        """Show the lessons of another model."""
        self.model, self._shown = model, None
        self._result.set_content("")
        self._look()

    async def renew(self) -> None:
        """Count anew what the model could learn."""
        owner = self.frame.owner("learnable")
        found = await self.studio.bench.ask("learnable", owner=owner, runs=str(self.studio.runs), name=self.model)
        self._start.set_visibility(found["count"] > 0 and not self._is_running)
        self._count.set_content(_count_html(found))

    async def _learn(self) -> None:
        self.studio.lessons.start(self.model)
        self._result.set_content("")
        self._look()

    async def _cancelled(self) -> None:
        self.studio.lessons.cancel(self.model)

    @property
    def _is_running(self) -> bool:
        lesson = self.studio.lessons.of(self.model)
        return lesson is not None and lesson.is_running

    def _look(self) -> None:
        """Say how far the lesson is, or what came of it."""
        lesson = self.studio.lessons.of(self.model)
        self._cancel.set_visibility(self._is_running)
        if lesson is None:
            self._status.set_content("")
        elif lesson.is_running:
            self._start.set_visibility(False)
            words = self.studio.lessons.progress(self.model) or "starting …"
            seconds = clock_time(time.monotonic() - lesson.begun)
            self._status.set_content(f'<p class="soft">{escape(words)} ({seconds}); this page may be closed</p>')
        elif lesson is not self._shown:
            self._shown = lesson
            self._end(lesson)

    def _end(self, lesson: Any) -> None:
        try:
            found = lesson.result()
        except AttnlabError as error:
            self._status.set_content(message_html(error))
            self._start.set_visibility(True)
            return
        self._status.set_content("")
        self._result.set_content(_result_html(found))


def _count_html(found: Mapping[str, Any]) -> str:
    count, told = found["count"], "was told" if found["count"] == 1 else "were told"
    words = "Nothing was told that this model has not learned."
    if count:
        words = f"{plural(count, 'fact')} {told} that this model has not learned. "
        words += "Learning makes a new model; this one stays."
    against = "".join(f"<li>{escape(question)}</li>" for question in found["contradictions"])
    note = f'<p class="note">Not to be learned, for they have several answers:</p><ul>{against}</ul>' if against else ""
    return f"<p>{escape(words)}</p>{note}"


def _result_html(found: Mapping[str, Any]) -> str:
    """Return what a model says to the new questions before and after, and what it kept of the old ones."""
    rows = [
        [
            one["question"],
            one["answer"],
            one["before"] or "nothing",
            one["after"] or "nothing",
            "right" if one["after"] == one["answer"] else "wrong",
        ]
        for one in found["facts"]
    ]
    headings = ("question", "told", "before", "after", "now")
    said = Table(headings, rows, text_columns=range(5), wrap_columns=(0,), tones=_TONES)
    counts = Table(found["headings"], found["rows"], wrap_columns=(0,))
    link = f'<a href="/ask?model={found["name"]}">Ask the model that has learned</a>'
    return f"<p><b>It has learned.</b> {link}</p>{said.to_html()}{counts.to_html()}"
