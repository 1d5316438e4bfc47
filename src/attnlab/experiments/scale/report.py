"""The report of a study as one offline page, as data, and as a table of all runs."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnlab.experiments.judging.trends import RungDifference
from attnlab.experiments.reporting.exports import to_csv, to_dict
from attnlab.experiments.reporting.report import TONES
from attnlab.experiments.reporting.rung_charts import size_chart
from attnlab.experiments.reporting.rung_tables import SETTLING_HEADINGS, rung_headings, rung_rows, settling_rows
from attnlab.experiments.scale.charts import forecast_figures, rate_figures
from attnlab.experiments.scale.findings import ArmFinding, CorpusFindings, findings
from attnlab.experiments.scale.planning import StudyPlan
from attnlab.experiments.scale.study import Study
from attnlab.experiments.scale.wording import (
    BACKTEST_HEADINGS,
    EFFECT_HEADINGS,
    backtest_rows,
    effect_rows,
    forecast_words,
    headline,
    plan_rows,
)
from attnlab.pages import Details, Figure, Gallery, Note, Page, Part, Points, Section, Table, write_page
from attnlab.storage.files import write_whole
from attnlab.storage.records import to_plain

REPORT, TABLE, DATA = "report.html", "runs.csv", "scale.json"

_LIMITS = (
    "The verdict holds at the size, tokens and context that stand beside it, for this recipe and text.",
    "A trend is one straight line through a few small sizes; it does not show that the line continues.",
    "GPT-2 itself was trained with another context and tokenizer.",
)
_TESTED = (
    "A forecast one rung ahead was tested on the study's own rungs; its coverage stands beside it. "
    "Beyond that distance nothing was tested."
)
_UNTESTED = "With fewer than four rungs no forecast could be tested, not even one rung ahead: all are extrapolations."


def study_page(study: Study, found: Sequence[CorpusFindings]) -> Page:
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


def _corpus_sections(study: Study, found: CorpusFindings) -> list[Section]:
    comparison, name = found.study.comparison, found.study.corpus
    trends = [arm.trend for arm in found.arms]
    margin = comparison.plan.request.margin
    caption = (
        f"Below 0 is better than {comparison.baseline.name}. Bars are intervals over {len(comparison.seeds)} paired "
        f"seeds; the grey band is the margin of ±{100 * margin:g} %."
    )
    sizes: list[Part] = [
        Figure(size_chart(trends, comparison.baseline.name, comparison.plan.procedure.margin), caption),
        Table(rung_headings(trends), rung_rows(trends), tones=TONES),
    ]
    if settled := settling_rows(trends):
        words = "A difference has settled if twice the tokens move it by no more than the interval of its mean."
        sizes.append(Details("Settling", [words, Table(SETTLING_HEADINGS, settled, text_columns=(0, 1, 5))]))
    sections = [
        Section(f"{name}: difference against size", sizes),
        Section(f"{name}: forecast", _forecast_parts(study, found)),
    ]
    if not found.study.held_out and (figures := rate_figures(found)):
        words = (
            "Mean loss against learning rate, rings are single seeds, × diverged, the dotted line is the rate taken, "
            "dashes are the baseline. Seeds of the search are used nowhere else."
        )
        sections.append(Section(f"{name}: learning rates", [Gallery(figures, words)]))
    return sections


def _forecast_parts(study: Study, found: CorpusFindings) -> list[Part]:
    parts: list[Part] = [
        Note(forecast_words(found, study.target)),
        Table(EFFECT_HEADINGS, effect_rows(found)),
        "With N parameters and D tokens a variant equals the baseline with (effective size) · N parameters, or with "
        "(effective tokens) · D tokens, at the largest rung, by the law fitted to the baseline.",
        Gallery(
            forecast_figures(found),
            "Dots are measured, rings with half the tokens. Blue: forecast one rung ahead. Orange, dotted: "
            "extrapolation to the target, not a finding.",
        ),
    ]
    if found.backtest is not None:
        table = Table(BACKTEST_HEADINGS, backtest_rows(found.backtest))
        widened = f"Intervals are multiplied by {found.widening:.2f}, which the back-tests ask for."
        parts += ["How good are such forecasts?", table, widened]
    return parts


def to_data(study: Study, found: Sequence[CorpusFindings]) -> dict[str, Any]:
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
                "rates": [_point(point) for point in one.study.rates.points],
                "rate_laws": {arm: list(law) for arm, law in one.study.rates.laws.items()},
                "arms": [_arm(arm, one) for arm in one.arms],
                "backtest": None if one.backtest is None else dataclasses.asdict(one.backtest),
                "tested_distance": one.tested_distance,
                "widening": one.widening,
                "comparison": to_dict(one.study.comparison),
            }
            for one in found
        ],
    }
    plain: dict[str, Any] = to_plain(data)
    return plain


def plan_data(plan: StudyPlan) -> dict[str, Any]:
    """Return a study's plan as plain values."""
    data = {
        "request": plan.request.model_dump(mode="json"),
        "rungs": [dataclasses.asdict(rung) for rung in plan.rungs],
        "rate_hours": plan.rate_hours,
        "run_hours": plan.run_hours,
        "hours": plan.hours,
        "processes": plan.processes,
        "reductions": list(plan.reductions),
    }
    plain: dict[str, Any] = to_plain(data)
    return plain


