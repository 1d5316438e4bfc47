"""Exhibits: the worked theory in the order of a course, each with its controls, its plots and its checks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import parse_qsl, urlencode

from nicegui import ui

from attnlab.pages import equations_html, prose
from attnlab.studio.frame import Frame, guarded, page, soon
from attnlab.studio.studio import Studio
from attnlab.studio.widgets import Canvas, button, entry, heading, markup

_LEAD = "Each exhibit is a short program that computes a claim and checks it. Start at the top, as in a course."
_MOST_VALUE = 200  # characters of a parameter
_REFRESH = 0.5  # seconds between two progress updates


def register(studio: Studio) -> None:
    @page(studio, "/exhibits", "Exhibits")
    async def exhibits(frame: Frame) -> None:
        del frame
        await _draw_course(studio)

    @page(studio, "/exhibits/{name}", "Exhibit", under="/exhibits")
    async def exhibit(frame: Frame, name: str, set: str = "") -> None:
        await ExhibitPage(frame, studio, name).build(dict(parse_qsl(set)))


async def _draw_course(studio: Studio) -> None:
    found = await studio.desk.ask("course")
    markup(escape(_LEAD), "p").classes("lead")
    for chapter in found["chapters"]:
        heading(chapter["chapter"])
        markup("".join(_item(one) for one in chapter["exhibits"]), "ul").classes("items")


def _item(one: Mapping[str, Any]) -> str:
    facts = [*one["claims"], *(["trains"] if one["trains"] else [])]
    link = f'<a href="/exhibits/{one["name"]}">{escape(one["title"])}</a>'
    return f"<li>{link} <span>{prose(one['claim'])}</span> <small>{escape(', '.join(facts))}</small></li>"


class ExhibitPage:
    """The page of one exhibit for one visitor."""

    def __init__(self, frame: Frame, studio: Studio, name: str) -> None:
        self.frame, self.studio, self.name = frame, studio, name
        self.settings: dict[str, str] = {}
        self._owner = frame.owner(f"exhibit-{name}")
        self._runs = 0  # computations started; only the newest is shown
        self._begun: float | None = None  # start time of the current computation, if any

    async def build(self, settings: dict[str, str]) -> None:
        one = (await self.studio.desk.ask("exhibit", name=self.name))["exhibit"]
        known = {parameter["name"] for parameter in one["parameters"]}
        self.settings = {name: value for name, value in settings.items() if name in known}
        self.frame.entitle(one["title"])
        markup(str(prose(one["claim"])), "p").classes("lead")
        markup(str(equations_html(one["equation"])))
        if one["parameters"]:
            with ui.element("div").classes("fields"):
                for parameter in one["parameters"]:
                    self._draw_parameter(parameter)
        with ui.element("div").classes("row"):
            self._run_button = button("Run", guarded(self.frame, self._run), main=True)
            self._stop_button = button("Stop", guarded(self.frame, self._stop))
            self._stop_button.set_visibility(False)
        self._status = markup("").props("role=status")
        self._canvas = Canvas()
        ui.timer(_REFRESH, self._tell)
        if one["trains"]:
            self._status.set_content('<p class="soft">This one trains models, which takes minutes. Run starts it.</p>')
        else:
            soon(self.frame, self._run)

    def _draw_parameter(self, parameter: Mapping[str, Any]) -> None:
        name, default = parameter["name"], _text(parameter["default"])

        async def typed(text: str) -> None:
            self.settings = {**self.settings, name: text.strip()[:_MOST_VALUE]}
            if not text.strip():
                del self.settings[name]
            await self._run()

        limits = f" ({parameter['limits']})" if parameter["limits"] else ""
        hint = f"{parameter['meaning']}{limits}"
        entry(name.replace("_", " "), self.settings.get(name, default), guarded(self.frame, typed), hint=hint)

    async def _run(self) -> None:
        self._runs += 1
        this = self._runs
        self._show_running(time.monotonic())
        try:
            found = await self.studio.stage.ask(
                "run_exhibit", owner=self._owner, name=self.name, settings=self.settings
            )
        finally:
            if this == self._runs:
                self._show_running(None)
        if this != self._runs:
            return
        held = f"{found['held']} of {found['checks']} checks hold"
        self._status.set_content(f'<p class="{"good" if found["ok"] else "bad"}">{held}</p>')
        self._canvas.show(found["page"])
        query = f"?{urlencode({'set': urlencode(self.settings)})}" if self.settings else ""
        ui.navigate.history.replace(f"/exhibits/{self.name}{query}")

    async def _stop(self) -> None:
        self._runs += 1
        self._show_running(None)
        self.studio.stage.withdraw(self._owner)
        self._status.set_content('<p class="soft">Stopped. Run starts it again.</p>')

    def _show_running(self, begun: float | None) -> None:
        self._begun = begun
        self._run_button.set_visibility(begun is None)
        self._stop_button.set_visibility(begun is not None)
        self._status.set_content("" if begun is None else '<p class="soft">computing …</p>')

    async def _tell(self) -> None:
        if self._begun is not None:
            seconds = time.monotonic() - self._begun
            words = self.studio.stage.progress(self._owner) or "computing …"
            self._status.set_content(f'<p class="soft">{escape(words)} ({seconds:.0f} s)</p>')


def _text(value: Any) -> str:
    """Return a default as one would type it."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
