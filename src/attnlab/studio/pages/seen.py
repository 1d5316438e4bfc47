"""Attention, seen: the forward pass of a text through a model, head by head, and generation token by token."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import urlencode

from nicegui import ui
from nicegui.events import GenericEventArguments

from attnlab.errors import AttnlabError, InputError
from attnlab.processes.async_child import WithdrawnError
from attnlab.studio.equation import equation_html
from attnlab.studio.frame import Frame, guarded, page, soon
from attnlab.studio.matrices import read_number, read_whole
from attnlab.studio.picker import RunPicker
from attnlab.studio.studio import Studio
from attnlab.studio.widgets import Handler, area, button, choice, entry, markup, slider, switch

_LEAD = (
    "A text on its way through a model. Point at a head to see it large, at a token to see what it attends to, and "
    "click a cell for its equation. Change the normaliser or share keys and values, and see what that does."
)
_NOTHING = "There is no trained model here yet. A small one is trained on generated sentences in under a minute."
_TRAIN = "Train the small model of the tour"
_AS_TRAINED = "as trained"
_MOST_TEXT = 2_000  # characters
_OWN_LETTERS = 120  # characters of the model's own text, shown initially
_AT_ONCE = 8  # tokens that are generated per request
_MOST_UNDO = 200
_MOST_PLACE = 10_000  # layers, heads or tokens
_REFRESH = 0.5  # seconds between two progress updates


def show_view(place: ui.element, address: str, parts: Sequence[str] | None = None) -> None:
    """Draw data that was kept at an address in an element; `parts` are its panels, all by default."""
    given = [place.html_id, address, *([] if parts is None else [list(parts)])]
    ui.run_javascript(f"seen.show({', '.join(map(json.dumps, given))})")


def register(studio: Studio) -> None:
    @page(studio, "/seen", "Attention, seen")
    async def seen(frame: Frame, run: str = "", text: str = "") -> None:
        await SeenPage(frame, studio).build(run, text[:_MOST_TEXT])


def _cell_of(given: object) -> dict[str, int]:
    """Return the cell of a map that a browser names."""
    names = ("layer", "head", "query", "key")
    found: dict[str, Any] = {name: given.get(name) for name in names} if isinstance(given, dict) else {}
    if not found or not all(isinstance(value, int) and 0 <= value < _MOST_PLACE for value in found.values()):
        raise InputError("this is no cell of a map", hint="click on a map")
    return found


def _excerpt(text: str) -> str:
    """Return a piece of a text that begins with a line and ends with a word, where it has any."""
    if len(text) < _OWN_LETTERS:
        return text
    whole = (text.partition("\n")[2] or text)[:_OWN_LETTERS]
    return whole[: whole.rfind(" ")] if " " in whole[1:] else whole


class SeenPage:
    """One visitor's model and text."""

    def __init__(self, frame: Frame, studio: Studio) -> None:
        self.frame, self.studio = frame, studio
        self.run, self.text = "", ""
        self.changes: dict[str, Any] = {"normaliser": "", "shared": False, "temperature": 1.0, "top_k": 0}
        self.found: Mapping[str, Any] = {}
        self._earlier: list[list[int]] = []  # tokens before each step, for undo
        self._training = False
        self._asked: float | None = None  # when the pending question was asked

    async def build(self, run: str, text: str) -> None:
        known = (await self.studio.desk.ask("runs", runs=str(self.studio.runs)))["runs"]
        markup(escape(_LEAD), "p").classes("lead")
        self._offer = ui.element("div")
        self._main = ui.element("div")
        if not known:
            with self._offer:
                markup(escape(_NOTHING), "p").classes("empty")
                button(_TRAIN, guarded(self.frame, self._train), main=True)
        self._status = markup("").props("role=status")
        ui.timer(_REFRESH, self._tell)
        ui.on("explain", guarded(self.frame, self._explain))
        if known:
            await self._begin(known, run, text)

    async def _begin(self, known: Sequence[Mapping[str, Any]], run: str, text: str) -> None:
        names = [one["name"] for one in known]
        self.run, self.text = run if run in names else names[0], text
        self._offer.clear()
        self._main.clear()
        with self._main:
            self._draw(known)
        soon(self.frame, self._look if text else self._take_own_text)

    def _draw(self, known: Sequence[Mapping[str, Any]]) -> None:
        with ui.element("details"):
            markup("Choose a model", "summary")
            RunPicker("model", known, self.run, guarded(self.frame, self._choose))
            if not any("tour" in one["group"] for one in known):
                button(_TRAIN, guarded(self.frame, self._train))
        self._area = ui.element("div")
        self._type(self.text)
        with ui.element("div").classes("row"):
            button("Look", guarded(self.frame, self._look), main=True)
            button("Take a text of the model", guarded(self.frame, self._take_own_text))
            button("Next token", guarded(self.frame, self._step))
            button(f"Write {_AT_ONCE} tokens", guarded(self.frame, self._write))
            button("Undo", guarded(self.frame, self._undo))
        self._controls = ui.element("div").classes("fields controls")
        self._notes = markup("")
        self._view = ui.element("div").classes("seen")
        self._equation = markup("").props("role=status").classes("numbers")

    def _type(self, text: str) -> None:
        self.text = text
        self._area.clear()
        with self._area:
            area("text", text, self._typed, most=_MOST_TEXT)

    def _draw_controls(self) -> None:
        """Draw what can be changed about this model."""
        kinds = {"": _AS_TRAINED, **{one: one for one in self.found["normalisers"]}}
        self._controls.clear()
        with self._controls:
            if len(kinds) > 1:
                choice("normaliser", kinds, self.changes["normaliser"], self._changing("normaliser", str))
            warmth, warm = self.changes["temperature"], self._changing("temperature", read_number)
            slider("temperature", 0, 3, 0.1, warmth, warm, event="change").set_content(f"T = {warmth:.2g}")
            entry(
                "only the k likeliest",
                str(self.changes["top_k"] or ""),
                self._changing("top_k", lambda text: read_whole(text, "k", 1, 1000) if text.strip() else 0),
                whole=True,
                hint="empty: all",
            )
            if self.found["shareable"]:
                switch("keys are the values too (K = V)", self.changes["shared"], self._changing("shared", bool))

    # Actions

    async def _typed(self, text: str) -> None:
        self.text = text[:_MOST_TEXT]

    async def _choose(self, name: str) -> None:
        self.run = name
        self.changes |= {"normaliser": "", "shared": False}
        self._earlier = []
        await self._take_own_text()

    def _changing(self, field: str, read: Callable[[str], Any]) -> Handler:
        """Return what changes one thing about the model or about what is drawn next, and computes the text again."""

        async def changed(text: str) -> None:
            before = self.changes
            self.changes = {**before, field: read(text)}
            try:
                await self._flow(self.found["ids"])
            except WithdrawnError:  # superseded by a newer change, which includes this one
                raise
            except AttnlabError:
                self.changes = before
                raise

        return guarded(self.frame, changed)

    async def _ask(self, task: str, **given: Any) -> dict[str, Any]:
        self._asked = time.monotonic()
        try:
            given = {"runs": str(self.studio.runs), "name": self.run, **given}
            return await self.studio.bench.ask(task, owner=self.frame.owner("seen"), **given)
        finally:
            self._asked = None
            self._status.set_content("")

    async def _take_own_text(self) -> None:
        found = await self._ask("own_text")
        self._type(_excerpt(found["text"]))
        await self._look()

    async def _look(self) -> None:
        self._earlier = []
        await self._flow(None)

    async def _flow(self, ids: Sequence[int] | None) -> None:
        """Compute the text, or these tokens, and draw everything anew."""
        given = {"text": self.text} if ids is None else {"ids": list(ids)}
        self.found = await self._ask("flow", seed=len(self._earlier), **given, **self.changes)
        self._draw_controls()
        self._notes.set_content("".join(f'<p class="note">{escape(note)}</p>' for note in self.found["notes"]))
        self._equation.set_content("")
        show_view(self._view, self.studio.keep_data(self.found))
        query = {"run": self.run, "text": self.text}
        ui.navigate.history.replace(f"/seen?{urlencode(query)}")

    async def _step(self) -> None:
        if not self.found:
            raise AttnlabError("there is no text yet", hint="type one, or take a text of the model")
        before = self.found["ids"]
        self._earlier = [*self._earlier[-_MOST_UNDO:], before]
        await self._flow([*before, self.found["drawn"]])

    async def _write(self) -> None:
        for _ in range(_AT_ONCE):
            await self._step()

    async def _undo(self) -> None:
        if not self._earlier:
            raise AttnlabError("there is nothing to undo", hint="generate a token first")
        last = self._earlier.pop()
        await self._flow(last)

    async def _explain(self, event: GenericEventArguments) -> None:
        place = _cell_of(event.args)
        if not self.found or place["key"] >= len(self.found["tokens"]):
            raise InputError("this is no cell of a map", hint="click on a map")
        asked = {name: place[name] for name in ("layer", "head", "query")}
        changed = {name: self.changes[name] for name in ("normaliser", "shared")}
        found = await self._ask("explain", ids=self.found["ids"], **asked, **changed)
        self._equation.set_content(equation_html(found, self.found["tokens"], place))

    # The model of the tour

    async def _train(self) -> None:
        self._training = True
        try:
            found = await self.studio.stage.ask(
                "train_tour", owner=self.frame.owner("tour"), runs=str(self.studio.runs)
            )
        finally:
            self._training = False
            self._status.set_content("")
        known = (await self.studio.desk.ask("runs", runs=str(self.studio.runs)))["runs"]
        await self._begin(known, found["name"], "")

    async def _tell(self) -> None:
        """Say how far the training is, or how long a question has been waiting for its answer."""
        words = ""
        if self._training:
            words = self.studio.stage.progress(self.frame.owner("tour")) or "starting …"
        elif self._asked is not None and time.monotonic() - self._asked > _REFRESH:
            seconds = time.monotonic() - self._asked
            words = f"{self.studio.bench.progress(self.frame.owner('seen')) or 'computing …'} ({seconds:.0f} s)"
        if words:
            self._status.set_content(f'<p class="soft">{escape(words)}</p>')
