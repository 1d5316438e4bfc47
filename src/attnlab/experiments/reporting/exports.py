"""A comparison for other programs and places: JSON, CSV, a Markdown table, a notebook, and the answer that is kept."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attnlab.experiments.judging.claims import Standpoint, judge_claims, published_claims
from attnlab.experiments.judging.judgement import Judgement
from attnlab.experiments.judging.trends import ArmTrend, arm_trends
from attnlab.experiments.numbers import percent_text
from attnlab.experiments.receipt import RECEIPT, make_receipt
from attnlab.experiments.reporting.answer import Answer, save
from attnlab.experiments.reporting.charts import DifferenceAxis
from attnlab.experiments.reporting.report import comparison_page
from attnlab.experiments.reporting.tables import HEADINGS, rows, verdict_table
from attnlab.experiments.reporting.wording import first_lines, notes, row_words, verdict_sentences
from attnlab.experiments.request import sha256_of
from attnlab.experiments.results import LOOKS, ArmResult, Comparison, RungResult
from attnlab.formats import csv_text
from attnlab.pages import Page, prose, write_page
from attnlab.runs.directory import RESULT, RUN
from attnlab.storage.files import write_whole
from attnlab.storage.plans import PLAN
from attnlab.storage.records import to_plain, write_json

REPORT, TABLE = "report.html", "runs.csv"
_WIDTH, _NAMES, _ROW, _FOOT = 640, 190, 26, 34  # pixels


def conclude(comparison: Comparison, *, report: Path | None = None, csv: Path | None = None) -> Answer:
    """Write page, table and answer into the comparison's folder, and where else they are wanted."""
    receipt = make_receipt(comparison)
    write_json(comparison.path / RECEIPT, receipt)
    page = report_of(comparison)
    for path in (comparison.path / REPORT, *([] if report is None else [report])):
        write_page(page, path)
    for path in (comparison.path / TABLE, *([] if csv is None else [csv])):
        write_whole(path, to_csv(comparison))
    answer = answer_of(comparison, receipt["sha256"])
    save(answer, comparison.path)
    return answer


def report_of(comparison: Comparison) -> Page:
    """Return the report, with published claims where they are to be judged."""
    return comparison_page(comparison, standpoints_of(comparison))


def standpoints_of(comparison: Comparison) -> tuple[Standpoint, ...]:
    """Return what became of published claims, if they are to be judged."""
    return tuple(judge_claims(comparison, published_claims())) if comparison.plan.request.claims else ()


def claims_data(standpoints: Sequence[Standpoint]) -> list[Any]:
    """Return what became of claims for JSON."""
    plain: list[Any] = to_plain([one.model_dump() for one in standpoints])
    return plain


def answer_of(comparison: Comparison, receipt: str) -> Answer:
    """Return what the terminal shows of a comparison with this receipt."""
    standpoints = standpoints_of(comparison)
    data = to_dict(comparison)
    if standpoints:
        data["claims"] = claims_data(standpoints)
    return Answer(
        request_hash=comparison.plan.request.hash,
        folder=str(comparison.path),
        first_lines=first_lines(comparison),
        headings=HEADINGS,
        rows=tuple(rows(comparison)),
        notes=(row_words(comparison), *notes(comparison)),
        report=str(comparison.path / REPORT),
        python=comparison.plan.python,
        sources=comparison.plan.sources,
        markdown=to_markdown(comparison),
        claims=tuple(one.row for one in standpoints),
        data=data,
        records=_records(comparison),
        receipt=receipt,
    )


def _records(comparison: Comparison) -> dict[str, str]:
    """Return the files that the verdicts were computed from, relative to the comparison's folder, with their hashes."""
    runs = [run.path for rung in comparison.rungs for arm in rung.arms for run in arm.runs]
    files = [comparison.path / name for name in (PLAN, LOOKS)]
    files += [path / name for path in runs for name in (RUN, RESULT)]
    return {os.path.relpath(path, comparison.path): sha256_of(path) for path in files if path.is_file()}


def to_dict(comparison: Comparison) -> dict[str, Any]:
    """Return everything but training curves, as strict JSON can hold it."""
    data = {
        "headline": first_lines(comparison)[0],
        "notes": list(notes(comparison)),
        "folder": str(comparison.path),
        "seconds": comparison.seconds,
        "looks": comparison.looks,
        "verdicts": [
            {
                **vars(one),
                "percent": one.percent,
                "worth": comparison.worth(one.arm),
            }
            for one in comparison.judgements
        ],
        "arms": [_arm(arm) for arm in comparison.arms],
        "rungs": [_rung(result) for result in comparison.lower],
        "trends": [trend_data(one) for one in arm_trends(comparison)] if comparison.lower else [],
        "plan": comparison.plan.model_dump(mode="json"),
    }
    plain: dict[str, Any] = to_plain(data)
    return plain


def _rung(result: RungResult) -> Mapping[str, object]:
    return {
        **result.rung.model_dump(exclude={"arms", "procedure"}),
        "verdicts": result.judgements,
        "arms": [_arm(arm) for arm in result.arms],
    }


def trend_data(one: ArmTrend) -> Mapping[str, object]:
    """Return the trend of one arm for JSON."""
    return {
        "arm": one.arm,
        "trend": one.word,
        "nats_per_decade": None if one.trend is None else one.trend.per_decade,
        "p": None if one.trend is None else one.trend.p,
        "p_holm": one.p_holm,
        "settled": [{**vars(found), "settled": found.settled} for found in one.settling],
    }


