"""A study over sizes is verified like a comparison: its runs, its plans, and every finding."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from attnlab.experiments.scale.report import write_study
from attnlab.experiments.scale.study import scale
from attnlab.verification import Verification, verify
from attnlab.verification.bundles import files_of, write_bundle
from support.requests import InProcess
from support.studies import short_search, small_study


@pytest.fixture(scope="module", autouse=True)
def _short() -> Iterator[None]:
    with short_search():
        yield


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> tuple[Path, Path]:
    """A study, and its bundle."""
    folder = tmp_path_factory.mktemp("study")
    study = scale(small_study(), out=folder, on=InProcess(cache), cache=cache)
    page, _ = write_study(study)
    comparisons = [one.comparison for one in study.corpora]
    runs = [run.path for one in comparisons for result in one.rungs for arm in result.arms for run in arm.runs]
    path = folder / "study.zip"
    write_bundle(path, study.path, files_of(runs, [one.path for one in comparisons], [page.parent]), 40)
    return study.path, path


def check(path: Path, cache: Path) -> Verification:
    return verify(path, segments=3, cache=cache, chosen=random.Random(0))


def test_a_study_verifies(bundle: tuple[Path, Path], cache: Path) -> None:
    found = check(bundle[1], cache)
    assert (found.kind, found.exit_code) == ("study", 0), found.checks
    assert {"plan", "findings of the study", "report", "replayed segments"} <= found.checks.tallies.keys()


@pytest.mark.parametrize(("name", "value"), [("widening", 9.0), ("headline", "All is well."), ("arms", [])])
def test_a_changed_finding_is_found(bundle: tuple[Path, Path], cache: Path, name: str, value: object) -> None:
    (path,) = bundle[0].glob("study-*/scale.json")
    before = path.read_text()
    data = json.loads(before)
    data["corpora"][0][name] = value
    path.write_text(json.dumps(data))
    try:
        found = check(bundle[0], cache)
    finally:
        path.write_text(before)
    assert [one.name for one in found.checks.tallies.values() if one.failed] == ["findings of the study"]
