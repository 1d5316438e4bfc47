"""Recompute the findings of a study over sizes: differences, trends, effective sizes, forecasts and back-tests.

The plan of the study, its times and its learning-rate trials are not checked, but taken as recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.experiments.comparing import read_comparison
from attnlab.experiments.planning.plan import Trial
from attnlab.experiments.request import ScaleRequest
from attnlab.experiments.scale.findings import findings
from attnlab.experiments.scale.rates import RatePoint, RateTable
from attnlab.experiments.scale.record import DATA
from attnlab.experiments.scale.report import REPORT, TABLE, study_page, to_data, to_table
from attnlab.experiments.scale.study import CorpusStudy, RungCost, ScaleStudy, StudyPlan, target_parameters
from attnlab.storage.records import read_json
from attnlab.verification.checks import CheckList, MismatchError
from attnlab.verification.figures import check_page, compare_data


def check_study(folder: Path, checks: CheckList, cache: Path | None = None) -> None:
    """Compute everything that the folder of a study's report says from its comparisons."""
    opened: list[ScaleStudy] = []
    with checks.checking("findings of the study", folder.name):
        recorded = read_json(folder / DATA)
        study = _read_study(folder, recorded, cache)
        if folder.name != study.request.report_folder:
            raise MismatchError(f"the report of this request lies in {study.request.report_folder}")
        compare_data(recorded, to_data(study, findings(study)))
        opened.append(study)
    for study in opened:
        with checks.checking("table of runs", folder.name):
            if (folder / TABLE).read_text(encoding="utf-8") != to_table(study):
                raise MismatchError(f"{TABLE} is not the table of these runs")
        with checks.checking("report", folder.name):
            check_page((folder / REPORT).read_text(encoding="utf-8"), study_page(study, findings(study)))


def _read_study(folder: Path, recorded: Mapping[str, Any], cache: Path | None) -> ScaleStudy:
    plan = recorded["plan"]
    request = ScaleRequest(**plan["request"])
    costs = tuple(
        RungCost(**{**one, **{name: tuple(one[name]) for name in ("arms", "seconds", "flops")}})
        for one in plan["rungs"]
    )
    hours = plan["rate_hours"], plan["run_hours"]
    made = StudyPlan(request, request, costs, *hours, plan["processes"], tuple(plan["reductions"]))
    corpora = []
    for one in recorded["corpora"]:
        rates = _rates(one)
        asked = request.comparison(one["corpus"], rates.rates())
        (place,) = folder.parent.glob(f"*/{asked.folder}")
        corpora.append(CorpusStudy(one["corpus"], one["held_out"], rates, read_comparison(place, cache=cache)))
    return ScaleStudy(made, folder.parent, tuple(corpora), target_parameters(request))


def _rates(recorded: Mapping[str, Any]) -> RateTable:
    points = tuple(
        RatePoint(**{**one, "trials": tuple(Trial(**trial) for trial in one["trials"])}) for one in recorded["rates"]
    )
    return RateTable(points, {arm: (law[0], law[1]) for arm, law in recorded["rate_laws"].items()})
