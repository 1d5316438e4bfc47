"""One retrofit: its progress, stop and resume, then its results and the converted models."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from html import escape
from typing import Any

from nicegui import ui

from attnlab.errors import AttnlabError
from attnlab.formats import percent
from attnlab.studio.frame import Frame, guarded
from attnlab.studio.retrofits.processes import Retrofits, setting_words
from attnlab.studio.studio import RETROFIT, Studio
from attnlab.studio.widgets import Canvas, button, markup

_REFRESH = 2.0  # seconds between two updates
_WORDS = {
    "starting": "It is starting.",
    "running": "It is running. This page may be closed; the retrofit continues.",
    "finishing": "Everything was measured; its page is being written.",
    "stopped": "It was stopped. Nothing is lost: it resumes where it was.",
    "damaged": "It cannot be read.",
    "finished": "It has ended.",
}


class RetrofitWatch:
    """The page of a retrofit for one visitor."""

    def __init__(self, frame: Frame, studio: Studio, retrofits: Retrofits, name: str) -> None:
        self.frame, self.studio, self.retrofits, self.name = frame, studio, retrofits, name
        self._last: Mapping[str, Any] = {}

    async def build(self) -> None:
        self._setting = markup("", "p").classes("soft")
        self._status = markup("").props("role=status")
        with ui.element("div").classes("row"):
            self._stop = button("Stop", guarded(self.frame, self._stopped))
            self._resume = button("Resume", guarded(self.frame, self._start), main=True)
        self._links = markup("", "p")
        self._canvas = Canvas()
        with ui.element("details"):
            markup("What it said", "summary")
            self._log = markup("")
        self._show(await self.retrofits.follow(self.name))
        ui.timer(_REFRESH, self._refresh)

    async def _refresh(self) -> None:
        if self._last["status"] in {"finished", "damaged"}:
            return
        with contextlib.suppress(AttnlabError):  # the next update may succeed
            self._show(await self.retrofits.follow(self.name))

    async def _stopped(self) -> None:
        await self.retrofits.stop(self.name)
        self._show(await self.retrofits.follow(self.name))

    async def _start(self) -> None:
        words = self._last.get("words_to_resume")
        if words is None:
            raise AttnlabError("this retrofit ended before it had begun", hint="start it again from Retrofit")
        await self.retrofits.start(self._last["folder"], words)
        self._show(await self.retrofits.follow(self.name))

    def _show(self, found: Mapping[str, Any]) -> None:
        if found["title"] != self._last.get("title"):
            self.frame.entitle(found["title"])
        new = found["status"] != self._last.get("status")
        self._last, status = found, found["status"]
        self._setting.set_content(escape(setting_words(found)))
        self._status.set_content(_status_html(found))
        self._stop.set_visibility(status == "running")
        self._resume.set_visibility(status == "stopped")
        self._log.set_content(f'<pre class="code" tabindex="0">{escape(found["log"])}</pre>')
        if "page" in found and new:
            self._links.set_content(self._links_html(found))
            self._canvas.show(found["page"])

    def _links_html(self, found: Mapping[str, Any]) -> str:
        links = [f'<a href="/pages/{RETROFIT}{self.name}" target="_blank" rel="noopener">Open its page</a>']
        for one in found["models"]:
            name, run = escape(one["variant"]), one["run"]
            links.append(
                f'{name}: <a href="/seen?run={run}" aria-label="attention of {name}">attention</a>, '
                f'<a href="/heads?run={run}" aria-label="heads of {name}">heads</a>'
            )
        return " · ".join(links)


def _status_html(found: Mapping[str, Any]) -> str:
    status = found["status"]
    words = f"<p>{_WORDS[status]}</p>"
    if status == "damaged":
        return f'{words}<p class="error">{escape(found["answer"])}</p>'
    if status == "stopped" and "error:" in found["log"]:
        words += f'<p class="error">{escape(found["log"][found["log"].rindex("error:") :])}</p>'
    if status == "finished" or not found["done"]:
        return words
    bar = f'<progress max="1" value="{found["share"]:.4f}" aria-label="share of variants, texts and runs"></progress>'
    parts = [found["done"], percent(found["share"]), *([found["words"]] if status == "running" else [])]
    return f"{words}{bar}<p>{escape(' · '.join(part for part in parts if part))}</p>"
