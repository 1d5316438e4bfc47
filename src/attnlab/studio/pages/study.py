"""One study over sizes while it runs: differences rung by rung, the search for rates, then verdicts and forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from nicegui import ui

from attnlab.errors import AttnlabError
from attnlab.experiments.reporting.answer import TONES
from attnlab.pages import Table, prose
from attnlab.studio.frame import Frame, page
from attnlab.studio.parts.watching import Watching
from attnlab.studio.studio import Studio
from attnlab.studio.widgets import heading, markup

_WORDS = {
    "starting": "It is starting: a few steps of every arm are timed at every size.",
    "running": "It is running. This page may be closed; the study continues.",
    "finishing": "All runs have ended; trends and forecasts are being computed and the report is being written.",
    "stopped": "It was stopped. Nothing is lost: it resumes where it was.",
    "finished": "It has ended.",
}
_SIZES = "Dots are means over the seeds that have ended, bars their intervals; the grey band is the margin."
_FORECAST = (
    "Solid: measured. Dashed: forecast within the distance that was back-tested. Dotted: extrapolation, which is no "
    "finding."
)
_RATES = "Loss against learning rate. Rings are seeds, crosses diverged; the dashed line is the baseline's."
_VERDICTS = ("variant", "size", "verdict", "Δ perplexity", "interval")
_TRENDS = ("variant", "trend over sizes", "one rung ahead", "at the target")


def register(studio: Studio) -> None:
    def refuse(name: str) -> AttnlabError | None:
        if studio.has_study(name):
            return None
        return AttnlabError("there is no such study here", hint="Scale lists those there are")

    @page(studio, "/scale/{name}", "Study", under="/scale", refuse=refuse)
    async def study(frame: Frame, name: str) -> None:
        await StudyPage(frame, studio, name).build()


class CorpusSection:
    """The part of the page for one corpus."""

    def __init__(self, one: Mapping[str, Any]) -> None:
        heading(f"{one['corpus']} (held out from every decision)" if one["held_out"] else one["corpus"])
        self.progress = markup("", "p").classes("soft")
        self.answer = markup("")
        self.measured = ui.element("div").classes("pair")
        self.ahead = ui.element("div").classes("plot")
        self.words = markup("")
        with ui.element("details") as details:
            if not one["total"]:  # so far there is only the search to show
                details.props("open")
            markup("Learning rates", "summary")
            markup(escape(_RATES), "p").classes("soft")
            self.rates = ui.element("div").classes("gallery")


class StudyPage(Watching):
    """The page of a study for one visitor."""

    what, words = "study", _WORDS

    async def build(self) -> None:
        found = await self.follow()
        self.draw_status()
        self._links = markup("", "p")
        self._sections = {one["corpus"]: CorpusSection(one) for one in found["corpora"]}
        self.draw_details(found)
        self.begin(found)

    async def follow(self) -> dict[str, Any]:
        return await self.studio.follow_study(self.name)

    async def resume(self) -> None:
        await self.studio.resume_study(self._last["folder"])

    def delete(self) -> None:
        self.studio.delete_study(self._last["folder"], self._last["sharing"])

    # Drawing

    def progress(self, found: Mapping[str, Any]) -> list[str]:
        return [found["phase"]]

    def show(self, found: Mapping[str, Any]) -> None:
        self._links.set_content(self._links_html(found))
        for one in found["corpora"]:
            self._draw_corpus(self._sections[one["corpus"]], one)

    def _links_html(self, found: Mapping[str, Any]) -> str:
        if not found["has_report"]:
            return ""
        part = "" if found["status"] == "finished" else " so far"
        report, table = self.studio.report_address(self.name), self.studio.table_address(self.name)
        return (
            f'<a href="{report}" target="_blank" rel="noopener">Open the report{part}</a> · '
            f'<a href="{table}" download="runs.csv">All runs as CSV</a>'
        )

    def _draw_corpus(self, section: CorpusSection, one: Mapping[str, Any]) -> None:
        section.progress.set_content(_progress_html(one))
        section.answer.set_content(_answer_html(one))
        charts, corpus = one["charts"], one["corpus"]
        if "sizes" in charts:
            words = f"{corpus}: differences against the size of the model"
            self.draw_chart(section.measured, words, charts["sizes"], _SIZES)
            words = f"{corpus}: differences to the baseline with their intervals"
            self.draw_chart(section.measured, words, charts["intervals"], "All differences with their intervals.")
        if "forecast" in charts:
            words = f"{corpus}: forecasts, and extrapolations to the target"
            self.draw_chart(section.ahead, words, charts["forecast"], _FORECAST)
            section.words.set_content(f'<p class="note">{prose(one["forecast_words"])}</p>')
        for rate in charts["rates"]:
            words = f"{corpus}: loss against learning rate, {rate['words']}"
            self.draw_chart(section.rates, words, rate["figure"], rate["words"])


def _progress_html(one: Mapping[str, Any]) -> str:
    """Return how far a corpus is, and the way to its comparison."""
    words = []
    if not one["held_out"]:
        of = f" of about {one['to_try']}" if one["to_try"] and not one["total"] else ""
        words.append(f"{one['tried']}{of} trials of learning rates")
    if one["total"]:
        words.append(f"{one['ended']} of {one['total']} runs")
    if one["comparison"]:
        words.append(f'<a href="/compare/{one["comparison"]}">curves and runs</a>')
        words.append(f'<a href="/heads?comparison={one["comparison"]}">heads</a>')
    return " · ".join(words) or "It has not begun."


def _answer_html(one: Mapping[str, Any]) -> str:
    """Return verdict and trend of a corpus that was judged."""
    if "headline" not in one:
        return ""
    verdicts = Table(_VERDICTS, one["verdicts"], text_columns=(0, 1, 2), tones=TONES)
    trends = Table(_TRENDS, one["trends"], text_columns=(0, 1, 2, 3), wrap_columns=(1, 2, 3))
    return f"<p><b>{prose(one['headline'])}</b></p>{verdicts.to_html()}{trends.to_html()}"
