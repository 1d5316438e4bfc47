"""Compare: a form that becomes a plan while it is filled in, and the comparisons that there are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from typing import Any

from markupsafe import Markup
from nicegui import ui

from attnlab.errors import AttnlabError
from attnlab.experiments.request import Request
from attnlab.pages import Table, Tone, prose
from attnlab.processes.async_child import WithdrawnError
from attnlab.studio.frame import Frame, guarded, page, soon
from attnlab.studio.matrices import read_number, read_whole
from attnlab.studio.studio import RUNNING, Studio
from attnlab.studio.widgets import (
    Field,
    button,
    changed_field,
    choice,
    entry,
    facts_html,
    heading,
    markup,
    switch,
)

_LEAD = (
    "Train a baseline and its variants over paired seeds, and judge them. The plan states beforehand how long it "
    "takes and which difference it can detect."
)
_SIZES = {
    "": "14k and 25k",
    **{name: name for name in ("25k", "55k", "100k", "250k", "500k", "1M", "pico", "nano", "micro", "mini")},
}  # larger ones are for the command line
_RECIPES = ("gpt2", "fast")
_CORPORA = ("pydoc", "world", "kinship", "mqar")  # never a path
_TOKENIZERS = ("char", "byte", "word", "bpe")
_MOST_SEEDS, _MOST_STEPS, _MOST_VARIANTS = 64, 20_000, 12
_MOST_TEXT = 400  # letters of the changes
_PATIENCE = 0.4  # seconds that a form must be left alone before it is planned
_REFRESH = 3.0  # seconds between two looks at the list
_TONES: dict[str, Tone] = {**dict.fromkeys(RUNNING, "even"), "finished": "good"}
_TONES |= dict.fromkeys(("stopped", "failed", "damaged"), "bad")
_NOTHING = "There are no comparisons here yet. Choose variants above and start one; it can be stopped at any time."


def register(studio: Studio) -> None:
    @page(studio, "/compare", "Compare")
    async def compare(frame: Frame) -> None:
        await ComparePage(frame, studio).build()


class ComparePage:
    """One visitor's form, with its plan."""

    def __init__(self, frame: Frame, studio: Studio) -> None:
        self.frame, self.studio = frame, studio
        self.fields: dict[str, Any] = {"variants": ("tied-kv",), "seeds": 8}
        self._turn = 0
        self._blamed: Field | None = None  # after whose change there was no plan
        self._words, self._archived = "", False
        self._shown: Sequence[Mapping[str, Any]] | None = None

    async def build(self) -> None:
        known = (await self.studio.desk.ask("variants"))["variants"]
        markup(escape(_LEAD), "p").classes("lead")
        with ui.element("div").classes("columns"):
            with ui.element("div"):
                self._draw_form(known)
            with ui.element("div"):
                heading("The plan")
                self._plan = markup("").props("aria-live=polite")
                with ui.element("div").classes("row"):
                    button("Start the comparison", guarded(self.frame, self._start), main=True)
        heading("Comparisons")
        with ui.element("div").classes("row"):
            entry("search", "", self._searched, event="input", wide=True)
            switch("archived ones too", self._archived, guarded(self.frame, self._unarchive))
            markup('<a href="/reports">Two reports side by side</a>', "p")
        self._list = markup("")
        self._deleted = ui.element("div")
        self._draw_deleted()
        await self._refresh()
        ui.timer(_REFRESH, self._refresh)
        soon(self.frame, self._replan)

    def _draw_form(self, known: Sequence[Mapping[str, str]]) -> None:
        handle = partial(guarded, self.frame, keep=True)
        names = [one["name"] for one in known]
        with ui.element("fieldset"):
            markup("Variants", "legend")
            with ui.element("div").classes("checks"):
                for one in known[1:]:
                    chosen = one["name"] in self.fields["variants"]
                    box = switch(one["name"], chosen, handle(lambda text, name=one["name"]: self._choose(name, text)))
                    box.props["title"] = one["meaning"]
        with ui.element("div").classes("fields"):
            choice("against", names, "softmax", handle(lambda text: self._set("baseline", text)))
            self._whole("seeds", "seeds", 2, _MOST_SEEDS)
            choice("size", _SIZES, "", handle(lambda text: self._set("size", text or None)))
            choice("recipe", _RECIPES, "gpt2", handle(lambda text: self._set("recipe", text)))
            choice("corpus", _CORPORA, "pydoc", handle(lambda text: self._set("corpus", text)))
            choice("tokenizer", _TOKENIZERS, "char", handle(lambda text: self._set("tokenizer", text)))
            self._whole("steps", "steps", 1, _MOST_STEPS, optional=True, hint="as the setting says")
            self._whole("vocabulary_size", "vocabulary size", 1, 65_536, optional=True, hint="for bpe and mqar")
        entry(
            "changes of all arms alike",
            "",
            handle(self._change_all),
            hint="as in position=rope batch_size=32",
            wide=True,
        )
        with ui.element("details"):
            markup("Over sizes", "summary")
            with ui.element("div").classes("fields"):
                entry("smaller sizes too", "", handle(self._set_rungs), hint="as in 14k 25k, each with all arms")
                self._real("tokens_per_parameter", "tokens per parameter", hint="empty: by steps", optional=True)
        with ui.element("details"):
            markup("How it is judged", "summary")
            with ui.element("div").classes("fields"):
                self._real("margin", "margin", hint="a share of perplexity")
                self._real("alpha", "alpha")
                self._whole("looks", "planned analyses", 1, 10)
                self._whole("first_seed", "first seed", 0, 1_000_000)
                matches = {"": "no", "parameters": "parameters", "flops": "flops", "cache": "cache"}
                choice("match", matches, "", handle(lambda text: self._set("match", text or None)))
                self._whole("tune", "rates to try", 0, 9)
                self._whole("pilot", "pilot seeds", 0, 16, optional=True, hint="as needed")

    def _whole(self, field: str, label: str, least: int, most: int, *, optional: bool = False, hint: str = "") -> None:
        async def typed(text: str) -> None:
            empty = optional and not text.strip()
            await self._set(field, None if empty else read_whole(text, label, least, most))

        value = self.fields.get(field, Request.model_fields[field].default)
        entry(label, "" if value is None else str(value), guarded(self.frame, typed, keep=True), whole=True, hint=hint)

    def _real(self, field: str, label: str, *, hint: str = "", optional: bool = False) -> None:
        async def typed(text: str) -> None:
            await self._set(field, None if optional and not text.strip() else read_number(text))

        value = Request.model_fields[field].default
        entry(label, "" if value is None else f"{value:g}", guarded(self.frame, typed, keep=True), hint=hint)

    # What happens

    async def _change_all(self, text: str) -> None:
        await self._set("changes", tuple(text[:_MOST_TEXT].replace(",", " ").split()))

    async def _set_rungs(self, text: str) -> None:
        await self._set("rungs", tuple(text[:_MOST_TEXT].replace(",", " ").split()))

    async def _choose(self, name: str, text: str) -> None:
        kept = [one for one in self.fields["variants"] if one != name]
        await self._set("variants", (*kept, name) if text else tuple(kept))

    async def _set(self, field: str, value: Any) -> None:
        self.fields = {**self.fields, field: value}
        await self._replan()

    def _request(self) -> Request:
        fields = {name: value for name, value in self.fields.items() if name != "size" or value}
        request = Request.with_variants_of(self.studio.settings.variants_from, **fields)
        if len(request.variants) > _MOST_VARIANTS:
            raise AttnlabError(
                f"{len(request.variants)} variants at once are too many for a page",
                hint=f"choose up to {_MOST_VARIANTS}, or use the command line",
            )
        return request

    async def _replan(self) -> None:
        """Plan what the form says, once it has not changed for a moment."""
        self._turn += 1
        turn = self._turn
        await asyncio.sleep(_PATIENCE)
        if turn != self._turn:
            return
        self._plan.set_content('<p class="soft">timing a few steps of each arm …</p>')
        try:
            request, owner = self._request().model_dump(mode="json"), self.frame.owner("plan")
            found = await self.studio.bench.ask("plan", owner=owner, request=request)
        except WithdrawnError:
            raise
        except AttnlabError:
            self._plan.set_content('<p class="soft">There is no plan for this.</p>')
            self._blamed = changed_field.get()
            raise
        if turn == self._turn:
            if self._blamed is not None:
                self._blamed.accept()
            self._plan.set_content(_plan_html(found))
            self.frame.tell(None)

    async def _start(self) -> None:
        name = await self.studio.start(self._request())
        ui.navigate.to(f"/compare/{name}")

    async def _searched(self, text: str) -> None:
        self._words = text.lower()
        self._draw_list()

    async def _unarchive(self, text: str) -> None:
        self._archived = bool(text)
        self._draw_list()

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
        with contextlib.suppress(AttnlabError):  # the next look may find what this one did not
            self._shown = await self.studio.comparisons()
            self._draw_list()

    def _draw_list(self) -> None:
        kept = [one for one in self._shown or [] if self._archived or not one["archived"]]
        found = [one for one in kept if self._words in _haystack(one)]
        found.sort(key=lambda one: not one["starred"])
        if not self._shown:
            self._list.set_content(f'<p class="empty">{escape(_NOTHING)}</p>')
        elif not found:
            self._list.set_content('<p class="empty">No comparison has these words.</p>')
        else:
            self._list.set_content(_list_html(found))


def _haystack(one: Mapping[str, Any]) -> str:
    fields = ("title", "own_title", "note", "folder", "setting", "status", "verdict")
    return " ".join(one[field] for field in fields).lower()


def _plan_html(found: Mapping[str, Any]) -> str:
    notes = "".join(f'<p class="note">{prose(note)}</p>' for note in found["notes"])
    first = (
        f"<p><b>{found['minutes']:.1f} minutes</b> for {found['runs']} runs; "
        f"can detect a difference of <b>{escape(found['detectable'])}</b> of perplexity.</p>"
    )
    return f"{first}{facts_html(found['rows'])}{notes}"


def _list_html(found: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [
            Markup('<a href="/compare/{}">{}{}</a><br><small>{}</small>').format(
                one["name"], "★ " if one["starred"] else "", one["title"], one["folder"].rpartition("-")[2]
            ),
            one["status"],
            one["setting"],
            one["made"][:16].replace("T", " "),
            one["verdict"],
        ]
        for one in found
    ]
    headings = ["comparison", "status", "setting", "planned", "answer"]
    return Table(headings, rows, text_columns=range(5), wrap_columns=(2, 4), tones=_TONES).to_html()