def _arm(arm: ArmResult) -> Mapping[str, object]:
    return {
        "name": arm.name,
        "spec_hash": arm.arm.hash,
        "loss": arm.loss,
        "parameters": arm.arm.parameters,
        "training_flops": arm.arm.training_flops,
        "cache_bytes": arm.arm.cache_bytes,
        "tokens_per_second": arm.mean_of("tokens_per_second"),
        "peak_bytes": arm.mean_of("peak_bytes"),
        "runs": [
            {name: value for name, value in vars(run).items() if name not in {"arm", "training_curve"}}
            for run in arm.runs
        ],
    }


def to_csv(comparison: Comparison) -> str:
    """Return a table of all runs, a line for each."""
    return csv_text(run_rows(comparison))


def run_rows(comparison: Comparison) -> Iterator[list[object]]:
    """Yield the headings, and a row for each run."""
    measures = sorted({name for arm in comparison.arms for run in arm.runs for name in run.measures})
    own = ("outcome", "loss", "seconds", "tokens_per_second", "peak_bytes", "weights_sha256", "message", "command")
    yield ["arm", "size", "parameters", "tokens", "seed", "difference", "spec_hash", *own, "run", *measures]
    for result in comparison.rungs:
        theirs = result.arms[0].losses
        for arm in result.arms:
            for run in arm.runs:
                base = theirs[run.seed]
                difference = None if run.loss is None or base is None else run.loss - base
                where = [arm.arm.run.size, arm.arm.parameters, result.rung.tokens, run.seed, difference, arm.arm.hash]
                values = [getattr(run, name) for name in own]
                found = [run.measures.get(name) for name in measures]
                yield [arm.name, *where, *values, run.path.name, *found]


def to_markdown(comparison: Comparison) -> str:
    """Return the verdict and the table, to paste."""
    table = verdict_table(comparison).to_markdown()
    return "\n\n".join([*first_lines(comparison), table, *notes(comparison)]) + "\n"


def repr_html(comparison: Comparison) -> str:
    """Return what a notebook shows: the verdict, a drawing of the differences and the table, without a script."""
    lines = "".join(f"<p style='max-width:50em;margin:.4em 0'>{prose(line)}</p>" for line in first_lines(comparison))
    points = "".join(f"<li>{prose(line)}</li>" for line in (*verdict_sentences(comparison), *notes(comparison)))
    more = f"<details><summary>In words</summary><ul style='max-width:50em'>{points}</ul></details>"
    table = verdict_table(comparison).to_html(inline=True)
    return f"<div>{lines}{_forest(comparison)}{table}{more}</div>"


def _forest(comparison: Comparison) -> str:
    """Draw a row for each variant: its seeds as rings, its mean and interval, and the margin behind all.

    It is plain SVG, because a notebook that is not trusted runs no script, and in the colours of the page around it.
    """
    ordered = comparison.ranking
    axis = DifferenceAxis.of(ordered, comparison.plan.procedure.margin)
    low, high = axis.range()
    height = _ROW * len(ordered)

    def at(difference: float) -> float:
        return _NAMES + (axis.place(difference) - low) / (high - low) * (_WIDTH - _NAMES - 60)

    margin = comparison.plan.procedure.margin
    parts = [
        f"<rect x='{at(-margin):.1f}' y='0' width='{at(margin) - at(-margin):.1f}' height='{height}' fill='#7d8590' "
        "fill-opacity='.22'/>",
        f"<path d='M{at(0):.1f} 0V{height}' stroke='currentColor'/>",
        *(_row(one, number, at) for number, one in enumerate(ordered)),
        *(
            f"<text x='{_NAMES + (place - low) / (high - low) * (_WIDTH - _NAMES - 60):.1f}' y='{height + 14}' "
            f"text-anchor='middle'>{text}</text>"
            for place, text in axis.ticks()
        ),
        f"<text x='{_NAMES}' y='{height + 30}'>perplexity against {html.escape(comparison.baseline.name)}</text>",
    ]
    label = f"Paired differences to {comparison.baseline.name}"
    return (
        f"<svg viewBox='0 0 {_WIDTH} {height + _FOOT}' width='{_WIDTH}' role='img' aria-label='{html.escape(label)}' "
        f"style='max-width:100%;height:auto;font:12px sans-serif' fill='currentColor'>{''.join(parts)}</svg>"
    )


def _row(one: Judgement, number: int, at: Callable[[float], float]) -> str:
    middle = _ROW * number + _ROW / 2
    parts = [f"<text x='{_NAMES - 8}' y='{middle + 4}' text-anchor='end'>{html.escape(one.arm)}</text>"]
    parts += [
        f"<circle cx='{at(difference):.1f}' cy='{middle + 5}' r='2.5' fill='none' stroke='#7d8590'/>"
        for difference in one.differences
    ]
    words: str = one.verdict
    if one.mean is not None and one.low is not None and one.high is not None:
        parts.append(
            f"<path d='M{at(one.low):.1f} {middle - 3}H{at(one.high):.1f}' stroke='#3d85c6' stroke-width='2'/>"
        )
        x = at(one.mean)
        parts.append(f"<path d='M{x - 5:.1f} {middle - 3}l5 -5l5 5l-5 5z' fill='#3d85c6'/>")
        words = percent_text(one.mean)
    if one.diverged:
        words = f"{len(one.diverged)} diverged"
    parts.append(f"<text x='{_WIDTH}' y='{middle + 4}' text-anchor='end'>{html.escape(words)}</text>")
    return "".join(parts)
