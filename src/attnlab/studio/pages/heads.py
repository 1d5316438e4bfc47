"""Heads: what every head of a run attends to, and the predictions when some are ablated; two runs side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup
from nicegui import ui

from attnlab.errors import AttnlabError
from attnlab.formats import percent, signed
from attnlab.pages import Table
from attnlab.studio.frame import Frame, guarded, page, soon
from attnlab.studio.pages.seen import show_view
from attnlab.studio.picker import RunPicker
from attnlab.studio.studio import Studio
from attnlab.studio.widgets import area, button, heading, markup

_LEAD = (
    "Choose a run, type a text, and see which tokens each head attends to. Open a map to read its weights; "
    "ablate heads and see how the predicted next tokens change."
)
_NOTHING = (
    "There are no trained runs here yet. Start a comparison under Compare, or train one with "
    "<code>attnlab train</code>; it appears here as soon as it has weights."
)
_TAKE_AWAY = "Press a head to take it away: what it makes is replaced by its mean over this text."
_MOST_TEXT = 2_000  # characters
_MOST_TOKENS = 128
_PANELS = ("words", "heads", "lines", "map")


def register(studio: Studio) -> None:
    @page(studio, "/heads", "Heads")
    async def heads(frame: Frame, run: str = "", other: str = "", text: str = "", comparison: str = "") -> None:
        await HeadsPage(frame, studio).build(run, other, text[:_MOST_TEXT], comparison)


class HeadsPage:
    """One visitor's choice of runs and text."""

    def __init__(self, frame: Frame, studio: Studio) -> None:
        self.frame, self.studio = frame, studio
        self.text = ""
        self.chosen = ["", ""]

    async def build(self, run: str, other: str, text: str, comparison: str) -> None:
        known = (await self.studio.desk.ask("runs", runs=str(self.studio.runs)))["runs"]
        markup(escape(_LEAD), "p").classes("lead")
        if not known:
            markup(_NOTHING, "p").classes("empty")
            return
        names = {one["name"] for one in known}
        own = [one for one in known if comparison and one["comparison"] == comparison]
        first = (own or known)[0]["name"]
        self.chosen = [run if run in names else first, other if other in names else ""]
        with ui.element("div").classes("pair"):
            RunPicker("run", known, self.chosen[0], guarded(self.frame, self._chose_first))
            beside = guarded(self.frame, self._chose_second)
            RunPicker("beside it", known, self.chosen[1], beside, none="no other run")
        self._area = ui.element("div")
        with ui.element("div").classes("row"):
            button("Look", guarded(self.frame, self._look), main=True)
            button("Take a text of the run", guarded(self.frame, self._take_own_text))
        self._status = markup("").props("role=status")
        self._sides = ui.element("div").classes("pair")
        self._type(text)
        soon(self.frame, self._look if text else self._take_own_text)

    def _type(self, text: str) -> None:
        self.text = text
        self._area.clear()
        with self._area:
            area("text", text, self._typed, most=_MOST_TEXT)

    async def _typed(self, text: str) -> None:
        self.text = text[:_MOST_TEXT]

    async def _chose_first(self, name: str) -> None:
        self.chosen[0] = name
        await self._take_own_text()

    async def _chose_second(self, name: str) -> None:
        self.chosen[1] = name
        await self._look()

    async def _take_own_text(self) -> None:
        self._status.set_content('<p class="soft">opening the run …</p>')
        try:
            found = await self.studio.bench.ask(
                "own_text", owner=self.frame.owner("heads"), runs=str(self.studio.runs), name=self.chosen[0]
            )
        finally:
            self._status.set_content("")
        self._type(found["text"])
        await self._look()

    async def _look(self) -> None:
        self._status.set_content('<p class="soft">looking at every head …</p>')
        try:
            runs, wanted = str(self.studio.runs), [name for name in self.chosen if name]
            owner = self.frame.owner("heads")
            found = [
                await self.studio.bench.ask("look", owner=owner, runs=runs, name=name, text=self.text)
                for name in wanted
            ]
            maps = [
                await self.studio.bench.ask(
                    "flow", owner=owner, runs=runs, name=name, text=self.text, most=_MOST_TOKENS
                )
                for name in wanted
            ]
        finally:
            self._status.set_content("")
        self._sides.clear()
        with self._sides:
            for name, one, drawn in zip(wanted, found, maps, strict=True):
                with ui.element("section").classes("seen-two" if len(wanted) > 1 else ""):
                    RunColumn(self.frame, self.studio, name, self.text, one).draw(drawn)
        fields = {"run": self.chosen[0], "other": self.chosen[1], "text": self.text}
        ui.navigate.history.replace(f"/heads?{urlencode({key: value for key, value in fields.items() if value})}")


