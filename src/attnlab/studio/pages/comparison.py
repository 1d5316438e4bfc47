"""One comparison: its runs while they train, stop and resume, then the verdict and the report."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from html import escape
from typing import Any

from nicegui import ui

from attnlab.errors import AttnlabError
from attnlab.experiments.reporting.answer import TONES
from attnlab.experiments.request import Request
from attnlab.formats import NOTHING, percent
from attnlab.pages import PALETTE, Table, new_figure, prose
from attnlab.pages.figures import CHART_CONFIG
from attnlab.studio.frame import Frame, guarded, page
from attnlab.studio.matrices import read_whole
from attnlab.studio.studio import Studio
from attnlab.studio.widgets import button, entry, facts_html, heading, markup

_REFRESH = 2.0  # seconds between two looks
_MOST_SEEDS = 64  # at once
_DASHES = ("solid", "dash", "dot", "dashdot")
_WORDS = {
    "starting": "It is starting.",
    "planning": "The plan is being made: steps are timed, and a pilot shows the noise where it is unknown.",
    "running": "It is running. This page may be closed; the comparison continues.",
    "stopped": "It was stopped. Nothing is lost: it resumes where it was.",
    "failed": "It ended before there was a plan.",
    "finished": "It has ended.",
}


def register(studio: Studio) -> None:
    @page(studio, "/compare/{name}", "Comparison", under="/compare")
    async def comparison(frame: Frame, name: str) -> None:
        await ComparisonPage(frame, studio, name).build()


class ComparisonPage:
    """One visitor who watches a comparison."""

    def __init__(self, frame: Frame, studio: Studio, name: str) -> None:
        self.frame, self.studio, self.name = frame, studio, name
        self._last: Mapping[str, Any] = {}
        self._chart: ui.plotly | None = None
        self._seeds = 4  # to add for another look

    async def build(self) -> None:
        found = await self.studio.follow(self.name)
        self._status = markup("").props("role=status")
        with ui.element("div").classes("row"):
            self._stop = button("Stop", guarded(self.frame, self._stopped))
            self._go_on = button("Resume", guarded(self.frame, self._start), main=True)
        self._answer = markup("")
        self._report = ui.element("div")
        self._further = ui.element("div").classes("row")
        heading("Loss")
        self._charts = ui.element("div").classes("plot")
        self._runs = markup("")
        with ui.element("details"):
            markup("The plan", "summary")
            self._plan = markup("")
        with ui.element("details"):
            markup("What it said", "summary")
            self._log = markup("")
        self._show(found)
        ui.timer(_REFRESH, self._refresh)

    async def _refresh(self) -> None:
        if self._last["status"] == "finished":
            return
        with contextlib.suppress(AttnlabError):  # the next look may find what this one did not
            self._show(await self.studio.follow(self.name))

    async def _add_seeds(self, text: str) -> None:
        self._seeds = read_whole(text, "the number of seeds", 1, _MOST_SEEDS)

    async def _stopped(self) -> None:
        await self.studio.desk.ask("stop", runs=str(self.studio.runs), name=self.name)
        self._show(await self.studio.follow(self.name))

    async def _start(self, add_seeds: int = 0) -> None:
        asked = self._last["asked"]
        if not asked:
            raise AttnlabError("what this comparison was asked is not known", hint="start it again from Compare")
        await self.studio.start(Request(**{**asked, "variants": tuple(asked["variants"])}), add_seeds)
        self._show(await self.studio.follow(self.name))

    # What is seen

    def _show(self, found: Mapping[str, Any]) -> None:
        if found["title"] != self._last.get("title"):
            self.frame.entitle(found["title"])
        self._last, status = found, found["status"]
        self._status.set_content(_status_html(found))
        self._stop.set_visibility(status in {"planning", "running"})
        self._go_on.set_visibility(status in {"stopped", "failed"})
        self._log.set_content(f'<pre class="code" tabindex="0">{escape(found["log"])}</pre>')
        if "rows" in found:
            self._plan.set_content(facts_html(found["rows"]))
            self._draw_curves(found)
        self._report.clear()
        self._further.clear()
        if "answer" in found:
            self._draw_answer(found["answer"], found["looks_left"])

    def _draw_curves(self, found: Mapping[str, Any]) -> None:
        if not found["curves"]:
            return
        figure = _figure(found)
        if self._chart is None:
            with self._charts:
                self._chart = ui.plotly(figure).classes("plot").props('role=img aria-label="loss of every run by step"')
        else:
            self._chart.update_figure(figure)
        self._runs.set_content(_runs_html(found))

    def _draw_answer(self, answer: Mapping[str, Any], looks_left: int) -> None:
        self._answer.set_content(_answer_html(answer))
        with self._report:
            if answer["report"]:
                address = self.studio.report_address(self.name)
                markup(f'<a href="{address}" target="_blank" rel="noopener">Open the report</a>', "p")
        with self._further:
            if looks_left > 0:
                entry("seeds to add", str(self._seeds), guarded(self.frame, self._add_seeds), whole=True)
                button("Add seeds for the next planned analysis", guarded(self.frame, lambda: self._start(self._seeds)))


def _status_html(found: Mapping[str, Any]) -> str:
    status = found["status"]
    words = f"<p>{_WORDS[status]}</p>"
    if status in {"stopped", "failed"} and "error:" in found["log"]:
        error = found["log"][found["log"].rindex("error:") :]
        words += f'<p class="error">{escape(error)}</p>'
    if status == "finished" or "share" not in found:
        return words
    parts = [f"{found['ended']} of {found['total']} runs", percent(found["share"])]
    parts += [part for part in (found["speed"], found["left"]) if part]
    bar = f'<progress max="1" value="{found["share"]:.4f}" aria-label="share of all steps that is done"></progress>'
    return f"{words}{bar}<p>{escape(' · '.join(parts))}</p>"


def _figure(found: Mapping[str, Any]) -> dict[str, Any]:
    """Draw every run by its arm's colour and dash: training as a faint line, validation with marks."""
    arms = list(dict.fromkeys(run["arm"] for run in found["curves"]))
    figure = new_figure(x="step", y="loss (nats)", height=340)
    named = set()
    for run in found["curves"]:
        turn, place = divmod(arms.index(run["arm"]), len(PALETTE))
        line = {"color": PALETTE[place], "dash": _DASHES[turn % len(_DASHES)], "width": 1.5}
        for kind, mode, opacity in (("training", "lines", 0.25), ("validation", "lines+markers", 0.9)):
            steps, losses = zip(*run[kind], strict=True) if run[kind] else ((), ())
            first = kind == "validation" and run["arm"] not in named and bool(steps)
            named |= {run["arm"]} if first else set()
            figure.add_scatter(
                x=steps,
                y=losses,
                mode=mode,
                name=run["arm"],
                legendgroup=run["arm"],
                showlegend=first,
                opacity=opacity,
                line=line,
                marker={"size": 5, "symbol": arms.index(run["arm"]) % 8},
                hovertemplate=f"{run['arm']} seed {run['seed']} %{{x}}: %{{y:.3f}}<extra></extra>",
            )
    return {**figure.to_plotly_json(), "config": CHART_CONFIG}


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
