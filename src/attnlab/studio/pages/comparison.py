"""One comparison: its runs while they train, stop and resume, then the verdict and the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nicegui import ui

from attnlab.errors import AttnlabError
from attnlab.experiments.reporting.answer import TONES
from attnlab.formats import NOTHING
from attnlab.pages import Table, prose
from attnlab.studio.frame import Frame, guarded, page
from attnlab.studio.matrices import read_whole
from attnlab.studio.parts.watching import Watching
from attnlab.studio.studio import Studio
from attnlab.studio.widgets import button, entry, heading, markup, switch

_MOST_SEEDS = 64  # at once
_WORDS = {
    "starting": "It is starting.",
    "planning": "The plan is being made: steps are timed, and a pilot shows the noise where it is unknown.",
    "running": "It is running. This page may be closed; the comparison continues.",
    "finishing": "All runs have ended; the heads are being measured and the verdict is being written.",
    "stopped": "It was stopped. Nothing is lost: it resumes where it was.",
    "failed": "It ended before there was a plan.",
    "finished": "It has ended.",
}
_CHANGED = "Its answer was written by another version, or from files that have changed since. Resume computes it again."


def register(studio: Studio) -> None:
    def refuse(name: str) -> AttnlabError | None:
        if studio.has_comparison(name):
            return None
        return AttnlabError("there is no such comparison here", hint="Compare lists those there are")

    @page(studio, "/compare/{name}", "Comparison", under="/compare", refuse=refuse)
    async def comparison(frame: Frame, name: str) -> None:
        await ComparisonPage(frame, studio, name).build()


class ComparisonPage(Watching):
    """The page of a comparison for one visitor."""

    what, words = "comparison", _WORDS

    def __init__(self, frame: Frame, studio: Studio, name: str) -> None:
        super().__init__(frame, studio, name)
        self._every = False  # whether each run is drawn separately
        self._seeds = 4  # to add for another interim analysis

    async def build(self) -> None:
        found = await self.follow()
        self.draw_status()
        self._answer = markup("")
        self._report = ui.element("div")
        self._further = ui.element("div").classes("row")
        self._intervals = ui.element("div").classes("plot")
        heading("Loss")
        switch("every run by itself", self._every, guarded(self.frame, self._separate, keep=True))
        self._charts = ui.element("div").classes("plot")
        self._runs = markup("")
        self.draw_details(found, deletable="/" not in found["folder"])  # a comparison inside a study belongs to it
        self.begin(found)

    async def follow(self) -> dict[str, Any]:
        return await self.studio.follow(self.name, every=self._every)

    async def resume(self, add_seeds: int = 0) -> None:
        await self.studio.resume(self._last["folder"], add_seeds)

    def delete(self) -> None:
        self.studio.labels.delete(self._last["folder"])

    async def _read_seeds(self, text: str) -> None:
        self._seeds = read_whole(text, "the number of seeds", 1, _MOST_SEEDS)

    async def _add_seeds(self) -> None:
        await self.resume(self._seeds)
        await self.look()

    async def _separate(self, text: str) -> None:
        self._every = bool(text)
        await self.look()

    # Drawing

    def can_resume(self, found: Mapping[str, Any]) -> bool:
        return super().can_resume(found) or (found["status"] == "finished" and "answer" not in found)

    def status_html(self, found: Mapping[str, Any]) -> str:
        changed = found["status"] == "finished" and "answer" not in found
        return super().status_html(found) + (f'<p class="note">{_CHANGED}</p>' if changed else "")

    def progress(self, found: Mapping[str, Any]) -> list[str]:
        return [f"{found['ended']} of {found['total']} runs", found["speed"]]

    def show(self, found: Mapping[str, Any]) -> None:
        if found.get("curves"):
            self._draw_curves(found)
        self._report.clear()
        self._further.clear()
        if "answer" in found:
            self._draw_answer(found["answer"], found["looks_left"])

    def _draw_curves(self, found: Mapping[str, Any]) -> None:
        if "intervals" in found["charts"]:
            words = "differences to the baseline with their intervals"
            self.draw_chart(self._intervals, words, found["charts"]["intervals"])
        if "sizes" in found["charts"]:
            self.draw_chart(self._intervals, "differences against the size of the model", found["charts"]["sizes"])
        self.draw_chart(self._charts, "loss of every arm by step", found["charts"]["loss"])
        self._runs.set_content(_runs_html(found))

    def _draw_answer(self, answer: Mapping[str, Any], looks_left: int) -> None:
        self._answer.set_content(_answer_html(answer))
        with self._report:
            links = [f'<a href="/heads?comparison={self.name}">See its heads</a>']
            if answer["report"]:
                address = self.studio.report_address(self.name)
                links.insert(0, f'<a href="{address}" target="_blank" rel="noopener">Open the report</a>')
            markup(" · ".join(links), "p")
        with self._further:
            if looks_left > 0:
                entry("seeds to add", str(self._seeds), guarded(self.frame, self._read_seeds), whole=True)
                button("Add seeds for the next planned analysis", guarded(self.frame, self._add_seeds))


def _runs_html(found: Mapping[str, Any]) -> str:
    """Return a table with the last validation loss of every run: arms down, seeds across."""
    seeds = sorted({run["seed"] for run in found["curves"]})
    arms = list(dict.fromkeys(run["arm"] for run in found["curves"]))
    cells = {(run["arm"], run["seed"]): _last_of(run) for run in found["curves"]}
    rows = [[arm, *(cells.get((arm, seed), NOTHING) for seed in seeds)] for arm in arms]
    headings = ["validation loss", *(f"seed {seed}" for seed in seeds)]
    return Table(headings, rows).to_html()


def _last_of(run: Mapping[str, Any]) -> str:
    loss = f"{run['validation'][-1][1]:.4f}" if run["validation"] else "…"
    return loss if run["ended"] else f"{loss} at {run['step']}"


def _answer_html(answer: Mapping[str, Any]) -> str:
    first, *others = answer["first_lines"]
    lines = f"<p><b>{prose(first)}</b></p>" + "".join(f"<p>{prose(line)}</p>" for line in others)
    notes = "".join(f'<p class="soft">{prose(note)}</p>' for note in answer["notes"])
    table = Table(answer["headings"], answer["rows"], text_columns=(0, 1), tones=TONES)
    return f"{lines}{table.to_html()}{notes}"
