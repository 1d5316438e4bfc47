"""A comparison for other programs and other places: JSON, CSV, a Markdown table, a notebook."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
from typing import Any

from attnlab.experiments.judging.trends import ArmTrend, arm_trends
from attnlab.experiments.reporting.notebook import forest
from attnlab.experiments.reporting.wording import HEADINGS, TEXT_COLUMNS, first_lines, notes, rows, verdict_sentences
from attnlab.experiments.results import ArmResult, Cell, Comparison, RungResult
from attnlab.pages import prose
from attnlab.storage.records import to_plain

_STYLE = {"better": "#2a9d76", "worse": "#d9730d", "unstable": "#d9730d", "equivalent": "#3d85c6"}


def to_dict(comparison: Comparison) -> dict[str, Any]:
    """Everything but training curves, as strict JSON can hold it."""
    data: dict[str, Any] = {
        "headline": first_lines(comparison)[0],
        "notes": list(notes(comparison)),
        "folder": str(comparison.path),
        "seconds": comparison.seconds,
        "looks": [dataclasses.asdict(look) for look in comparison.looks],
        "verdicts": [
            {
                **dataclasses.asdict(one),
                "percent": None if one.percent is None else dataclasses.asdict(one.percent),
                "worth": comparison.worth(one.arm),
            }
            for one in comparison.judgements
        ],
        "arms": [_arm(arm) for arm in comparison.arms],
        "rungs": [_rung(result) for result in comparison.lower],
        "trends": [_trend(one) for one in arm_trends(comparison)] if comparison.lower else [],
        "plan": comparison.plan.model_dump(mode="json"),
    }
    plain: dict[str, Any] = to_plain(data)
    return plain


def _rung(result: RungResult) -> dict[str, Any]:
    rung = result.rung
    return {
        "name": rung.name,
        "size": rung.size,
        "parameters": rung.parameters,
        "non_embedding": rung.non_embedding,
        "tokens": rung.tokens,
        "halved": rung.halved,
        "verdicts": [dataclasses.asdict(one) for one in result.judgements],
        "arms": [_arm(arm) for arm in result.arms],
    }


def _trend(one: ArmTrend) -> dict[str, Any]:
    return {
        "arm": one.arm,
        "trend": one.word,
        "nats_per_decade": None if one.trend is None else dataclasses.asdict(one.trend.per_decade),
        "p": None if one.trend is None else one.trend.p,
        "p_holm": one.p_holm,
        "settled": [{**dataclasses.asdict(found), "settled": found.settled} for found in one.settling],
    }


def _arm(arm: ArmResult) -> dict[str, Any]:
    return {
        "name": arm.name,
        "spec_hash": arm.arm.hash,
        "loss": arm.loss,
        "parameters": arm.arm.parameters,
        "training_flops": arm.arm.training_flops,
        "cache_bytes": arm.arm.cache_bytes,
        "tokens_per_second": arm.mean_of("tokens_per_second"),
        "peak_bytes": arm.mean_of("peak_bytes"),
        "runs": [_run(cell) for cell in arm.cells],
    }


def _run(cell: Cell) -> dict[str, Any]:
    fields = {field.name: getattr(cell, field.name) for field in dataclasses.fields(cell)}
    return {name: value for name, value in fields.items() if name not in {"arm", "training_curve"}}


def to_csv(comparison: Comparison) -> str:
    """One line for each run."""
    measures = sorted({name for arm in comparison.arms for cell in arm.cells for name in cell.measures})
    own = ("outcome", "loss", "seconds", "tokens_per_second", "peak_bytes", "weights_sha256", "message", "command")
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["arm", "size", "parameters", "tokens", "seed", "difference", "spec_hash", *own, "run", *measures])
    plan = comparison.plan
    sizes = [(result.arms, result.rung.tokens) for result in comparison.lower]
    for arms, tokens in (*sizes, (comparison.arms, plan.tokens)):
        theirs = {cell.seed: cell.loss for cell in arms[0].cells}
        for arm in arms:
            for cell in arm.cells:
                base = theirs[cell.seed]
                difference = None if cell.loss is None or base is None else cell.loss - base
                where = [arm.arm.run.size, arm.arm.parameters, tokens, cell.seed, difference, arm.arm.hash]
                values = [getattr(cell, name) for name in own]
                found = [cell.measures.get(name) for name in measures]
                lines.writerow([arm.name, *where, *values, cell.path.name, *found])
    return text.getvalue()


def to_markdown(comparison: Comparison) -> str:
    """The verdict and the table, to paste."""
    headings = [_cell(heading) for heading in HEADINGS]
    marks = [":--" if column in TEXT_COLUMNS else "--:" for column in range(len(headings))]
    found = [
        [f"**{_cell(word)}**" if column == 1 and place else _cell(word) for column, word in enumerate(row)]
        for place, row in enumerate(rows(comparison))
    ]
    table = "\n".join(f"| {' | '.join(line)} |" for line in (headings, marks, *found))
    return "\n\n".join([*first_lines(comparison), table, *notes(comparison)]) + "\n"


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("\\", "\\\\").replace("|", "\\|")


def repr_html(comparison: Comparison) -> str:
    """What a notebook shows: the verdict, a drawing of the differences and the table, without a script."""
    lines = "".join(f"<p style='max-width:50em;margin:.4em 0'>{prose(line)}</p>" for line in first_lines(comparison))
    head = "".join(f"<th style='{_alignment(column)}'>{_line(text)}</th>" for column, text in enumerate(HEADINGS))
    body = "".join(
        "<tr>" + "".join(_table_cell(column, text) for column, text in enumerate(row)) + "</tr>"
        for row in rows(comparison)
    )
    table = f"<table style='border-collapse:collapse'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    points = "".join(f"<li>{prose(line)}</li>" for line in (*verdict_sentences(comparison), *notes(comparison)))
    more = f"<details><summary>In words</summary><ul style='max-width:50em'>{points}</ul></details>"
    return f"<div>{lines}{forest(comparison)}<div style='overflow-x:auto'>{table}</div>{more}</div>"


def _table_cell(column: int, text: str) -> str:
    colour = _STYLE.get(text) if column == 1 else None
    style = _alignment(column) + (f";color:{colour};font-weight:600" if colour else "")
    return f"<td style='{style}'>{html.escape(text)}</td>"


def _alignment(column: int) -> str:
    return f"text-align:{'left' if column in TEXT_COLUMNS else 'right'};padding:.15em .6em;white-space:nowrap"


def _line(text: str) -> str:
    return html.escape(text).replace("\n", "<br>")
