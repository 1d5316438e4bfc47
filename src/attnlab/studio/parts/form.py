"""Fields that become a plan while they are filled in; errors are shown at the field that caused them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from typing import Any, ClassVar

from nicegui import ui

from attnlab.errors import AttnlabError
from attnlab.experiments.request import ExperimentRequest
from attnlab.pages import prose
from attnlab.processes.async_child import WithdrawnError
from attnlab.studio.frame import Frame, guarded, soon
from attnlab.studio.matrices import read_number, read_whole
from attnlab.studio.studio import Studio
from attnlab.studio.widgets import (
    Field,
    Handler,
    button,
    changed_field,
    choice,
    entry,
    facts_html,
    heading,
    markup,
    switch,
)

RECIPES = ("gpt2", "fast")
TOKENIZERS = ("char", "byte", "word", "bpe")
MOST_SEEDS = 64
_MOST_VARIANTS = 12
_MOST_TEXT = 400  # characters of several words
_LONGEST = 600.0  # seconds for a plan: reading a text for the first time, and timing every arm at every size
_PATIENCE = 0.4  # seconds without input before the plan is made


class ExperimentForm(ABC):
    """One visitor's request for a comparison or a study, with its plan."""

    asks: ClassVar[type[ExperimentRequest]]  # the request that the fields form
    task: ClassVar[str]  # the task of the bench that returns the plan
    what: ClassVar[str]  # what is started: a comparison or a study
    lead: ClassVar[str]

    def __init__(self, frame: Frame, studio: Studio, fields: Mapping[str, Any]) -> None:
        self.frame, self.studio = frame, studio
        self.fields = dict(fields)
        self._turn = 0
        self._blamed: Field | None = None  # the field whose change made planning fail

    async def build(self) -> None:
        """Draw the form, and beside it the plan."""
        known = (await self.studio.desk.ask("variants"))["variants"]
        markup(escape(self.lead), "p").classes("lead")
        with ui.element("div").classes("columns"):
            with ui.element("div"):
                self.draw_form(known)
            with ui.element("div"):
                heading("The plan")
                self._plan = markup("").props("aria-live=polite")
                with ui.element("div").classes("row"):
                    button(f"Start the {self.what}", guarded(self.frame, self.start), main=True)
        soon(self.frame, self.replan)

    @abstractmethod
    def draw_form(self, known: Sequence[Mapping[str, str]]) -> None:
        """Draw the fields; `known` are all variants."""

    @abstractmethod
    async def start(self) -> None:
        """Start what the form asks for, and show its page."""

    def handle(self, handler: Handler) -> Handler:
        return guarded(self.frame, handler, keep=True)

    # Fields

    def variants(self, known: Sequence[Mapping[str, str]]) -> None:
        """Draw a box for every variant but the usual baseline."""
        with ui.element("fieldset"):
            markup("Variants", "legend")
            with ui.element("div").classes("checks"):
                for one in known[1:]:
                    chosen = one["name"] in self.fields["variants"]
                    box = switch(one["name"], chosen, self.handle(partial(self._choose, one["name"])))
                    box.props["title"] = one["meaning"]

    def whole(self, field: str, label: str, least: int, most: int, *, optional: bool = False, hint: str = "") -> None:
        """Draw a field for a whole number."""

        async def typed(text: str) -> None:
            empty = optional and not text.strip()
            await self.set(field, None if empty else read_whole(text, label, least, most))

        value = self._value(field)
        entry(label, "" if value is None else str(value), self.handle(typed), whole=True, hint=hint)

    def real(self, field: str, label: str, *, hint: str = "", optional: bool = False) -> None:
        """Draw a field for any number."""

        async def typed(text: str) -> None:
            await self.set(field, None if optional and not text.strip() else read_number(text))

        value = self._value(field)
        entry(label, "" if value is None else f"{value:g}", self.handle(typed), hint=hint)

    def words(self, field: str, label: str, *, hint: str = "", wide: bool = False) -> None:
        """Draw a field for several words."""

        async def typed(text: str) -> None:
            await self.set(field, tuple(text[:_MOST_TEXT].replace(",", " ").split()))

        entry(label, " ".join(self._value(field)), self.handle(typed), hint=hint, wide=wide)

    def pick(self, field: str, label: str, options: Mapping[str, str] | Sequence[str], *, hint: str = "") -> None:
        """Draw a choice; the empty one means that nothing is said."""

        async def chosen(text: str) -> None:
            await self.set(field, text or None)

        choice(label, options, self._value(field) or "", self.handle(chosen), hint=hint)

    def yes(self, field: str, label: str) -> None:
        """Draw a switch."""

        async def changed(text: str) -> None:
            await self.set(field, bool(text))

        switch(label, bool(self._value(field)), self.handle(changed))

    def _value(self, field: str) -> Any:
        return self.fields.get(field, self.asks.model_fields[field].default)

    # Actions

    async def _choose(self, name: str, text: str) -> None:
        kept = [one for one in self.fields["variants"] if one != name]
        await self.set("variants", (*kept, name) if text else tuple(kept))

    async def set(self, field: str, value: Any) -> None:
        """Change a field, and plan anew."""
        self.fields = {**self.fields, field: value}
        await self.replan()

    def request(self) -> Any:
        """Return what the form asks for."""
        request = self.asks.with_variants_of(self.studio.settings.variants_from, **self.fields)
        if len(request.variants) > _MOST_VARIANTS:
            raise AttnlabError(
                f"{len(request.variants)} variants at once are too many for a page",
                hint=f"choose up to {_MOST_VARIANTS}, or use the command line",
            )
        return request

    async def plan(self) -> dict[str, Any]:
        """Return the plan of what the form says."""
        request, owner = self.request().model_dump(mode="json"), self.frame.owner("plan")
        return await self.studio.bench.ask(self.task, owner=owner, seconds=_LONGEST, request=request)

    async def replan(self) -> None:
        """Plan what the form says, once it has not changed for a moment."""
        self._turn += 1
        turn = self._turn
        await asyncio.sleep(_PATIENCE)
        if turn != self._turn:
            return
        self._plan.set_content('<p class="soft">timing a few steps of each arm …</p>')
        try:
            found = await self.plan()
        except WithdrawnError:
            raise
        except AttnlabError:
            self._plan.set_content('<p class="soft">There is no plan for this.</p>')
            self._blamed = changed_field.get()
            raise
        if turn == self._turn:
            if self._blamed is not None:
                self._blamed.accept()
            self._plan.set_content(f"<p>{self.cost_html(found)}</p>{facts_html(found['rows'])}{_notes_html(found)}")
            self.frame.tell(None)

    def cost_html(self, found: Mapping[str, Any]) -> str:
        """Return what the plan costs, and what it can show."""
        return (
            f"<b>{found['minutes']:.1f} minutes</b> for {found['runs']} runs; "
            f"can detect a difference of <b>{escape(found['detectable'])}</b> of perplexity."
        )


def _notes_html(found: Mapping[str, Any]) -> str:
    return "".join(f'<p class="note">{prose(note)}</p>' for note in found["notes"])
