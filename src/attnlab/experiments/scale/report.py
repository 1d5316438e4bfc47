"""The report of a study as one offline page, as data, and as a table of all runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from attnlab.experiments.numbers import percent, percent_text
from attnlab.experiments.reporting.charts import error_bars, scatter
from attnlab.experiments.reporting.curves import filled, rate_chart
from attnlab.experiments.reporting.exports import claims_data, run_rows, standpoints_of, to_dict, trend_data
from attnlab.experiments.reporting.report import RATES_CAPTION, RELY, claims_section, size_parts
from attnlab.experiments.reporting.wording import notes
from attnlab.experiments.scale.findings import (
    BACKTEST_HEADINGS,
    EFFECT_HEADINGS,
    ArmFinding,
    CorpusFindings,
    backtest_rows,
    effect_rows,
    findings,
    forecast_words,
    headline,
    plan_rows,
)
from attnlab.experiments.scale.record import DATA
from attnlab.experiments.scale.study import ScaleStudy, plan_data
from attnlab.formats import count, csv_text
from attnlab.pages import (
    BLUE,
    GREY,
    ORANGE,
    Figure,
    Gallery,
    Note,
    Page,
    Part,
    Points,
    Section,
    Table,
    new_figure,
    write_page,
)
from attnlab.storage.files import write_whole
from attnlab.storage.records import to_plain

REPORT, TABLE = "report.html", "runs.csv"

_LIMITS = (
    "The verdict holds at the size, tokens and context that stand beside it, for this recipe and text.",
    "A trend is one straight line through a few small sizes; it does not show that the line continues.",
    "GPT-2 itself was trained with another context and tokenizer.",
)
_HEIGHT = 260  # pixels
_NEAR, _FAR = "rgba(61,133,198,0.30)", "rgba(217,115,13,0.13)"  # BLUE within what was tested, ORANGE beyond
_TESTED = (
    "A forecast one rung ahead was tested on the study's own rungs; its coverage stands beside it. "
    "Beyond that distance nothing was tested."
)
_UNTESTED = "With fewer than four rungs no forecast could be tested, not even one rung ahead: all are extrapolations."


def study_page(study: ScaleStudy, found: Sequence[CorpusFindings]) -> Page:
    """Return the whole report."""
    sections = [section for one in found for section in _corpus_sections(study, one)]
    forecasts = _TESTED if all(one.backtest is not None for one in found) else _UNTESTED
    sections.append(Section("What may be concluded", [Points([*_LIMITS, forecasts])]))
    rows = plan_rows(study.plan)
    sections.append(Section("The plan", [Table(("", ""), rows, text_columns=(0, 1), wrap_columns=(1,))]))
    variants = study.request.variants
    title = (
        f"{variants[0] if len(variants) == 1 else f'{len(variants)} variants'} over {len(study.request.rungs)} sizes"
    )
    return Page(title=title, lead=" ".join(headline(study, one) for one in found), sections=sections)


def _corpus_sections(study: ScaleStudy, found: CorpusFindings) -> list[Section]:
    comparison, name = found.study.comparison, found.study.corpus
    sizes = size_parts(comparison, [arm.trend for arm in found.arms])
    sections = [
        Section(f"{name}: difference against size", [*sizes, RELY, Points(notes(comparison))]),
        Section(f"{name}: forecast", _forecast_parts(study, found)),
    ]
    if standpoints := standpoints_of(comparison):
        sections.append(Section(f"{name}: published claims", claims_section(standpoints).content))
    if not found.study.held_out and (figures := _rate_figures(found)):
        caption = RATES_CAPTION.format(comparison.baseline.name)
        sections.append(Section(f"{name}: learning rates", [Gallery(figures, caption)]))
    return sections


def _rate_figures(found: CorpusFindings) -> list[Figure]:
    """Draw loss against learning rate for every arm and rung that was searched or verified."""
    baseline = found.study.comparison.baseline.name
    points = [one for one in found.study.rates.points if one.trials]
    theirs = {one.size: one.trials for one in points if one.arm == baseline}
    return [
        Figure(
            rate_chart(one.trials, one.rate, theirs.get(one.size, ()) if one.arm != baseline else ()),
            f"{one.arm} at {one.size}",
        )
        for one in points
    ]


def _forecast_parts(study: ScaleStudy, found: CorpusFindings) -> list[Part]:
    parts: list[Part] = [
        Note(forecast_words(found, study.target)),
        Table(EFFECT_HEADINGS, effect_rows(found)),
        "With N parameters and D tokens a variant equals the baseline with (effective size) · N parameters, or with "
        "(effective tokens) · D tokens, at the largest rung, by the law fitted to the baseline.",
        Gallery(
            [Figure(_forecast_chart(arm), arm.name) for arm in found.arms],
            "Dots are measured, rings with half the tokens. Blue: forecast one rung ahead. Orange, dotted: "
            "extrapolation to the target, not a finding.",
        ),
    ]
    if found.backtest is not None:
        table = Table(BACKTEST_HEADINGS, backtest_rows(found.backtest))
        widened = f"Intervals are multiplied by {found.widening:.2f}, which the back-tests ask for."
        parts += ["How good are such forecasts?", table, widened]
    return parts


def _forecast_chart(arm: ArmFinding) -> go.Figure:
    """Draw what was measured, the forecast one rung ahead, and the extrapolation to the target, dotted."""
    figure = new_figure(x="non-embedding parameters", y="perplexity (%)", height=_HEIGHT)
    measured = [(one, found) for one in arm.trend.rungs if (found := one.judgement.percent) is not None]
    whole = [(one.rung.non_embedding, found) for one, found in measured if not one.rung.halved]
    for forecast, colour, band, dash in ((arm.forecast, ORANGE, _FAR, "dot"), (arm.next_rung, BLUE, _NEAR, "dash")):
        if forecast is None or not whole:
            continue
        size, last = whole[-1]
        x = [size, forecast.target_size]
        low, mean, high = (percent(value) for value in (forecast.low, forecast.mean, forecast.high))
        line = {"color": colour, "dash": dash, "width": 2}
        figure.add_trace(filled(x, [last.low, low], [last.high, high], band))
        figure.add_trace(scatter([(size, last.mean), (x[1], mean)], mode="lines", line=line, hoverinfo="skip"))
    for halved, symbol, colour in ((True, "circle-open", GREY), (False, "circle", BLUE)):
        drawn = [(one, found) for one, found in measured if one.rung.halved is halved]
        words = [
            f"{one.rung.name}: {percent_text(one.judgement.mean)}, {count(one.rung.tokens)} tokens" for one, _ in drawn
        ]
        figure.add_trace(
            scatter(
                [(one.rung.non_embedding, at.mean, text) for (one, at), text in zip(drawn, words, strict=True)],
                error_y=error_bars([found for _, found in drawn], thickness=1.5, width=4, color=colour),
                marker={"symbol": symbol, "color": colour, "size": 8},
            )
        )
    figure.add_hline(y=0, line_width=1.5, layer="below")
    figure.update_xaxes(type="log", exponentformat="SI", nticks=5, tickangle=0)
    figure.update_layout(showlegend=False)
    return figure


def to_data(study: ScaleStudy, found: Sequence[CorpusFindings]) -> dict[str, Any]:
    """Return everything as strict JSON can hold it."""
    data = {
        "plan": plan_data(study.plan),
        "folder": str(study.path),
        "target": study.target,
        "corpora": [
            {
                "corpus": one.study.corpus,
                "held_out": one.study.held_out,
                "headline": headline(study, one),
                "rates": [
                    {**vars(point), "trials": [trial.model_dump() for trial in point.trials]}
                    for point in one.study.rates.points
                ],
                "rate_laws": one.study.rates.laws,
                "arms": [_arm(arm, one) for arm in one.arms],
                "backtest": one.backtest,
                "tested_distance": one.tested_distance,
                "widening": one.widening,
                "claims": claims_data(standpoints_of(one.study.comparison)),
                "comparison": to_dict(one.study.comparison),
            }
            for one in found
        ],
    }
    plain: dict[str, Any] = to_plain(data)
    return plain


def _arm(arm: ArmFinding, found: CorpusFindings) -> Mapping[str, object]:
    trend = {name: value for name, value in trend_data(arm.trend).items() if name != "p"}
    return {
        **trend,
        "rungs": [
            {
                "rung": one.rung.name,
                **one.rung.model_dump(exclude={"name", "arms", "procedure"}),
                "baseline": one.baseline,
                "arm_losses": one.arm,
                **vars(one.judgement),
            }
            for one in arm.trend.rungs
        ],
        "next_rung": arm.next_rung,
        "target": arm.forecast,
        "is_extrapolation": arm.forecast is not None and found.is_extrapolation(arm.forecast),
        "rate_dependence": arm.rates,
    }


def to_table(study: ScaleStudy) -> str:
    """Return all runs of all corpora as one CSV."""
    tables = {one.corpus: list(run_rows(one.comparison)) for one in study.corpora}
    headings = next(iter(tables.values()))[0]
    rows = ([corpus, *row] for corpus, table in tables.items() for row in table[1:])
    return csv_text([["corpus", *headings], *rows])


def write_study(
    study: ScaleStudy, report: Path | None = None, table: Path | None = None
) -> tuple[Path, dict[str, Any]]:
    """Write page, table and data into the study's folder and where else they are wanted; return the page's path."""
    found = findings(study)
    folder = study.path / study.request.report_folder
    folder.mkdir(parents=True, exist_ok=True)
    page, data = study_page(study, found), to_data(study, found)
    for path in (folder / REPORT, *([] if report is None else [report])):
        write_page(page, path)
    for path in (folder / TABLE, *([] if table is None else [table])):
        write_whole(path, to_table(study))
    write_whole(folder / DATA, json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n")
    return folder / REPORT, data