class RunColumn:
    """One run with its attention matrices, its measures, and its heads to ablate."""

    def __init__(self, frame: Frame, studio: Studio, name: str, text: str, found: Mapping[str, Any]) -> None:
        self.frame, self.studio, self.name, self.text, self.found = frame, studio, name, text, found
        self.without: set[tuple[int, int]] = set()

    def draw(self, maps: Mapping[str, Any]) -> None:
        found = self.found
        heading(found["title"])
        facts = " · ".join(f"{escape(name)} {escape(fact)}" for name, fact in found["facts"].items() if fact)
        markup(facts, "p").classes("soft")
        for note in found["notes"]:
            markup(escape(note), "p").classes("note")
        address = f"/pages/{self.studio.keep_page(found['page'])}"
        show_view(ui.element("div").classes("seen"), self.studio.keep_data(maps), _PANELS)
        markup(f'<a href="{address}" target="_blank" rel="noopener">Open the maps by themselves</a>', "p")
        heading("What comes next", 3)
        markup(_TAKE_AWAY, "p").classes("soft")
        self._draw_switches()
        self._next = markup(_next_html(found["next"], changed=False)).props("aria-live=polite")
        with ui.element("details"):
            markup("Every head in numbers", "summary")
            markup(Table(found["headings"], found["rows"], text_columns=()).to_html())

    def _draw_switches(self) -> None:
        for layer in self.found["layers"]:
            with ui.element("div").classes("row middle"):
                markup(f"layer {layer['layer']}", "span").classes("soft")
                if layer["absence"]:
                    markup(escape(layer["absence"]), "span").classes("soft")
                for head in range(layer["heads"]):
                    self._draw_switch(layer["layer"], head)

    def _draw_switch(self, layer: int, head: int) -> None:
        async def pressed() -> None:
            self.without ^= {(layer, head)}
            try:
                await self._ablate()
            except AttnlabError:
                self.without ^= {(layer, head)}
                raise
            switch.props(f"aria-pressed={str((layer, head) in self.without).lower()}")

        switch = button(f"head {head}", guarded(self.frame, pressed))
        switch.props("aria-pressed=false")
        switch.props["aria-label"] = f"take away head {head} of layer {layer}"

    async def _ablate(self) -> None:
        found = await self.studio.bench.ask(
            "ablate", runs=str(self.studio.runs), name=self.name, text=self.text, heads=sorted(self.without)
        )
        self._next.set_content(_next_html(found["next"], changed=bool(self.without)))


def _next_html(tokens: Sequence[Mapping[str, Any]], *, changed: bool) -> str:
    largest = max([0.01, *(max(one["before"], one["after"]) for one in tokens)])
    rows = []
    for one in tokens:
        bars = f'<span class="bar" style="width:{9 * one["before"] / largest:.2f}rem"></span>'
        row = [one["token"], percent(one["before"], 1)]
        if changed:
            bars += f'<span class="bar after" style="width:{9 * one["after"] / largest:.2f}rem"></span>'
            row += [percent(one["after"], 1), signed(100 * (one["after"] - one["before"]), 1)]
        rows.append([*row, Markup(bars)])
    headings = ["next token", "with all heads", *(["without", "difference (points)"] if changed else []), ""]
    return Table(headings, rows, text_columns=(0, len(headings) - 1)).to_html()