def _point(point: Any) -> dict[str, Any]:
    fields = {name: getattr(point, name) for name in ("size", "parameters", "arm", "rate", "source")}
    return {**fields, "trials": [trial.model_dump() for trial in point.trials]}


def _arm(arm: ArmFinding, found: CorpusFindings) -> dict[str, Any]:
    return {
        "arm": arm.name,
        "trend": arm.trend.word,
        "nats_per_decade": None if arm.trend.trend is None else dataclasses.asdict(arm.trend.trend.per_decade),
        "p_holm": arm.trend.p_holm,
        "rungs": [_rung(rung) for rung in arm.trend.rungs],
        "settled": [{**dataclasses.asdict(one), "settled": one.settled} for one in arm.trend.settling],
        "next_rung": None if arm.next_rung is None else dataclasses.asdict(arm.next_rung),
        "target": None if arm.forecast is None else dataclasses.asdict(arm.forecast),
        "is_extrapolation": arm.forecast is not None and found.is_extrapolation(arm.forecast),
        "rate_dependence": None if arm.rates is None else dataclasses.asdict(arm.rates),
    }


def _rung(rung: RungDifference) -> dict[str, Any]:
    facts = {name: getattr(rung, name) for name in ("rung", "size", "parameters", "non_embedding", "tokens", "halved")}
    losses = {"baseline": rung.baseline, "arm_losses": rung.arm}
    return {**facts, **losses, **dataclasses.asdict(rung.judgement)}


def to_table(study: Study) -> str:
    """Return all runs of all corpora as one CSV."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    for number, one in enumerate(study.corpora):
        rows = list(csv.reader(io.StringIO(to_csv(one.comparison))))
        if number == 0:
            lines.writerow(["corpus", *rows[0]])
        lines.writerows([one.corpus, *row] for row in rows[1:])
    return text.getvalue()


def write_study(study: Study, report: Path | None = None, table: Path | None = None) -> tuple[Path, dict[str, Any]]:
    """Write page, table and data into the study's folder and where else they are wanted; return the page's path."""
    found = findings(study)
    folder = study.path / f"study-{study.request.hash[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    page, data = study_page(study, found), to_data(study, found)
    for path in (folder / REPORT, *([] if report is None else [report])):
        write_page(page, path)
    for path in (folder / TABLE, *([] if table is None else [table])):
        write_whole(path, to_table(study))
    write_whole(folder / DATA, json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n")
    return folder / REPORT, data
