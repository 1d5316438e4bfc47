"""Scale: a form for a study over sizes that becomes a plan while it is filled in, and all studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from typing import Any

from nicegui import ui

from attnlab.errors import SpecError
from attnlab.experiments.request import ScaleRequest
from attnlab.studio.folders import STUDY
from attnlab.studio.frame import Frame, page
from attnlab.studio.parts.form import MOST_SEEDS, RECIPES, TOKENIZERS, ExperimentForm
from attnlab.studio.parts.listing import ExperimentList
from attnlab.studio.studio import Studio
from attnlab.studio.widgets import entry, heading, markup, switch

_LEAD = (
    "Train a baseline and its variants on a ladder of sizes: a verdict at every size, the trend over sizes, and a "
    "forecast for a larger model that says how far it was tested."
)
_CORPORA = {  # never a path
    "pydoc": "Python's documentation",
    "python": "source files of Python",
    "docstrings": "docstrings of the same files",
    "world": "a generated world of people and places",
    "kinship": "generated sentences about families",
}
_MOST_RUNGS = 8
_NOTHING = (
    "There are no studies here yet. Choose variants and sizes above and start one; it can be stopped at any time."
)


def register(studio: Studio) -> None:
    @page(studio, "/scale", "Scale")
    async def scale(frame: Frame) -> None:
        await ScalePage(frame, studio).build()


class ScalePage(ExperimentForm):
    """One visitor's form for a study, and all studies."""

    asks, task, what, lead = ScaleRequest, "plan_study", "study", _LEAD

    def __init__(self, frame: Frame, studio: Studio) -> None:
        super().__init__(frame, studio, {"variants": ("tied-kv",), "corpora": ("pydoc",)})

    async def build(self) -> None:
        await super().build()
        heading("Studies")
        await ExperimentList(self.frame, self.studio, _NOTHING, STUDY).build()

    def draw_form(self, known: Sequence[Mapping[str, str]]) -> None:
        self.variants(known)
        with ui.element("div").classes("fields"):
            self.pick("baseline", "against", [one["name"] for one in known])
            self.words("rungs", "sizes, ascending", hint="non-embedding parameters; three or more")
            self.real("tokens_per_parameter", "tokens per parameter")
            self.whole("seeds", "seeds", 2, MOST_SEEDS)
            entry("target", ScaleRequest().target, self.handle(self._aim), hint="as in gpt2 or 10M")
            self.real("hours", "hours", hint="empty: as long as it takes", optional=True)
        with ui.element("fieldset"):
            markup("Corpora", "legend")
            with ui.element("div").classes("checks"):
                for name, meaning in _CORPORA.items():
                    box = switch(name, name in self.fields["corpora"], self.handle(partial(self._read, name)))
                    box.props["title"] = meaning
        with ui.element("div").classes("fields"):
            self.pick("held_out", "held out", {"": "none", **{name: name for name in _CORPORA}}, hint="one of them")
        self.words("changes", "changes of all arms alike", hint="as in context_length=128", wide=True)
        with ui.element("details"):
            markup("How it is trained", "summary")
            with ui.element("div").classes("fields"):
                self.pick("recipe", "recipe", RECIPES)
                self.pick("tokenizer", "tokenizer", TOKENIZERS)
                self.whole("vocabulary_size", "vocabulary size", 1, 65_536, optional=True, hint="for bpe")
                self.whole("rate_rungs", "sizes to search rates on", 1, _MOST_RUNGS)
                self.whole("rate_count", "rates to begin with", 3, 15)
                self.whole("rate_seeds", "seeds of each rate", 1, MOST_SEEDS)
            self.yes("half_tokens", "also with half the tokens, to see what has settled")
        with ui.element("details"):
            markup("How it is judged", "summary")
            with ui.element("div").classes("fields"):
                self.real("margin", "margin", hint="a share of perplexity")
                self.real("alpha", "alpha")
                self.whole("first_seed", "first seed", 0, 1_000_000)

    # Actions

    async def _read(self, name: str, text: str) -> None:
        chosen = {*self.fields["corpora"], name} if text else {*self.fields["corpora"]} - {name}
        await self.set("corpora", tuple(one for one in _CORPORA if one in chosen))

    async def _aim(self, text: str) -> None:
        await self.set("target", text.strip())

    def request(self) -> Any:
        rungs = self.fields.get("rungs", ())
        if len(rungs) > _MOST_RUNGS:
            raise SpecError(f"{len(rungs)} sizes are too many for a page", hint=f"name up to {_MOST_RUNGS}")
        return super().request()

    def cost_html(self, found: Mapping[str, Any]) -> str:
        minutes = found["minutes"]
        time = f"{minutes:.1f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
        return (
            f"<b>{time}</b> for {found['runs']} runs and about {found['trials']} trials of learning rates, "
            f"{escape(found['flops'])} in all. It decides: {escape(found['decides'])}. At the largest size it can "
            f"detect a difference of <b>{escape(found['detectable'])}</b> of perplexity."
        )

    async def start(self) -> None:
        """Start what the plan comes to, so that hours reduce a study once and for all."""
        found = await self.plan()
        name = await self.studio.start_study(ScaleRequest(**found["request"]))
        ui.navigate.to(f"/scale/{name}")
