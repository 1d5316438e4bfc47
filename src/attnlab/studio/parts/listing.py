"""A searchable list of comparisons and studies; deleted ones can be restored."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from typing import Any

from markupsafe import Markup
from nicegui import ui

from attnlab.errors import AttnlabError
from attnlab.pages import Table, Tone
from attnlab.studio.frame import Frame, guarded
from attnlab.studio.studio import RUNNING, Studio
from attnlab.studio.widgets import button, entry, markup, switch

_REFRESH = 3.0  # seconds between two updates of the list
_TONES: dict[str, Tone] = {**dict.fromkeys(RUNNING, "even"), "finished": "good"}
_TONES |= dict.fromkeys(("stopped", "failed", "damaged"), "bad")


class ExperimentList:
    """One visitor's list; `kind` shows one kind only, and `nothing` is the text of an empty list."""

    def __init__(self, frame: Frame, studio: Studio, nothing: str, kind: str | None = None) -> None:
        self.frame, self.studio = frame, studio
        self._nothing, self._kind = nothing, kind
        self._words, self._archived = "", False
        self._shown: Sequence[Mapping[str, Any]] | None = None

    async def build(self) -> None:
        with ui.element("div").classes("row"):
            entry("search", "", self._searched, event="input", wide=True)
            switch("archived ones too", self._archived, guarded(self.frame, self._unarchive))
            markup('<a href="/reports">Two reports side by side</a>', "p")
        self._list = markup("")
        self._deleted = ui.element("div")
        self._draw_deleted()
        await self._refresh()
        ui.timer(_REFRESH, self._refresh)

    async def _searched(self, text: str) -> None:
        self._words = text.lower()
        self._draw()

    async def _unarchive(self, text: str) -> None:
        self._archived = bool(text)
        self._draw()

    def _draw_deleted(self) -> None:
        """Draw what was deleted, each with a way back."""
        self._deleted.clear()
        folders = self.studio.labels.deleted()
        if not folders:
            return
        with self._deleted, ui.element("details"):
            markup(f"Deleted ({len(folders)})", "summary")
            for folder in folders:
                with ui.element("div").classes("row middle"):
                    markup(escape(folder), "span")
                    button("Restore", guarded(self.frame, partial(self._restore, folder)))

    async def _restore(self, folder: str) -> None:
        self.studio.labels.restore(folder)
        self._draw_deleted()
        await self._refresh()

    async def _refresh(self) -> None:
        with contextlib.suppress(AttnlabError):  # the next update may succeed
            found = await self.studio.experiments()
            self._shown = [one for one in found if self._kind in (None, one["kind"])]
            self._draw()

    def _draw(self) -> None:
        kept = [one for one in self._shown or [] if self._archived or not one["archived"]]
        found = [one for one in kept if self._words in _haystack(one)]
        found.sort(key=lambda one: not one["starred"])
        if not self._shown:
            self._list.set_content(f'<p class="empty">{escape(self._nothing)}</p>')
        elif not found:
            self._list.set_content('<p class="empty">Nothing has these words.</p>')
        else:
            self._list.set_content(_list_html(found))


def _haystack(one: Mapping[str, Any]) -> str:
    fields = ("kind", "title", "own_title", "note", "folder", "setting", "status", "verdict")
    return " ".join(one[field] for field in fields).lower()


def _list_html(found: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [
            Markup('<a href="{}">{}{}</a><br><small>{} {}</small>').format(
                one["address"],
                "★ " if one["starred"] else "",
                one["title"],
                one["kind"],
                one["folder"].rpartition("-")[2],
            ),
            one["status"],
            one["setting"],
            one["made"][:16].replace("T", " "),
            one["verdict"],
        ]
        for one in found
    ]
    headings = ["name", "status", "setting", "planned", "answer"]
    return Table(headings, rows, text_columns=range(5), wrap_columns=(0, 2, 4), tones=_TONES).to_html()
