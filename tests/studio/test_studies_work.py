"""Studies as the studio shows them: planned, half done, finished, damaged, and started in their own folders."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab.errors import AttnlabError
from attnlab.experiments.planning import planner
from attnlab.experiments.request import ScaleRequest
from attnlab.experiments.scale.record import RECORD, read_record, write_record
from attnlab.experiments.scale.report import write_study
from attnlab.experiments.scale.study import ScaleStudy, scale
from attnlab.studio.folders import opaque_id, study_folders
from attnlab.studio.studio import Settings, Studio
from attnlab.studio.work.experiments.lists import experiments, latest, report, table
from attnlab.studio.work.experiments.studies import follow_study, plan_study
from attnlab.studio.work.runs import runs as runs_with_heads
from support.requests import InProcess
from support.studies import SMALL, short_search, small_study

FIXED: dict[str, Any] = {"changes": (*SMALL["changes"], "learning_rate=0.01"), "half_tokens": False}


@pytest.fixture(scope="module", autouse=True)
def _short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with short_search(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNLAB_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def planted(trained: Path) -> Path:
    (found,) = (trained / "runs").glob("scale-*/study-*")
    return found


def follow(folder: Path) -> Any:
    root = folder.parents[1]
    return follow_study(str(root), opaque_id(str(folder.relative_to(root))))


def listed(runs: Path) -> Any:
    return experiments(str(runs))["experiments"]


def test_a_form_becomes_a_plan_with_its_cost() -> None:
    found: Any = plan_study({**SMALL, "seeds": 3})
    assert found["runs"] == 2 * 5 * 3, "arms, rungs with all and with half the tokens, seeds"
    assert found["trials"] == 2 * (2 * (3 + 3) + 3), "arms, rates and extensions on two rungs, neighbours on the third"
    assert found["flops"].endswith("FLOP")
    assert "the trend over them" in found["decides"]
    assert "back-tested" not in found["decides"]
    assert any("no forecast is back-tested" in note for note in found["notes"])
    assert ScaleRequest(**found["request"]) == small_study(seeds=3)
    more: Any = plan_study({**SMALL, "seeds": 6})
    reduced: Any = plan_study({**SMALL, "seeds": 6, "hours": 0.9999 * more["minutes"] / 60})
    assert reduced["request"]["seeds"] == 5
    assert reduced["request"]["hours"] is None, "what fits is not reduced again"
    assert reduced["notes"][0].startswith("Reduced to fit into")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"changes": ["batch_size=999999999"]}, "this run needs"),
        ({"rungs": ["6k", "14k"]}, "a trend needs at least 3 rungs"),
        ({"corpora": []}, "corpora must be named once each"),
        ({"target": "10k"}, "not more than the largest rung"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_built(
    fields: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "_times", {})
    monkeypatch.setattr(planner, "step_seconds", None)
    with pytest.raises(AttnlabError, match=words):
        plan_study({**SMALL, **fields})


def test_a_finished_study_shows_verdicts_trends_and_forecasts(planted: Path) -> None:
    found = follow(planted)
    assert found["status"] == "finished"
    assert found["title"] == "tied-kv, cosine against softmax over 4 sizes"
    (corpus,) = found["corpora"]
    assert corpus["headline"].startswith("On python")
    assert [row[:3] for row in corpus["verdicts"]][-1] == ["cosine", "55k", "worse"]
    assert set(corpus["charts"]) == {"intervals", "sizes", "forecast", "rates"}
    assert len({row[0] for row in corpus["trends"]}) == 2
    assert [one["is_extrapolation"] for one in corpus["forecasts"]["cosine"]] == [False, True]
    assert corpus["trends"][1][3].endswith(", extrapolation")
    assert "is an extrapolation, not a finding" in corpus["forecast_words"]
    root, name = str(planted.parents[1]), opaque_id(str(planted.relative_to(planted.parents[1])))
    assert Path(str(report(root, name)["path"])) == planted / "report.html"
    assert Path(str(table(root, name)["path"])) == planted / "runs.csv"


def test_studies_and_comparisons_stand_in_one_list(trained: Path, planted: Path, tmp_path: Path) -> None:
    assert {one["kind"] for one in listed(trained / "runs")} == {"comparison", "study"}
    (shown,) = [one for one in latest(str(trained / "runs"), 5)["experiments"] if one["kind"] == "study"]  # type: ignore[attr-defined]
    assert {row["rung"] for row in shown["intervals"]} == {"55k"}, "the largest size"
    inside = tmp_path / planted.parent.name
    shutil.copytree(planted, inside / planted.name)
    (comparison,) = (trained / "runs").glob("compare-*")
    shutil.copytree(comparison, inside / "kinship" / comparison.name)
    assert [one["kind"] for one in listed(tmp_path)] == ["study"], "a comparison inside belongs to its study"
    (inside / planted.name / RECORD).write_text("[" * 100_000)
    (damaged,) = listed(tmp_path)
    assert (damaged["status"], damaged["kind"]) == ("damaged", "study")
    (inside / planted.name / RECORD).unlink()
    assert listed(tmp_path)[0]["status"] == "finished", "one of an earlier version is read from its findings"


def test_a_study_that_was_interrupted_shows_what_there_is(tmp_path: Path) -> None:
    runs, request = tmp_path / "runs", small_study(**FIXED)
    folder = runs / request.folder / request.report_folder
    folder.mkdir(parents=True)
    write_record(folder, request)
    assert follow(folder)["status"] == "stopped"
    assert follow(folder)["corpora"][0]["comparison"] == ""
    for fails in (8, None):
        with_launcher = {"on": InProcess(tmp_path / "cache", fails=fails), "cache": tmp_path / "cache"}
        try:
            study: ScaleStudy | None = scale(request, out=runs, **with_launcher)
        except AttnlabError:
            study = None
            half = follow(folder)
    (corpus,) = half["corpora"]
    listed: Any = runs_with_heads(str(runs))["runs"]
    heads = [one for one in listed if one["group"] != "pretrained models"]  # SmolLM2, where it is installed
    assert {one["comparison"] for one in heads} == {corpus["comparison"]}, "its runs are found by their comparison"
    assert heads[0]["group"].startswith("tied-kv against softmax")
    assert (half["status"], corpus["ended"], corpus["total"]) == ("stopped", 8, 12)
    assert 0 < half["share"] < 1
    assert corpus["comparison"]
    assert study is not None
    record = read_record(folder)
    assert record is not None
    assert record.plan is not None
    whole = follow(folder)
    assert whole["status"] == "stopped", "without its report it has not ended"
    assert len(whole["corpora"][0]["intervals"]) == 3
    assert set(whole["corpora"][0]["charts"]) == {"intervals", "sizes", "rates"}
    write_study(study)
    assert follow(folder)["status"] == "finished"
    assert [one["verdict"] for one in follow(folder)["corpora"][0]["intervals"]].count("") == 0


def test_trials_are_drawn_while_rates_are_searched(tmp_path: Path) -> None:
    request = small_study(variants=("tied-kv", "tied-kv&dropout=0.1"))
    folder = tmp_path / request.folder / request.report_folder
    folder.mkdir(parents=True)
    write_record(folder, request)
    trials = {"softmax": {0.01: 2.0, 0.02: None}, "tied-kv": {0.01: 2.1}}
    for variant, losses in trials.items():
        for rate, loss in losses.items():
            for seed, dropout in ((0, 0.0), (1, 0.1)):
                run = folder.parent / "kinship" / "rates" / f"{variant}-{rate}-{seed}"
                run.mkdir(parents=True)
                spec = {"size": "6k", "variant": variant, "learning_rate": rate, "dropout": dropout, "seed": seed}
                (run / "run.json").write_text(json.dumps({"spec": spec}))
                outcome = {"outcome": "diverged" if loss is None else "finished", "validation_loss": loss}
                (run / "result.json").write_text(json.dumps(outcome))
    broken = folder.parent / "kinship" / "rates" / "broken"
    broken.mkdir()
    (broken / "result.json").write_text("{")
    (corpus,) = follow(folder)["corpora"]
    assert [one["words"] for one in corpus["charts"]["rates"]] == [
        "softmax at 6k",
        "tied-kv at 6k",
        "tied-kv&dropout=0.1 at 6k",
    ]
    assert corpus["tried"] == 6


def test_a_study_is_started_and_resumed_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[list[str]] = []
    monkeypatch.setattr("attnlab.studio.studio.subprocess.Popen", lambda words, **_: launched.append(words[3:]))

    async def none(_: Studio) -> list[dict[str, Any]]:
        return []

    async def use() -> None:
        studio = Studio(Settings(runs=tmp_path))
        monkeypatch.setattr(Studio, "experiments", none)
        name = await studio.start_study(small_study(hours=3.0))
        (folder,) = study_folders(tmp_path)
        assert studio.has_study(name)
        assert not studio.has_study("0123456789abcdef")
        assert name == opaque_id(folder)
        await studio.resume_study(folder)
        assert launched == [["scale", str(tmp_path / folder)]] * 2
        record = read_record(tmp_path / folder)
        assert record is not None
        assert record.request == small_study(), "hours have done their part"
        with pytest.raises(AttnlabError, match="2 other studies share the runs"):
            studio.delete_study(folder, 2)
        studio.delete_study(folder, 0)
        assert study_folders(tmp_path) == []
        studio.labels.restore(folder.partition("/")[0])
        assert study_folders(tmp_path) == [folder]

    asyncio.run(use())
