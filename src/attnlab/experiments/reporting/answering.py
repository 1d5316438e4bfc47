"""From a comparison to its answer: the page, the table, the data, and the words for the terminal, all kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnlab.experiments.judging.claim_judging import Standpoint, judge_claims
from attnlab.experiments.judging.claims import published_claims
from attnlab.experiments.reporting import answer as answers
from attnlab.experiments.reporting.answer import Answer
from attnlab.experiments.reporting.exports import to_csv, to_dict, to_markdown
from attnlab.experiments.reporting.report import comparison_page
from attnlab.experiments.reporting.wording import HEADINGS, first_lines, notes, row_words, rows
from attnlab.experiments.results import Comparison
from attnlab.pages import write_page
from attnlab.storage.files import write_whole
from attnlab.storage.records import to_plain

REPORT = "report.html"


def conclude(comparison: Comparison, *, report: Path | None = None, csv: Path | None = None) -> Answer:
    """Write what came of a comparison into its folder, and where else it is wanted."""
    standpoints = judge_claims(comparison, published_claims()) if comparison.plan.request.claims else ()
    page = comparison_page(comparison, standpoints)
    own = comparison.path / REPORT
    for path in (own, *([] if report is None else [report])):
        write_page(page, path)
    for path in (comparison.path / "runs.csv", *([] if csv is None else [csv])):
        write_whole(path, to_csv(comparison))
    answer = Answer(
        request_hash=comparison.plan.request.hash,
        folder=str(comparison.path),
        first_lines=first_lines(comparison),
        headings=HEADINGS,
        rows=tuple(rows(comparison)),
        notes=(row_words(comparison), *notes(comparison)),
        report=str(own),
        python=comparison.plan.python,
        sources=comparison.plan.sources,
        markdown=to_markdown(comparison),
        claims=tuple((one.claim.statement, one.standing, one.found, one.claim.source) for one in standpoints),
        data=_data(comparison, standpoints),
    )
    answers.save(answer, comparison.path)
    return answer


def _data(comparison: Comparison, standpoints: tuple[Standpoint, ...]) -> dict[str, Any]:
    data = to_dict(comparison)
    if standpoints:
        data["claims"] = to_plain([standpoint.model_dump() for standpoint in standpoints])
    return data
