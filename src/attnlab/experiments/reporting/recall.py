"""Associative recall with more and more pairs: how often each arm answers right, as a table, a page and CSV.

It is computed from the answers of the comparisons, which are kept, so that a ladder asked for again trains nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import plotly.graph_objects as go

from attnlab.experiments.reporting.answer import Answer
from attnlab.experiments.reporting.charts import scatter, series_style
from attnlab.formats import NOTHING, count, csv_text, percent
from attnlab.pages import Figure, Page, Points, Section, Table, new_figure

PAGE = "recall.html"
_HEIGHT = 420  # pixels
_LEARNED = 0.5  # of the queries that the baseline must answer right, or a rung shows no difference in recall
_COLUMNS = ("pairs", "arm", "seed", "outcome", "loss", "accuracy", "command")


@dataclass(frozen=True)
class RecallRung:
    """One number of pairs: the share of queries that each arm answers right, and its verdict by the loss."""

    pairs: int
    data: Mapping[str, Any]  # of the comparison

    @classmethod
    def of(cls, answer: Answer) -> RecallRung:
        return cls(int(answer.data["plan"]["request"]["corpus_options"]["pairs"]), answer.data)

    @property
    def baseline(self) -> str:
        return str(self.data["arms"][0]["name"])

    @property
    def arms(self) -> dict[str, list[float]]:
        """Return the accuracies of the seeds that finished, by arm; the baseline is the first."""
        return {
            arm["name"]: [run["measures"]["accuracy"] for run in arm["runs"] if "accuracy" in run["measures"]]
            for arm in self.data["arms"]
        }

    @property
    def verdicts(self) -> dict[str, str]:
        return {one["arm"]: one["verdict"] for one in self.data["verdicts"]}

    def right(self, name: str) -> str:
        """Return the mean share of queries that an arm answers right."""
        found = self.arms[name]
        return percent(fmean(found), 1) if found else NOTHING

    @property
    def is_learned(self) -> bool:
        """Return whether the baseline answers most queries right."""
        found = self.arms[self.baseline]
        return bool(found) and fmean(found) >= _LEARNED


def recall_table(rungs: Sequence[RecallRung]) -> Table:
    """Return a row for each arm: the share of queries answered right with each number of pairs."""
    rows = [(name, *(_cell(rung, name) for rung in rungs)) for name in rungs[0].arms]
    return Table(("variant", *(f"{rung.pairs} pairs" for rung in rungs)), rows)


def _cell(rung: RecallRung, name: str) -> str:
    verdict = rung.verdicts.get(name) if rung.is_learned else None
    return rung.right(name) if verdict is None else f"{rung.right(name)} {verdict}"


def recall_words(rungs: Sequence[RecallRung]) -> list[str]:
    """Return what the shares mean, and where the baseline itself has not learned the task."""
    runs = rungs[0].data["arms"][0]
    words = [
        f"The share of queries answered right on rows that were held back, at {count(runs['parameters'])} parameters "
        f"over {len(runs['runs'])} paired seeds; guessing among n pairs is right once in n times. Verdicts are by loss."
    ]
    for rung in rungs:
        if not rung.is_learned:
            words.append(
                f"With {rung.pairs} pairs {rung.baseline} itself answers {rung.right(rung.baseline)} of the queries. "
                "That is too little to compare recall, so no verdict is shown; more steps or a searched learning rate "
                "may help."
            )
    return words


def recall_page(rungs: Sequence[RecallRung]) -> Page:
    """Return the ladder as a page."""
    figure = Figure(_chart(rungs), "Lines are means, rings are single seeds.")
    return Page(
        title="Associative recall",
        lead="Keys with values come first, then every key again: how many values does each attention recall?",
        sections=[
            Section("Recall against the number of pairs", [figure, recall_table(rungs), Points(recall_words(rungs))]),
            Section("The comparisons", [_training_table(rungs)]),
        ],
    )


def _training_table(rungs: Sequence[RecallRung]) -> Table:
    rows = [
        (
            str(rung.pairs),
            str(rung.data["plan"]["context_length"]),
            f"{rung.data['plan']['steps']:,}",
            count(rung.data["plan"]["tokens"]),
            rung.data["plan"]["request"]["recipe"],
            Path(rung.data["folder"]).name,
        )
        for rung in rungs
    ]
    return Table(("pairs", "context", "steps", "tokens", "recipe", "folder"), rows, code_columns=(5,))


def _chart(rungs: Sequence[RecallRung]) -> go.Figure:
    figure = new_figure(x="pairs to remember", y="queries answered right", height=_HEIGHT)
    for number, name in enumerate(rungs[0].arms):
        colour, symbol, dash = series_style(number)
        found = [(rung.pairs, rung.arms[name]) for rung in rungs if rung.arms.get(name)]
        line = {"color": colour, "dash": dash}
        means = [
            (pairs, fmean(shares), f"{name}, {pairs} pairs: {percent(fmean(shares), 1)}") for pairs, shares in found
        ]
        seeds = [(pairs, share) for pairs, shares in found for share in shares]
        marker = {"color": colour, "symbol": symbol, "size": 9}
        figure.add_trace(scatter(means, mode="lines+markers", name=name, line=line, marker=marker))
        rings = {"color": colour, "symbol": "circle-open", "size": 6}
        figure.add_trace(scatter(seeds, marker=rings, showlegend=False, hoverinfo="skip"))
    pairs = [rung.pairs for rung in rungs]
    figure.update_xaxes(type="log", tickvals=pairs, ticktext=[str(one) for one in pairs])
    figure.update_yaxes(range=[-0.03, 1.03], tickformat=".0%")
    return figure


def recall_csv(rungs: Sequence[RecallRung]) -> str:
    """Return a table of all runs, a line for each."""
    rows: list[Sequence[object]] = [_COLUMNS]
    for rung in rungs:
        for arm in rung.data["arms"]:
            for run in arm["runs"]:
                own = [run[name] for name in ("seed", "outcome", "loss")]
                rows.append([rung.pairs, arm["name"], *own, run["measures"].get("accuracy"), run["command"]])
    return csv_text(rows)
