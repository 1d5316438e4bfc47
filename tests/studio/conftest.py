"""One studio for all tests of a file, with a comparison and a model to ask that are there before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab.experiments import compare
from attnlab.experiments.judging.retrofits import judged
from attnlab.experiments.reporting.exports import conclude
from attnlab.retrofit import request_of, retrofit
from support.browser import open_browser
from support.knowledge import finetuned
from support.requests import InProcess, small
from support.studio import StudioServer
from support.training import ALONE


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs: a comparison on kinship text, a retrofit, and a model that was finetuned on questions."""
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
    return folder


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
