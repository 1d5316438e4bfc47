"""The playground: editable tokens and matrices, any attention from a form, and every intermediate result at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from html import escape
from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments

from attnlab.errors import AttnlabError
from attnlab.pages import equations_html
from attnlab.studio.frame import Frame, guarded, page
from attnlab.studio.matrices import editable_html, read_number, read_whole, rows_html, steps_html
from attnlab.studio.studio import Studio
from attnlab.studio.widgets import button, choice, entry, heading, markup, slider, switch
from attnlab.studio.work.first import first_answer, load_presets

_LEAD = (
    "Type into any cell. All results below the matrices update at once, and changed cells are marked. The URL of "
    "this page holds the whole state."
)
_PATH = "/playground"
_MOST_UNDO = 100  # states
_MOST_LINK = 8_000  # characters of a state in the address


def register(studio: Studio) -> None:
    @page(studio, _PATH, "Playground")
    async def playground(frame: Frame, s: str = "") -> None:
        await PlaygroundPage(frame, studio).build(s)


class PlaygroundPage:
    """One visitor's playground."""

    def __init__(self, frame: Frame, studio: Studio) -> None:
        self.frame, self.desk = frame, studio.desk
        self.state: Mapping[str, Any] = {}
        self.answer: Mapping[str, Any] | None = None
        self._presets: Sequence[Mapping[str, Any]] = []
        self._states: list[Mapping[str, Any]] = []  # earlier states, for undo
        self._wrong: set[str] = set()  # cells that do not contain a number
        self._wanted = asyncio.Event()
        self._busy = False
        self._form: SpecForm | None = None  # set once the desk has returned the choices

    async def build(self, link: str) -> None:
        self._presets = load_presets()
        self._draw()
        if not link:
            self._show(first_answer(), redraw=True)  # the desk imports PyTorch meanwhile
        ui.on("cell", self._typed)
        described = await self.desk.ask("form")
        self._draw_form(described)
        try:
            if link:
                self._show(await self.desk.ask("attend", link=link[:_MOST_LINK]), redraw=True)
            else:
                self._draw_spec((await self.desk.ask("attend", state=self.state))["spec"])
        except AttnlabError as error:
            self._show(await self.desk.ask("attend", state=self._presets[0]["state"]), redraw=True)
            self.frame.tell(error)

    def _draw(self) -> None:
        markup(escape(_LEAD), "p").classes("lead")
        with ui.element("div").classes("columns"):
            with ui.element("div"):
                self._draw_choices()
            with ui.element("div"):
                heading("Given")
                self._inputs = markup("").classes("flow")
                heading("Computed")
                self._equations = markup("")
                self._steps = markup("")
                heading("Row by row")
                self._rows = markup("")
                self._draw_exports()

    def _draw_choices(self) -> None:
        names = {str(number): preset["name"] for number, preset in enumerate(self._presets)}
        heading("Start from")
        self._starts = ui.element("div").classes("fields")
        with self._starts:
            choice("a preset", {"": "choose …", **names}, "", guarded(self.frame, self._preset))
        self._see = markup("", "p").classes("soft")
        with ui.element("details").classes("open-if-wide"):
            markup("Size and sharpness", "summary")
            self._sizes = ui.element("div").classes("fields")
            self._sliders = ui.element("div").classes("fields")
        with ui.element("details").classes("open-if-wide"):
            markup("Attention", "summary")
            self._form_place = ui.element("div")
        ui.run_javascript("openIfWide()")

    def _draw_form(self, described: Mapping[str, Any]) -> None:
        """Draw what the desk knows about attention."""
        with self._starts:
            options = ["choose …", *described["variants"]]
            choice("a variant", options, "choose …", guarded(self.frame, self._vary))
        with self._form_place:
            self._form = SpecForm(described["fields"], guarded(self.frame, self._change))

    def _draw_spec(self, spec: Mapping[str, Any]) -> None:
        if self._form is not None:
            self._form.draw(spec)

    def _draw_exports(self) -> None:
        heading("Export")
        with ui.element("div").classes("row"):
            button("Undo", guarded(self.frame, self._undo))
            markup("Copy the link", "button").props("type=button data-copy-address")
            button("Export as Python", guarded(self.frame, self._export))
        self._program = markup("")

    # Actions

    async def _typed(self, event: GenericEventArguments) -> None:
        place, text = event.args
        name, row, column = place.split(" ")
        try:
            self._set(name, int(row), int(column), text)
        except AttnlabError as error:
            self._mark(place, wrong=True)
            self.frame.tell(error)
            return
        if place in self._wrong:
            self._mark(place, wrong=False)
        await self._compute()

    def _mark(self, place: str, *, wrong: bool) -> None:
        """Mark a cell that holds no number, or take the mark away."""
        self._wrong = {*self._wrong, place} if wrong else self._wrong - {place}
        ui.run_javascript(f"markCell({json.dumps(place)}, {json.dumps(wrong)})")

    def _set(self, name: str, row: int, column: int, text: str) -> None:
        """Put what was typed into the state."""
        if name == "token":
            tokens = list(self.state["tokens"])
            tokens[row] = text[:24]
            self.state = {**self.state, "tokens": tokens}
            return
        matrices = self.state if name == "x" else self.state["projections"]
        matrix = [list(line) for line in matrices[name]]
        matrix[row][column] = read_number(text)
        changed = {**matrices, name: matrix}
        self.state = changed if name == "x" else {**self.state, "projections": changed}

    async def _compute(self) -> None:
        """Answer the last of the changes that came while the one before was computed."""
        self._wanted.set()
        if self._busy:
            return
        self._busy = True
        try:
            while self._wanted.is_set():
                self._wanted.clear()
                answer = await self.desk.ask("attend", state=self.state)
                if not self._wanted.is_set():
                    self._show(answer)
                    self.frame.tell(None)
        except AttnlabError as error:
            self.frame.tell(error)
        finally:
            self._busy = False

    async def _preset(self, number: str) -> None:
        if not number:
            return
        preset = self._presets[int(number)]
        self._show(await self.desk.ask("attend", state=preset["state"]), redraw=True)
        self._see.set_content(escape(preset["see"]))

    async def _vary(self, name: str) -> None:
        if name != "choose …":
            self._renewed(await self.desk.ask("vary", state=self.state, name=name))

    async def _change(self, field: str, value: Any) -> None:
        self._renewed(await self.desk.ask("change", state=self.state, changes={field: value}))

    async def _resize(self, tokens: str | None = None, width: str | None = None) -> None:
        now: dict[str, Any] = {"tokens": len(self.state["tokens"]), "width": len(self.state["x"][0])}
        if tokens is not None:
            now["tokens"] = read_whole(tokens, "the number of tokens", 1, 8)
        if width is not None:
            now["width"] = read_whole(width, "the width of x", 1, 16)
        self._renewed(await self.desk.ask("resize", state=self.state, **now))

    async def _sharpen(self, field: str, text: str) -> None:
        self.state = {**self.state, field: read_number(text)}
        await self._compute()

    async def _undo(self) -> None:
        """Return to the state before the last change."""
        if len(self._states) < 2:
            raise AttnlabError("there is nothing to undo", hint="change a number first")
        self._states.pop()
        self._show(await self.desk.ask("attend", state=self._states.pop()), redraw=True)

    async def _export(self) -> None:
        found = await self.desk.ask("export", state=self.state)
        self._program.set_content(f'<pre class="code" tabindex="0">{escape(found["text"])}</pre>')
        ui.download.content(found["text"], "attention.py")

    # Drawing

    def _renewed(self, answer: Mapping[str, Any]) -> None:
        self._show(answer, redraw=True)
        if answer.get("note"):
            # After the handler, which removes an earlier message.
            asyncio.get_running_loop().call_soon(self.frame.tell, f"{answer['note']}\nThat is what is shown now.")

    def _show(self, answer: Mapping[str, Any], *, redraw: bool = False) -> None:
        before, self.answer, self.state = self.answer, answer, answer["state"]
        self._states = [*self._states[-_MOST_UNDO:], self.state]
        if redraw:
            self._redraw(answer)
        self._equations.set_content(str(equations_html("\n".join(answer["equations"]))))
        self._steps.set_content(steps_html(answer, before))
        self._rows.set_content(rows_html(answer))
        self._scale_shown.set_content(f"× {self.state['scale']:.3g}")
        self._temperature_shown.set_content(f"T = {self.state['temperature']:.3g}")
        self._program.set_content("")
        if answer["link"]:
            ui.navigate.history.replace(f"{_PATH}?s={answer['link']}")

    def _redraw(self, answer: Mapping[str, Any]) -> None:
        """Draw again what can be typed into."""
        self._wrong = set()
        state, spec = answer["state"], answer["spec"]
        heads = {"query": spec["num_heads"], "key": spec["num_key_value_heads"], "value": spec["num_key_value_heads"]}
        parts = [editable_html("x", state["x"], tokens=state["tokens"])]
        parts += [editable_html(name, state["projections"][name], heads=heads.get(name, 1)) for name in answer["used"]]
        self._inputs.set_content("".join(parts))
        handle = partial(guarded, self.frame)
        self._sizes.clear()
        with self._sizes:
            entry("tokens", str(len(state["tokens"])), handle(lambda text: self._resize(tokens=text)), whole=True)
            entry("width of x", str(len(state["x"][0])), handle(lambda text: self._resize(width=text)), whole=True)
        self._sliders.clear()
        with self._sliders:
            scaled, heated = (handle(partial(self._sharpen, field)) for field in ("scale", "temperature"))
            self._scale_shown = slider("scale of the scores", 0.05, 3, 0.05, state["scale"], scaled)
            self._temperature_shown = slider("temperature", 0.1, 5, 0.1, state["temperature"], heated)
        self._draw_spec(spec)


