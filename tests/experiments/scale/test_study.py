"""A real study, as small as can be: it resumes, trains nothing twice, and leaves its files behind."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from attnlab.corpora import Corpus
from attnlab.errors import AttnlabError
from attnlab.experiments.planning.rate_search import TUNING_SEED
from attnlab.experiments.request import ScaleRequest
from attnlab.experiments.scale import study
from attnlab.experiments.scale.findings import findings
from attnlab.experiments.scale.record import read_record
from attnlab.experiments.scale.report import write_study
from attnlab.experiments.scale.study import CorpusStudy, ScaleStudy, scale, search_only
from attnlab.runs import RunDirectory
from attnlab.storage.locks import find_holder
from support.requests import InProcess
from support.studies import short_search, small_study

REQUEST = small_study()
TRIALS = 2 * 3 * 3  # arms, rungs, rates
RUNS = 2 * 2 * 5  # arms, seeds, rungs with all tokens and with half of them


@dataclass(frozen=True)
class Done:
    """A study that failed twice and was carried out then; how many runs each call trained."""

    study: ScaleStudy
    folder: Path
    problems: list[str]
    trained: list[int]


def carry_out(folder: Path, request: ScaleRequest, fails: int | None = None) -> tuple[ScaleStudy | str, int]:
    launcher = InProcess(folder / "cache", fails=fails)
    try:
        return scale(request, out=folder / "runs", on=launcher, cache=folder / "cache"), launcher.trained
    except AttnlabError as error:
        return str(error), launcher.trained


@pytest.fixture(scope="module", autouse=True)
def _short() -> Iterator[None]:
    with short_search():
        yield


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("study")
    problems, trained = [], []
    for fails in (5, TRIALS, None):
        found, count = carry_out(folder, REQUEST, fails)
        trained.append(count)
        if isinstance(found, str):
            problems.append(found)
    assert isinstance(found, ScaleStudy), found
    return Done(found, folder, problems, trained)


def test_a_study_that_failed_resumes_where_it_was(done: Done) -> None:
    first, second = done.problems
    assert "the trial" in first
    assert "failed: the machine broke" in first
    assert "runs have not ended; the first: the machine broke" in second
    assert done.trained == [5, TRIALS, TRIALS + RUNS - 5 - TRIALS]


def test_a_finished_study_trains_nothing_and_finds_the_same(done: Done) -> None:
    again, trained = carry_out(done.folder, REQUEST)
    assert trained == 0
    assert isinstance(again, ScaleStudy)
    assert again.corpora[0].comparison.judgements == done.study.corpora[0].comparison.judgements
    assert again.corpora[0].rates == done.study.corpora[0].rates
    launcher = InProcess(done.folder / "cache")
    table = search_only(REQUEST, out=done.folder / "runs", on=launcher, cache=done.folder / "cache")["kinship"]
    assert launcher.trained == 0
    assert table == done.study.corpora[0].rates


def test_every_run_is_where_it_belongs_and_seeds_of_the_search_are_used_nowhere_else(done: Done) -> None:
    folder = done.study.path / "kinship"
    trials = [RunDirectory.open(path.parent).record["spec"] for path in folder.glob("rates/*/run.json")]
    found = [run for rung in done.study.corpora[0].comparison.rungs for arm in rung.arms for run in arm.runs]
    assert {run.path.resolve().parent for run in found} == {folder.resolve() / "runs"}
    runs = [RunDirectory.open(run.path).record["spec"] for run in found]
    assert (len(trials), {spec["seed"] for spec in trials}) == (TRIALS, {TUNING_SEED})
    assert (len(runs), {spec["seed"] for spec in runs}) == (RUNS, {0, 1})
    for spec in runs:
        assert spec["learning_rate"] == done.study.corpora[0].rates.rates()[spec["size"]][spec["variant"]]


def test_the_trials_of_a_rate_stay_with_its_arm(done: Done) -> None:
    plan, points = done.study.corpora[0].comparison.plan, done.study.corpora[0].rates.points
    tried = {(point.size, point.arm): point.trials for point in points}
    for rung in plan.lower:
        assert [arm.trials for arm in rung.arms] == [
            () if rung.halved else tried[rung.size, arm.name] for arm in rung.arms
        ]
    assert [arm.trials for arm in plan.arms] == [tried["25k", arm.name] for arm in plan.arms]


def test_a_rung_is_judged_only_where_its_runs_are_long_enough(done: Done) -> None:
    for rung in done.study.corpora[0].comparison.lower:
        (found,) = rung.judgements
        edges = [rung.arms[0].arm, rung.arms[1].arm]
        at_an_edge = any(
            arm.trials and arm.run.learning_rate in (arm.trials[0].learning_rate, arm.trials[-1].learning_rate)
            for arm in edges
        )
        assert not at_an_edge or found.verdict == "unsettled"
    assert any(rung.judgements[0].verdict == "unsettled" for rung in done.study.corpora[0].comparison.lower)


def test_every_rung_has_the_tokens_that_its_size_asks_for(done: Done) -> None:
    comparison = done.study.corpora[0].comparison
    assert [result.rung.name for result in comparison.lower] == [
        "6k, half the tokens",
        "6k",
        "14k, half the tokens",
        "14k",
    ]
    for rung in (result.rung for result in comparison.lower):
        asked = 0.3 * rung.parameters / (2 if rung.halved else 1)
        assert asked <= rung.tokens < asked + 1024
    assert comparison.plan.tokens >= 0.3 * comparison.plan.baseline.parameters
    steps = {arm.arm.run.steps for result in comparison.lower[1:2] for arm in result.arms}
    assert len(steps) == 1


def test_more_seeds_train_only_what_is_new(done: Done) -> None:
    more, trained = carry_out(done.folder, REQUEST.replace(seeds=3))
    assert trained == RUNS // 2
    assert isinstance(more, ScaleStudy)
    assert more.path == done.study.path
    assert more.corpora[0].comparison.path != done.study.corpora[0].comparison.path
    before = done.study.corpora[0].comparison.judgements[0].differences
    assert more.corpora[0].comparison.judgements[0].differences[:2] == before


def test_its_files_hold_everything(done: Done, tmp_path: Path) -> None:
    page, data = write_study(done.study, tmp_path / "page.html", tmp_path / "runs.csv")
    assert page.parent.parent == done.study.path
    assert page.read_bytes() == (tmp_path / "page.html").read_bytes()
    assert (page.parent / "runs.csv").read_bytes() == (tmp_path / "runs.csv").read_bytes()

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    kept = json.loads((page.parent / "scale.json").read_text(encoding="utf-8"), parse_constant=refuse)
    assert kept == json.loads(json.dumps(data))
    (found,) = kept["corpora"]
    assert [arm["arm"] for arm in found["arms"]] == ["tied-kv"]
    assert [rung["size"] for rung in found["arms"][0]["rungs"]] == ["6k", "6k", "14k", "14k", "25k"]
    assert {point["source"] for point in found["rates"]} == {"searched", "verified"}
    rows = list(csv.DictReader(io.StringIO((tmp_path / "runs.csv").read_text())))
    assert len(rows) == RUNS
    assert {row["corpus"] for row in rows} == {"kinship"}
    assert {(row["arm"], row["seed"]) for row in rows} == {
        (arm, seed) for arm in ("softmax", "tied-kv") for seed in "01"
    }
    for row in rows:
        assert float(row["loss"]) > 0


def test_three_rungs_are_extrapolated_and_never_called_tested(done: Done) -> None:
    (found,) = findings(done.study)
    assert found.backtest is None
    (arm,) = found.arms
    assert arm.forecast is not None
    assert found.is_extrapolation(arm.forecast)
    assert arm.forecast.target_size == done.study.target == 84_934_656
    assert arm.rates is not None
    assert arm.rates.size == "25k"


def test_what_was_found_is_told_after_every_corpus_and_the_study_is_held(
    tmp_path: Path, done: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = REQUEST.replace(corpora=("kinship", "world"))
    folder = tmp_path / request.folder / request.report_folder
    held: list[bool] = []

    def carried_out(_: ScaleRequest, corpus: Corpus, *__: object) -> CorpusStudy:
        held.append(find_holder(folder) is not None)
        return dataclasses.replace(done.study.corpora[0], corpus=corpus.spec.name)

    monkeypatch.setattr(study, "_on_corpus", carried_out)
    told: list[list[str]] = []
    found = scale(
        request,
        out=tmp_path,
        on=InProcess(done.folder / "cache"),
        cache=done.folder / "cache",
        judged=lambda partly: told.append([one.corpus for one in partly.corpora]),
    )
    assert told == [["kinship"]]
    assert [one.corpus for one in found.corpora] == ["kinship", "world"]
    assert held == [True, True]
    assert find_holder(folder) is None
    record = read_record(folder)
    assert record is not None
    assert record.request == request
    assert record.plan is not None
    assert record.plan["hours"] == found.plan.hours
