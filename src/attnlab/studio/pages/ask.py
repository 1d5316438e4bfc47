"""Ask: answers from memory, from the fact store, or none; teach facts, and see how reliable the confidence is."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from functools import partial
from html import escape
from typing import Any

from nicegui import ui

from attnlab.errors import AttnlabError
from attnlab.formats import percent
from attnlab.studio.frame import Frame, guarded, page, soon
from attnlab.studio.matrices import read_number
from attnlab.studio.parts.learning import LessonPart
from attnlab.studio.studio import Studio
from attnlab.studio.widgets import Canvas, button, choice, entry, heading, markup, slider

_LEAD = (
    "Ask a model that was finetuned on questions. It answers from memory if it is confident enough, else from the "
    "fact store with its source. Otherwise it says that it does not know, and you can tell it."
)
_NOTHING = (
    "There is no model to ask here yet. <code>attnlab knowledge demo</code> makes one in a few minutes, from a "
    "generated world; it appears here when it has been finetuned."
)
_RISKS = (0.01, 0.3, 0.01)
_TONES = {"recalled": "good", "looked up": "even", "unknown": "bad"}
_MOST_TEXT = 500  # characters


def register(studio: Studio) -> None:
    @page(studio, "/ask", "Ask")
    async def ask(frame: Frame, model: str = "") -> None:
        await AskPage(frame, studio).build(model)


class AskPage:
    """One visitor's conversation with a model."""

    def __init__(self, frame: Frame, studio: Studio) -> None:
        self.frame, self.studio = frame, studio
        self.model, self.question, self.risk = "", "", 0.05
        self.told: dict[str, str] = {}

    async def build(self, model: str) -> None:
        known = (await self.studio.desk.ask("models", runs=str(self.studio.runs)))["models"]
        markup(escape(_LEAD), "p").classes("lead")
        if not known:
            markup(_NOTHING, "p").classes("empty")
            return
        names = {one["name"]: one["words"] for one in known}
        self.model = model if model in names else known[0]["name"]
        with ui.element("div").classes("columns second-first"):
            with ui.element("div"):
                choice("model", names, self.model, guarded(self.frame, self._choose))
                self._risk_shown = slider(
                    "risk: the share of wrong answers that is accepted",
                    *_RISKS,
                    self.risk,
                    guarded(self.frame, self._dare),
                    event="change",
                )
                self._promise = markup("").props("role=status")
                heading("What it was asked before", 3)
                self._examples = ui.element("div")
            with ui.element("div"):
                self._entry = ui.element("div")
                self._type("")
                button("Ask", guarded(self.frame, self._ask), main=True)
                self._reply = markup("").props("role=status")
                self._teaching = ui.element("div")
                heading("What you told it", 3)
                markup('<a href="/facts?kind=told">All facts: who, when, and from what source</a>', "p")
                self._lesson = LessonPart(self.frame, self.studio)
        with ui.element("div").classes("row"):
            button("How far can it be trusted?", guarded(self.frame, self._trust))
        self._status = markup("").props("role=status")
        self._canvas = Canvas()
        soon(self.frame, self._renew)

    def _type(self, text: str) -> None:
        self.question = text
        self._entry.clear()
        with self._entry:
            box = entry("question", text, self._typed, event="input", wide=True)
            box.on("keydown.enter", guarded(self.frame, self._ask))

    async def _typed(self, text: str) -> None:
        self.question = text[:_MOST_TEXT]

    async def _choose(self, name: str) -> None:
        self.model = name
        self._canvas.clear()
        await self._renew()

    async def _dare(self, text: str) -> None:
        self.risk = read_number(text)
        await self._renew()

    async def _renew(self) -> None:
        """Show the threshold for this risk, and what it promises."""
        self._risk_shown.set_content(percent(self.risk))
        self._promise.set_content('<p class="soft">setting the threshold …</p>')
        self._lesson.choose(self.model)
        found = await self._ask_bench("promise", risk=self.risk)
        threshold = "never" if found["threshold"] is None else f"from {found['threshold']:.3g} on"
        self._promise.set_content(
            f"<p><b>It answers from memory {threshold}.</b> {escape(found['words'])}.</p>"
            f'<p class="soft">{escape(found["limits"])}.</p>'
        )
        self._examples.clear()
        with self._examples:
            for question in found["examples"]:
                button(question, guarded(self.frame, partial(self._ask_example, question)))
        await self._lesson.renew()

    async def _ask_example(self, question: str) -> None:
        self._type(question)
        await self._ask()

    async def _ask_bench(self, task: str, **given: Any) -> dict[str, Any]:
        owner = self.frame.owner(task)
        return await self.studio.bench.ask(task, owner=owner, runs=str(self.studio.runs), name=self.model, **given)

    async def _ask(self) -> None:
        if not self.question.strip():
            raise AttnlabError("the question is empty", hint="type a question, or choose one that was asked before")
        self._reply.set_content('<p class="soft">thinking …</p>')
        self._teaching.clear()
        try:
            found = await self._ask_bench("ask", question=self.question, risk=self.risk)
        except Exception:
            self._reply.set_content("")
            raise
        reply = found["reply"]
        self._reply.set_content(_reply_html(reply))
        if reply["origin"] == "unknown":
            with self._teaching:
                self._draw_teaching(reply["question"])

    def _draw_teaching(self, question: str) -> None:
        self.told = {"answer": "", "source": "told", "who": getpass.getuser()}
        heading("I know it", 3)
        with ui.element("div").classes("fields"):
            for field, label in (("answer", "the answer"), ("source", "how you know it"), ("who", "who you are")):
                entry(label, self.told[field], partial(self._telling, field), event="input")

        async def kept() -> None:
            found = await self._ask_bench("keep", question=question, **self.told)
            await self._ask()
            await self._lesson.renew()
            if found["others"]:
                self.frame.tell(f"kept beside what it contradicts: {'; '.join(found['others'])}")

        button("Keep it", guarded(self.frame, kept, keep=True))

    async def _telling(self, field: str, text: str) -> None:
        self.told = {**self.told, field: text[:_MOST_TEXT]}

    async def _trust(self) -> None:
        self._status.set_content('<p class="soft">asking the held-out questions, several times each …</p>')
        try:
            found = await self._ask_bench("trust", risk=self.risk)
        finally:
            self._status.set_content("")
        self._canvas.show(found["page"])


def _reply_html(reply: Mapping[str, Any]) -> str:
    tone = _TONES[reply["origin"]]
    if reply["answer"] is None:
        first = f'<p class="{tone}">I do not know.</p>'
    else:
        first = f'<p><span class="{tone}">{escape(reply["answer"])}</span> {escape(reply["origin"])}</p>'
    quotes = "".join(f"<li>{_evidence_html(one)}</li>" for one in reply["evidence"])
    threshold = "no threshold is safe" if reply["threshold"] is None else f"threshold {reply['threshold']:.2f}"
    memory = f"from memory: {reply['model_says'] or 'nothing'} (confidence {reply['confidence']:.2f}; {threshold})"
    notes = "".join(f"<li>note: {escape(note)}</li>" for note in reply["notes"])
    return f'{first}<ul class="points">{quotes}<li class="soft">{escape(memory)}</li>{notes}</ul>'


def _evidence_html(one: Mapping[str, Any]) -> str:
    origin = ", ".join(part for part in (one["source"], one.get("who"), one.get("at", "")[:10]) if part)
    return f"“{escape(one.get('quote') or one['answer'])}” ({escape(origin)})"