# The form of a specification, drawn from its description (`work/playground.py`): a new field or kind needs nothing here


Changed = Callable[[str, Any], Awaitable[None]]

_OPEN = "not set"
_MOST = 1_000_000


class SpecForm:
    """The fields of a specification; every change is reported as (field, new value), a part as its whole mapping."""

    def __init__(self, fields: Sequence[Mapping[str, Any]], changed: Changed) -> None:
        self._fields, self._changed = fields, changed
        self._place = ui.element("div").classes("fields")

    def draw(self, values: Mapping[str, Any]) -> None:
        """Draw the form anew with these values."""
        self._place.clear()
        with self._place:
            for field in self._fields:
                self._draw(field, values.get(field["name"]))

    def _draw(self, field: Mapping[str, Any], value: Any) -> None:
        name = field["name"]

        async def tell(new: Any) -> None:
            await self._changed(name, new)

        if field["type"] == "part":
            self._draw_part(field, value, tell)
        elif field["type"] == "group":
            self._draw_fields(field["fields"], value, tell)
        else:
            _control(field, value, tell)

    def _draw_part(self, field: Mapping[str, Any], value: Any, tell: Callable[[Any], Awaitable[None]]) -> None:
        kinds = {one["kind"]: one["kind"] for one in field["kinds"]}
        options = {"": _OPEN, **kinds} if field["optional"] else kinds
        now = value["kind"] if value else ""

        async def chosen(kind: str) -> None:
            await tell({"kind": kind} if kind else None)

        choice(field["label"], options, now, chosen)
        for one in field["kinds"]:
            if one["kind"] == now:
                self._draw_fields(one["fields"], value, tell)

    def _draw_fields(
        self, fields: Sequence[Mapping[str, Any]], value: Mapping[str, Any], tell: Callable[[Any], Awaitable[None]]
    ) -> None:
        for inner in fields:

            async def told(new: Any, name: str = inner["name"]) -> None:
                await tell({**value, name: new})

            _control(inner, value.get(inner["name"]), told)


def _control(field: Mapping[str, Any], value: Any, tell: Callable[[Any], Awaitable[None]]) -> None:
    """Draw the control of one field of plain values."""
    if field["type"] == "switch":

        async def switched(text: str) -> None:
            await tell(bool(text))

        switch(field["label"], bool(value), switched)
    elif field["type"] == "choice":
        choice(field["label"], field["words"], str(value), tell)
    else:

        async def typed(text: str) -> None:
            await tell(_read(field, text))

        hint = " or ".join(["a number", *field["words"]]) if field["words"] else ""
        shown = "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
        entry(field["label"], shown, typed, whole=field["type"] == "whole", hint=hint)


def _read(field: Mapping[str, Any], text: str) -> Any:
    plain = text.strip()
    if plain in field["words"]:
        return plain
    if not plain and field["optional"]:
        return None
    if field["type"] == "real":
        return read_number(plain)
    return read_whole(plain, field["label"], int(field.get("least", 0)), int(field.get("most", _MOST)))
