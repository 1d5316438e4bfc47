"""Recompute every figure from the recorded losses, with the code that computed it, and compare."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attnlab.experiments.comparing import read_comparison
from attnlab.experiments.judging.collecting import collect_rung
from attnlab.experiments.planning.plan import Plan
from attnlab.experiments.receipt import RECEIPT, make_receipt
from attnlab.experiments.reporting.answer import ANSWER
from attnlab.experiments.reporting.exports import REPORT, TABLE, answer_of, report_of, to_csv
from attnlab.experiments.results import LOOKS, AnalysisLog, Comparison
from attnlab.pages import Page
from attnlab.pages.page import render
from attnlab.storage.files import hash_file
from attnlab.storage.records import read_json, to_plain
from attnlab.verification.checks import CheckList, MismatchError, UncheckedError

_PLACES = {"folder", "path", "report"}  # paths, which may have changed
_RELATIVE = 1e-9  # other versions of NumPy and SciPy may round differently
_MOST_NAMED = 5
_DRAWN_BY = re.compile(r"plotly\.js v[0-9.]+")


def check_figures(folder: Path, checks: CheckList, cache: Path | None = None, report: Path | None = None) -> None:
    """Compute everything that a comparison's folder says from its runs; `report` is a page elsewhere."""
    name = folder.name
    comparison: Comparison | None = None
    if (folder / RECEIPT).is_file():
        with checks.checking("receipt", name):
            _check_files(folder)
    with checks.checking("verdicts and figures", name):
        if not (folder / ANSWER).exists():
            raise UncheckedError(f"it has no {ANSWER}: it was not concluded, or that was removed")
        comparison = read_comparison(folder, cache=cache)
        receipt = make_receipt(comparison)
        answer = answer_of(comparison, receipt["sha256"])
        recorded = read_json(folder / ANSWER)["answer"]
        compare_data(recorded, to_plain({**vars(answer)}, nulls=True))
    if comparison is None:
        return
    with checks.checking("interim analyses", name):
        _check_analyses(comparison, cache)
    with checks.checking("receipt", name):
        compare_data(read_json(folder / RECEIPT), make_receipt(comparison))
    with checks.checking("table of runs", name):
        if (folder / TABLE).read_text(encoding="utf-8") != to_csv(comparison):
            raise MismatchError(f"{TABLE} is not the table of these runs")
    for path in (folder / REPORT, *([] if report is None else [report])):
        with checks.checking("report", path.name if path == report else name):
            check_page(path.read_text(encoding="utf-8"), report_of(comparison))


def _check_files(folder: Path) -> None:
    """Refuse files that were changed since the receipt was written, before those that are damaged are made anew."""
    runs = folder / Plan.load(folder).runs_folder
    for name, known in read_json(folder / RECEIPT)["files"].items():
        path = folder / name if name == LOOKS else runs / name
        if not path.is_file() or hash_file(path) != known:
            raise MismatchError(f"{name} was changed after the comparison ended, or is missing")


def _check_analyses(comparison: Comparison, cache: Path | None) -> None:
    """Judge every planned analysis again, with the seeds that it had."""
    plan, log = comparison.plan, AnalysisLog.load(comparison.path, comparison.plan)
    if log.analyses[0].seeds != plan.seeds or len(log.analyses) > plan.procedure.looks:
        raise MismatchError("the analyses are not those that were planned")
    for one in log.analyses:
        found = collect_rung(plan, plan.rungs[-1], comparison.path, one.seeds, cache).judgements
        if one.verdicts != {judgement.arm: judgement.verdict for judgement in found}:
            raise MismatchError(f"analysis {one.number} comes to other verdicts than recorded")


def compare_data(recorded: object, again: object) -> None:
    """Refuse data that differs from what comes out now; the first differences are named."""
    found = list(differences(recorded, again))
    if found:
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        raise MismatchError("; ".join(found[:_MOST_NAMED]) + more)


def differences(recorded: object, again: object, where: str = "") -> Iterator[str]:
    """Yield every place where two values of JSON differ by more than rounding."""
    if isinstance(recorded, Mapping) and isinstance(again, Mapping):
        for name in [*recorded, *(name for name in again if name not in recorded)]:
            place = f"{where}.{name}" if where else str(name)
            if name in recorded and name not in again:
                yield f"{place} is {_short(recorded[name])}, and nothing of this name comes out"
            elif name not in _PLACES:
                yield from differences(recorded.get(name), again[name], place)
    elif isinstance(recorded, list) and isinstance(again, list) and len(recorded) == len(again):
        for number, (one, other) in enumerate(zip(recorded, again, strict=True)):
            yield from differences(one, other, f"{where}[{number}]")
    elif not _is_same(recorded, again):
        yield f"{where} is {_short(recorded)}, and {_short(again)} comes out"


def _is_same(recorded: object, again: object) -> bool:
    numbers = [one for one in (recorded, again) if isinstance(one, int | float) and not isinstance(one, bool)]
    if len(numbers) == 2:
        return math.isclose(*numbers, rel_tol=_RELATIVE, abs_tol=_RELATIVE)
    return type(recorded) is type(again) and recorded == again


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"


def check_page(text: str, page: Page) -> None:
    """Refuse a page that differs from the one that is made now."""
    again = render(page)
    if text == again:
        return
    if {*_DRAWN_BY.findall(text)} != {*_DRAWN_BY.findall(again)}:
        raise UncheckedError("it was drawn by another version of plotly")
    ours, theirs = again.splitlines(), text.splitlines()
    line = next((number for number, pair in enumerate(zip(ours, theirs, strict=False), 1) if pair[0] != pair[1]), 0)
    raise MismatchError(f"the page differs from the one that these runs give, first in line {line or len(ours) + 1}")
