"""One comparison: its runs while they train, stop and resume, then the verdict and the report."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from nicegui import ui

from attnlab.errors import AttnlabError
from attnlab.experiments.reporting.answer import TONES
from attnlab.formats import NOTHING, percent
from attnlab.pages import Table, prose
from attnlab.studio.frame import Frame, guarded, page
from attnlab.studio.matrices import read_whole
from attnlab.studio.studio import RUNNING, Studio
from attnlab.studio.widgets import Handler, area, button, entry, facts_html, heading, markup, switch

_REFRESH = 2.0  # seconds between two looks
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


class ComparisonPage:
    """One visitor who watches a comparison."""

    def __init__(self, frame: Frame, studio: Studio, name: str) -> None:
        self.frame, self.studio, self.name = frame, studio, name
        self._last: Mapping[str, Any] = {}
        self._drawn: dict[str, ui.plotly] = {}  # charts by their names
        self._every = False  # whether every run is drawn by itself
        self._seeds = 4  # to add for another look

    async def build(self) -> None:
        found = await self._follow()
        self._setting = markup("", "p").classes("soft")
        self._status = markup("").props("role=status")
        with ui.element("div").classes("row"):
            self._stop = button("Stop", guarded(self.frame, self._stopped))
            self._go_on = button("Resume", guarded(self.frame, self._start), main=True)
        self._answer = markup("")
        self._report = ui.element("div")
        self._further = ui.element("div").classes("row")
        self._intervals = ui.element("div").classes("plot")
        heading("Loss")
        switch("every run by itself", self._every, guarded(self.frame, self._separate, keep=True))
        self._charts = ui.element("div").classes("plot")
        self._runs = markup("")
        with ui.element("details"):
            markup("Title, note and marks", "summary")
            self._draw_label(found)
        with ui.element("details"):
            markup("The plan", "summary")
            self._plan = markup("")
        with ui.element("details"):
            markup("What it said", "summary")
            self._log = markup("")
        self._show(found)
        ui.timer(_REFRESH, self._refresh)

    def _draw_label(self, found: Mapping[str, Any]) -> None:
        """Draw what can be said about the comparison."""
        with ui.element("div").classes("fields"):
            entry("title", found["title"], self._labelling("title"))
            switch("starred", found["starred"], self._labelling("starred", bool))
            switch("archived: not in the lists", found["archived"], self._labelling("archived", bool))
        area("note", found["note"], self._labelling("note"), event="change")
        if "/" not in found["folder"]:  # one inside of a study belongs to it
            button("Delete", guarded(self.frame, self._delete))

    def _labelling(self, field: str, read: Callable[[str], Any] = str.strip) -> Handler:
        async def said(text: str) -> None:
            value = read(text)
            own = field == "title" and value == self._last["own_title"]
            self.studio.labels.change(self._last["folder"], **{field: "" if own else value})
            self._show(await self._follow())

        return guarded(self.frame, said)

    async def _delete(self) -> None:
        if self._last["status"] in RUNNING:
            raise AttnlabError("this comparison is running", hint="stop it first")
        self.studio.labels.delete(self._last["folder"])
        ui.navigate.to("/compare")

    async def _refresh(self) -> None:
        if self._last["status"] == "finished":
            return
        with contextlib.suppress(AttnlabError):  # the next look may find what this one did not
            self._show(await self._follow())

    async def _add_seeds(self, text: str) -> None:
        self._seeds = read_whole(text, "the number of seeds", 1, _MOST_SEEDS)

    async def _follow(self) -> dict[str, Any]:
        return await self.studio.follow(self.name, every=self._every)

    async def _stopped(self) -> None:
        await self.studio.desk.ask("stop", runs=str(self.studio.runs), name=self.name)
        self._show(await self._follow())

    async def _start(self, add_seeds: int = 0) -> None:
        await self.studio.resume(self._last["folder"], add_seeds)
        self._show(await self._follow())

    async def _separate(self, text: str) -> None:
        self._every = bool(text)
        self._show(await self._follow())

    # What is seen

    def _show(self, found: Mapping[str, Any]) -> None:
        if found["title"] != self._last.get("title"):
            self.frame.entitle(found["title"])
        lines = [escape(found[name]) for name in ("setting", "note") if found[name]]
        self._setting.set_content("<br>".join(lines))
        if self._last.get("status") in RUNNING and found["status"] == "finished":
            ui.run_javascript(f"tellVerdict({json.dumps(found['title'])}, {json.dumps(found['verdict'])})")
        self._last, status = found, found["status"]
        self._status.set_content(_status_html(found))
        self._stop.set_visibility(status in {"planning", "running"})
        self._go_on.set_visibility(status in {"stopped", "failed"} or (status == "finished" and "answer" not in found))
        self._log.set_content(f'<pre class="code" tabindex="0">{escape(found["log"])}</pre>')
        if "rows" in found:
            self._plan.set_content(facts_html(found["rows"]))
            self._draw_curves(found)
        self._report.clear()
        self._further.clear()
        if "answer" in found:
            self._draw_answer(found["answer"], found["looks_left"])

    def _draw_curves(self, found: Mapping[str, Any]) -> None:
        if not found.get("curves"):
            return
        if "intervals" in found["charts"]:
            words = "differences to the baseline with their intervals"
            self._draw_chart(self._intervals, words, found["charts"]["intervals"])
        if "sizes" in found["charts"]:
            self._draw_chart(self._intervals, "differences against the size of the model", found["charts"]["sizes"])
        self._draw_chart(self._charts, "loss of every arm by step", found["charts"]["loss"])
        self._runs.set_content(_runs_html(found))

    def _draw_chart(self, place: ui.element, words: str, figure: dict[str, Any]) -> None:
        """Draw a chart, or change it in place; `words` name it to those who do not see it."""
        if words in self._drawn:
            self._drawn[words].update_figure(figure)
            return
        with place:
            self._drawn[words] = ui.plotly(figure).classes("plot").props("role=img")
            self._drawn[words].props["aria-label"] = words

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
                entry("seeds to add", str(self._seeds), guarded(self.frame, self._add_seeds), whole=True)
                button("Add seeds for the next planned analysis", guarded(self.frame, lambda: self._start(self._seeds)))


def _status_html(found: Mapping[str, Any]) -> str:
    status = found["status"]
    words = f"<p>{_WORDS[status]}</p>"
    if status == "finished" and "answer" not in found:
        words += f'<p class="note">{_CHANGED}</p>'
    if status in {"stopped", "failed"} and "error:" in found["log"]:
        error = found["log"][found["log"].rindex("error:") :]
        words += f'<p class="error">{escape(error)}</p>'
    if status == "finished" or "share" not in found:
        return words
    parts = [f"{found['ended']} of {found['total']} runs", percent(found["share"])]
    parts += [part for part in (found["speed"], found["left"]) if part]
    bar = f'<progress max="1" value="{found["share"]:.4f}" aria-label="share of all steps that is done"></progress>'
    return f"{words}{bar}<p>{escape(' · '.join(parts))}</p>"


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
