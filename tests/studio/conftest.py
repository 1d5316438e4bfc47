"""One studio for all tests of a file, with a comparison, a study, facts and a model to ask that are there before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attnlab.experiments import compare
from attnlab.experiments.judging.retrofits import judged
from attnlab.experiments.reporting.exports import conclude
from attnlab.experiments.scale.record import write_record
from attnlab.experiments.scale.report import write_study
from attnlab.experiments.scale.study import plan_data
from attnlab.knowledge.pairs import Pair
from attnlab.knowledge.store.store import FactStore
from attnlab.retrofit import request_of, retrofit
from attnlab.studio.work.runs import STORE
from support.browser import open_browser
from support.knowledge import finetuned
from support.requests import InProcess, small
from support.studies import planted_study
from support.studio import StudioServer
from support.training import ALONE


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs: a finished comparison on kinship text, a retrofit, a study, a model to ask, and some facts."""
    folder = tmp_path_factory.mktemp("studio")
    request = small(corpus="kinship", corpus_options={}, vocabulary_size=None, seeds=2)
    launcher = InProcess(folder / "cache")
    comparison = compare(request, out=folder / "runs", on=launcher, cache=folder / "cache")
    conclude(comparison)
    found = retrofit(
        comparison.arms[0].runs[0].path,
        request_of(variants=("tied-kv",), texts=4, fitting_texts=4, tokens=128, seeds=2, batch_size=4),
        out=folder / "runs",
        cache=folder / "cache",
        **ALONE,
    )
    judged(found).write(found.folder / "report.html")
    finetuned(folder / "runs" / "knowledge")
    plant_study(folder / "runs")
    with FactStore(folder / "runs" / STORE) as store:
        pairs = [Pair(f"Where was Zoë {number} born?", "Wickholm") for number in range(30)]
        store.import_facts(pairs, who="Bob", source="a file")
    return folder


def plant_study(runs: Path) -> Path:
    """Leave a study with planted differences below the folder of the runs, as if it was carried out; return its own."""
    study = planted_study({"tied-kv": [0.03, 0.025, 0.02, 0.015], "cosine": [0.3, 0.31, 0.3, 0.32]})
    study = replace(study, path=runs / study.request.folder)
    page, _ = write_study(study)
    write_record(page.parent, study.request, plan_data(study.plan))
    return page.parent


@pytest.fixture(scope="module")
def server(trained: Path) -> Iterator[StudioServer]:
    pytest.importorskip("nicegui", reason="nicegui is not installed")
    server = StudioServer(trained / "runs", trained / "cache")
    yield server
    said = server.end()
    assert "Traceback" not in said, said


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from open_browser()
