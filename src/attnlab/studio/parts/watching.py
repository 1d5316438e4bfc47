"""One comparison or study while it runs: its status, its charts, and its labels."""

from __future__ import annotations

import contextlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from html import escape
from typing import Any, ClassVar

from nicegui import ui

from attnlab.errors import AttnlabError
from attnlab.formats import percent
from attnlab.studio.frame import Frame, guarded
from attnlab.studio.studio import RUNNING, Studio
from attnlab.studio.widgets import Handler, area, button, entry, facts_html, markup, switch

_REFRESH = 3.0  # seconds between two updates; drawing slows down the training


class Watching(ABC):
    """Base of the pages of a comparison or a study, for one visitor."""

    what: ClassVar[str]  # what is watched: a comparison or a study
    words: ClassVar[Mapping[str, str]]  # a sentence for each status

    def __init__(self, frame: Frame, studio: Studio, name: str) -> None:
        self.frame, self.studio, self.name = frame, studio, name
        self._last: Mapping[str, Any] = {}
        self._drawn: dict[str, ui.plotly] = {}  # charts by name

    @abstractmethod
    async def follow(self) -> dict[str, Any]:
        """Return it as it is now."""

    @abstractmethod
    async def resume(self) -> None:
        """Launch its process again."""

    @abstractmethod
    def delete(self) -> None:
        """Move it out of sight."""

    @abstractmethod
    def show(self, found: Mapping[str, Any]) -> None:
        """Draw what is this page's own."""

    # Drawing, once

    def draw_status(self) -> None:
        self._setting = markup("", "p").classes("soft")
        self._status = markup("").props("role=status")
        with ui.element("div").classes("row"):
            self._stop = button("Stop", guarded(self.frame, self._stopped))
            self._resume = button("Resume", guarded(self.frame, self._resumed), main=True)

    def draw_details(self, found: Mapping[str, Any], *, deletable: bool = True) -> None:
        """Draw title, note and marks, the plan, and what the process said, each closed at first."""
        with ui.element("details"):
            markup("Title, note and marks", "summary")
            with ui.element("div").classes("fields"):
                entry("title", found["title"], self._labelling("title"))
                switch("starred", found["starred"], self._labelling("starred", bool))
                switch("archived: not in the lists", found["archived"], self._labelling("archived", bool))
            area("note", found["note"], self._labelling("note"), event="change")
            if deletable:
                button("Delete", guarded(self.frame, self._delete))
        with ui.element("details"):
            markup("The plan", "summary")
            self._plan = markup("")
        with ui.element("details"):
            markup("What it said", "summary")
            self._log = markup("")

    def begin(self, found: Mapping[str, Any]) -> None:
        """Show what was found, and look again and again."""
        self._show(found)
        ui.timer(_REFRESH, self._refresh)

    # Actions

    def _labelling(self, field: str, read: Callable[[str], Any] = str.strip) -> Handler:
        async def said(text: str) -> None:
            value = read(text)
            own = field == "title" and value == self._last["own_title"]
            self.studio.labels.change(self._last["folder"], **{field: "" if own else value})
            await self.look()

        return guarded(self.frame, said)

    async def _delete(self) -> None:
        if self._last["status"] in RUNNING:
            raise AttnlabError(f"this {self.what} is running", hint="stop it first")
        self.delete()
        ui.navigate.to("/compare")

    async def _stopped(self) -> None:
        await self.studio.desk.ask("stop", runs=str(self.studio.runs), name=self.name)
        await self.look()

    async def _resumed(self) -> None:
        await self.resume()
        await self.look()

    async def look(self) -> None:
        """Look again at once."""
        self._show(await self.follow())

    async def _refresh(self) -> None:
        if self._last["status"] == "finished":
            return
        with contextlib.suppress(AttnlabError):  # the next update may succeed
            await self.look()

    # Drawing

    def can_resume(self, found: Mapping[str, Any]) -> bool:
        """Return whether there is anything left to do."""
        return found["status"] in {"stopped", "failed"}

    def _show(self, found: Mapping[str, Any]) -> None:
        if found["title"] != self._last.get("title"):
            self.frame.entitle(found["title"])
        lines = [escape(found[name]) for name in ("setting", "note") if found[name]]
        self._setting.set_content("<br>".join(lines))
        if self._last.get("status") in RUNNING and found["status"] == "finished":
            ui.run_javascript(f"tellVerdict({json.dumps(found['title'])}, {json.dumps(found['verdict'])})")
        self._last = found
        self._status.set_content(self.status_html(found))
        self._stop.set_visibility(found["status"] in {"planning", "running"})
        self._resume.set_visibility(self.can_resume(found))
        self._log.set_content(f'<pre class="code" tabindex="0">{escape(found["log"])}</pre>')
        if "rows" in found:
            self._plan.set_content(facts_html(found["rows"]))
        self.show(found)

    def status_html(self, found: Mapping[str, Any]) -> str:
        """Return what the status means, the last error if it stopped over one, and how far it is."""
        status = found["status"]
        words = f"<p>{self.words[status]}</p>"
        if status in {"stopped", "failed"} and "error:" in found["log"]:
            error = found["log"][found["log"].rindex("error:") :]
            words += f'<p class="error">{escape(error)}</p>'
        if status == "finished" or "share" not in found:
            return words
        bar = f'<progress max="1" value="{found["share"]:.4f}" aria-label="share of the work that is done"></progress>'
        parts = [part for part in (*self.progress(found), percent(found["share"]), found["left"]) if part]
        return f"{words}{bar}<p>{escape(' · '.join(parts))}</p>"

    @abstractmethod
    def progress(self, found: Mapping[str, Any]) -> list[str]:
        """Return how far it is, in words."""

    def draw_chart(self, place: ui.element, words: str, figure: dict[str, Any], caption: str = "") -> None:
        """Draw a chart, or change it in place; `words` name it to those who do not see it."""
        if words in self._drawn:
            self._drawn[words].update_figure(figure)
            return
        with place, ui.element("figure"):
            self._drawn[words] = ui.plotly(figure).classes("plot").props("role=img")
            self._drawn[words].props["aria-label"] = words
            if caption:
                markup(escape(caption), "figcaption")
