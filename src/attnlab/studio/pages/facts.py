"""Facts: the content of the store, page by page; search it, correct a fact or retract it, with undo."""

from __future__ import annotations

import getpass
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from html import escape
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from attnlab.studio.frame import Frame, guarded, page
from attnlab.studio.studio import Studio
from attnlab.studio.widgets import button, choice, entry, markup

_LEAD = (
    "What is looked up when a model does not know: every fact with who said it, when, and from what source. Nothing is "
    "deleted: a corrected or retracted fact stays in the file and is no longer used."
)
_NOTHING = (
    'There are no facts here yet. <a href="/ask">Ask</a> keeps what you tell it, and '
    "<code>attnlab knowledge facts import</code> reads files."
)
_KINDS = {"": "all facts", "told": "told by people"}
_MOST_TEXT = 500  # characters

Act = Callable[[], Awaitable[None]]


def register(studio: Studio) -> None:
    @page(studio, "/facts", "Facts", under="/ask")
    async def facts(frame: Frame, words: str = "", kind: str = "") -> None:
        await FactsPage(frame, studio).build(words, kind)


class FactsPage:
    """The page of the fact store for one visitor."""

    def __init__(self, frame: Frame, studio: Studio) -> None:
        self.frame, self.studio = frame, studio
        self.words, self.told = "", False
        self.who = getpass.getuser()
        self._starts: list[int | None] = [None]  # for each page up to this one: its facts have numbers below this
        self._shown: Mapping[str, Any] = {}
        self._open: int | None = None  # the fact that is being corrected

    async def build(self, words: str, kind: str) -> None:
        self.words, self.told = words[:_MOST_TEXT], kind == "told"
        markup(escape(_LEAD), "p").classes("lead")
        with ui.element("div").classes("row"):
            entry("search", self.words, self._handle(self._search), wide=True)
            choice("show", _KINDS, "told" if self.told else "", self._handle(self._choose))
            entry("who you are", self.who, self._handle(self._name))
            markup('<a href="/ask">Ask a model</a>', "p")
        self._undo = ui.element("div").classes("row middle").props("role=status")
        self._count = markup("", "p").classes("soft")
        self._list = ui.element("div")
        self._pager = ui.element("div").classes("row")
        await self._renew()

    def _handle(self, handler: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        return guarded(self.frame, handler)

    # Actions

    async def _search(self, text: str) -> None:
        self.words, self._starts = text[:_MOST_TEXT], [None]
        await self._renew()

    async def _choose(self, text: str) -> None:
        self.told, self._starts = bool(text), [None]
        await self._renew()

    async def _name(self, text: str) -> None:
        self.who = text.strip()[:_MOST_TEXT]

    async def _older(self) -> None:
        self._starts.append(self._shown["facts"][-1]["id"])
        await self._renew()

    async def _newer(self) -> None:
        self._starts.pop()
        await self._renew()

    async def _ask(self, task: str, **given: Any) -> dict[str, Any]:
        return await self.studio.desk.ask(task, runs=str(self.studio.runs), **given)

    async def _retract(self, fact: Mapping[str, Any]) -> None:
        await self._ask("retract_fact", number=fact["id"], who=self.who)

        async def back() -> None:
            await self._ask("restore_fact", number=fact["id"])

        await self._done(f"Fact {fact['id']} is retracted.", back)

    async def _restore(self, fact: Mapping[str, Any]) -> None:
        await self._ask("restore_fact", number=fact["id"])

        async def back() -> None:
            await self._ask("retract_fact", number=fact["id"], who=self.who)

        await self._done(f"Fact {fact['id']} is used again.", back)

    async def _correct(self, fact: Mapping[str, Any], told: Mapping[str, str]) -> None:
        found = await self._ask("correct_fact", number=fact["id"], who=self.who, **told)

        async def back() -> None:
            if not found["known"]:
                await self._ask("retract_fact", number=found["number"], who=self.who)
            await self._ask("restore_fact", number=fact["id"])

        self._open = None
        await self._done(f"Fact {fact['id']} is corrected by fact {found['number']}.", back)

    async def _done(self, words: str, back: Act) -> None:
        """Say what was done, and offer to take it back."""

        async def undo() -> None:
            await back()
            self._undo.clear()
            await self._renew()

        self._undo.clear()
        with self._undo:
            markup(escape(words), "span")
            button("Undo", self._handle(undo))
        await self._renew()

    async def _toggle(self, number: int) -> None:
        self._open = None if self._open == number else number
        self._draw()

    # Drawing

    async def _renew(self) -> None:
        below = {} if self._starts[-1] is None else {"before": self._starts[-1]}
        self._shown = await self._ask("facts", words=self.words, told=self.told, **below)
        said = {name: value for name, value in (("words", self.words), ("kind", "told" * self.told)) if value}
        ui.navigate.history.replace("/facts" + (f"?{urlencode(said)}" if said else ""))
        self._draw()

    def _draw(self) -> None:
        found = self._shown
        told = f", {found['told']:,} of them told by people" if found["told"] else ""
        self._count.set_content(f"{found['size']:,} {'fact' if found['size'] == 1 else 'facts'}{told}")
        self._list.clear()
        with self._list:
            if not found["size"]:
                markup(_NOTHING, "p").classes("empty")
            elif not found["facts"]:
                markup("No fact fits. Searching ignores case and accents.", "p").classes("empty")
            with ui.element("ul").classes("facts"):
                for fact in found["facts"]:
                    with ui.element("li"):
                        self._draw_fact(fact)
        self._pager.clear()
        with self._pager:
            if len(self._starts) > 1:
                button("Newer", self._handle(self._newer))
            if found["more"]:
                button("Older", self._handle(self._older))

    def _draw_fact(self, fact: Mapping[str, Any]) -> None:
        markup(_fact_html(fact))
        with ui.element("div").classes("row middle"):
            if fact["retracted_at"]:
                self._act("Restore", fact, partial(self._restore, fact))
                return
            self._act("Correct", fact, partial(self._toggle, fact["id"]))
            self._act("Retract", fact, partial(self._retract, fact))
        if self._open == fact["id"]:
            self._draw_correction(fact)

    def _act(self, label: str, fact: Mapping[str, Any], act: Act) -> None:
        """Draw a button, which says to a screen reader which fact it is for."""
        made = button(label, self._handle(act))
        made.props["aria-label"] = f"{label} fact {fact['id']}"

    def _draw_correction(self, fact: Mapping[str, Any]) -> None:
        told = {"answer": fact["answer"], "source": "told"}

        async def typed(field: str, text: str) -> None:
            told[field] = text[:_MOST_TEXT]

        with ui.element("div").classes("fields"):
            entry("the right answer", told["answer"], partial(typed, "answer"), event="input")
            entry("how you know it", told["source"], partial(typed, "source"), event="input")
        button("Keep the correction", self._handle(partial(self._correct, fact, told)), main=True)


def _fact_html(fact: Mapping[str, Any]) -> str:
    by = "told by" if fact["told"] else "imported by"
    lines = f"fact {fact['id']} · {fact['source']} · {by} {fact['who']}, {_when(fact['at'])}"
    gone = ""
    if fact["retracted_at"]:
        gone = f' <span class="bad">retracted by {escape(fact["retracted_by"])}, {_when(fact["retracted_at"])}</span>'
    tag = "s" if gone else "b"
    answer = f"<{tag}>{escape(fact['answer'])}</{tag}>"
    return f"<p>{escape(fact['question'])} {answer}{gone}<br><small>{escape(lines)}</small></p>"


def _when(at: str) -> str:
    return at[:16].replace("T", " ")
