"""Compare: a form that becomes a plan while it is filled in, and all comparisons and studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

from attnlab.experiments.request import Request
from attnlab.studio.frame import Frame, page
from attnlab.studio.parts.form import MOST_SEEDS, RECIPES, TOKENIZERS, ExperimentForm
from attnlab.studio.parts.listing import ExperimentList
from attnlab.studio.studio import Studio
from attnlab.studio.widgets import heading, markup

_LEAD = (
    "Train a baseline and its variants over paired seeds, and judge them. The plan states beforehand how long it "
    "takes and which difference it can detect."
)
_SIZES = {
    "": "14k and 25k",
    **{name: name for name in ("25k", "55k", "100k", "250k", "500k", "1M", "pico", "nano", "micro", "mini")},
}  # larger ones are for the command line
_CORPORA = ("pydoc", "world", "kinship", "mqar")  # never a path
_MATCHES = {"": "no", "parameters": "parameters", "flops": "flops", "cache": "cache"}
_MOST_STEPS = 20_000
_NOTHING = "There are no comparisons here yet. Choose variants above and start one; it can be stopped at any time."


def register(studio: Studio) -> None:
    @page(studio, "/compare", "Compare")
    async def compare(frame: Frame) -> None:
        await ComparePage(frame, studio).build()


class ComparePage(ExperimentForm):
    """One visitor's form for a comparison, and all experiments."""

    asks, task, what, lead = Request, "plan", "comparison", _LEAD

    def __init__(self, frame: Frame, studio: Studio) -> None:
        super().__init__(frame, studio, {"variants": ("tied-kv",), "seeds": 8})

    async def build(self) -> None:
        await super().build()
        heading("Comparisons and studies")
        await ExperimentList(self.frame, self.studio, _NOTHING).build()

    def draw_form(self, known: Sequence[Mapping[str, str]]) -> None:
        self.variants(known)
        with ui.element("div").classes("fields"):
            self.pick("baseline", "against", [one["name"] for one in known])
            self.whole("seeds", "seeds", 2, MOST_SEEDS)
            self.pick("size", "size", _SIZES)
            self.pick("recipe", "recipe", RECIPES)
            self.pick("corpus", "corpus", _CORPORA)
            self.pick("tokenizer", "tokenizer", TOKENIZERS)
            self.whole("steps", "steps", 1, _MOST_STEPS, optional=True, hint="as the setting says")
            self.whole("vocabulary_size", "vocabulary size", 1, 65_536, optional=True, hint="for bpe and mqar")
        self.words("changes", "changes of all arms alike", hint="as in position=rope batch_size=32", wide=True)
        with ui.element("details"):
            markup("Over sizes", "summary")
            with ui.element("div").classes("fields"):
                self.words("rungs", "smaller sizes too", hint="as in 14k 25k, each with all arms")
                self.real("tokens_per_parameter", "tokens per parameter", hint="empty: 120, or by steps", optional=True)
            markup('For a trend over three sizes or more, <a href="/scale">plan a study</a>.', "p").classes("soft")
        with ui.element("details"):
            markup("How it is judged", "summary")
            with ui.element("div").classes("fields"):
                self.real("margin", "margin", hint="a share of perplexity")
                self.real("alpha", "alpha")
                self.whole("looks", "planned analyses", 1, 10)
                self.whole("first_seed", "first seed", 0, 1_000_000)
                self.pick("match", "match", _MATCHES)
                self.whole("tune", "rates to try", 0, 9)
                self.whole("pilot", "pilot seeds", 0, 16, optional=True, hint="as needed")

    def _value(self, field: str) -> Any:
        return None if field == "size" and "size" not in self.fields else super()._value(field)

    def request(self) -> Any:
        chosen = ("size", "tokens_per_parameter")  # by the request, where they are empty
        self.fields = {
            name: value for name, value in self.fields.items() if name not in chosen or value not in ("", None)
        }
        return super().request()

    async def start(self) -> None:
        name = await self.studio.start(self.request())
        ui.navigate.to(f"/compare/{name}")
