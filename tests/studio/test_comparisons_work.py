"""Comparisons as the studio shows them: settings that differ, charts of arms, and intervals while seeds end."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attnlab.experiments.planning.procedure import Procedure, planned_effect
from attnlab.experiments.request import Request, ScaleRequest
from attnlab.experiments.status import Following
from attnlab.studio.folders import opaque_id
from attnlab.studio.work.experiments import comparisons as work
from attnlab.studio.work.experiments.charts import forecast_figure, forest_figure, loss_figure, sizes_figure
from attnlab.studio.work.experiments.comparisons import comparisons, follow, intervals_of, setting_of
from attnlab.studio.work.experiments.lists import experiments, latest
from attnlab.studio.work.runs import runs


@pytest.fixture
def folder(trained: Path) -> Path:
    (found,) = (trained / "runs").glob("compare-*")
    return found


def test_settings_tell_comparisons_of_the_same_variants_apart() -> None:
    requests = [
        Request(variants=("tied-kv",)),
        Request(variants=("tied-kv",), seeds=12),
        Request(variants=("tied-kv",), size="nano", steps=100),
        Request(variants=("tied-kv",), size="nano", steps=100, recipe="fast"),
        Request(variants=("tied-kv",), size="nano", steps=100, changes=("position=rope",)),
    ]
    words = [setting_of(request) for request in requests]
    assert len(set(words)) == len(words)
    assert words[0] == "14k, 25k · 4 seeds · pydoc"
    assert words[4] == "nano · 4 seeds · pydoc · position=rope · steps 100"
    study = ScaleRequest(variants=("tied-kv", "sigmoid"), up_to={"sigmoid": "25k"}, least_tokens=2_000_000, margin=0.02)
    for told in ("least tokens 2,000,000", "sigmoid up to 25k", "margin 0.02"):
        assert told in setting_of(study).split(" · ")


def test_a_finished_comparison_has_the_intervals_of_its_verdicts(folder: Path) -> None:
    found: Any = follow(str(folder.parent), opaque_id(folder.name))
    (row,) = found["intervals"]
    assert (row["arm"], row["rung"], row["seeds"]) == ("tied-kv", "nano", 2)
    assert row["verdict"] == found["answer"]["rows"][1][1]
    assert row["low"] < row["mean"] < row["high"]
    assert set(found["charts"]) == {"loss", "intervals"}
    (shown,) = [one for one in latest(str(folder.parent), 3)["experiments"] if one["folder"] == folder.name]  # type: ignore[attr-defined]
    assert shown["intervals"] == found["intervals"]
    others: Any = latest(str(folder.parent), 3, [folder.name])["experiments"]
    assert folder.name not in [one["folder"] for one in others]


def test_intervals_come_from_the_seeds_that_have_ended(folder: Path) -> None:
    state = Following(folder).look()
    (row,) = intervals_of(state, {})
    assert (row["seeds"], row["verdict"]) == (2, "")
    first = min(run.seed for run in state.runs)
    fewer = replace(state, runs=tuple(replace(run, ended=run.seed == first) for run in state.runs))
    assert intervals_of(fewer, {}) == [], "one seed has no interval"


def curve(arm: str, seed: int) -> dict[str, Any]:
    return {"arm": arm, "seed": seed, "training": [[1, 3.0]], "validation": [[1, 2.0 + seed], [2, 1.0 + seed]]}


def test_an_arm_is_drawn_by_its_mean_and_range_or_run_by_run() -> None:
    curves = [curve(arm, seed) for arm in ("softmax", "tied-kv", "tied-kv at 14k") for seed in range(4)]
    band, mean, *others = loss_figure(curves)["data"]
    assert mean["y"] == [3.5, 2.5]
    assert band["y"] == [5.0, 4.0, 1.0, 2.0]
    assert len(others) == 4
    every = loss_figure(curves, every=True)["data"]
    assert len(every) == 12
    assert sum(one["showlegend"] for one in every) == 3


def test_nine_arms_can_be_told_apart() -> None:
    drawn = loss_figure([curve(f"arm-{number}", 0) for number in range(9)])["data"]
    colours = {one["line"]["color"] for one in drawn}
    assert len(colours) == 9
    assert len({one["marker"]["symbol"] for one in drawn}) == 9
    sizes = loss_figure([curve(f"softmax{at}", 0) for at in ("", " at 14k", " at 25k")])["data"]
    assert [one["line"]["dash"] for one in sizes] == ["solid", "dash", "dot"]


def test_a_wide_interval_does_not_hide_the_others() -> None:
    row = {"arm": "tied-kv", "rung": "25k", "seeds": 2, "verdict": "", "mean": 0.01, "low": -3.0, "high": 3.0}
    found = {"intervals": [row], "baseline": "softmax", "confidence": "95 %", "margin": 0.03}
    low, high = forest_figure(found)["layout"]["xaxis"]["range"]
    assert -20 < low < 0 < high < 20


def test_one_number_of_seeds_is_named() -> None:
    expected = planned_effect(0.08, 4, 4, Procedure(alpha=0.05, looks=1, margin=0.03), degrees=9)
    named = re.search(r"(\d+) seeds would do\.$", expected.warnings[-1])
    assert named is not None
    assert int(named[1]) == expected.seeds_for_margin


def test_comparisons_inside_of_a_study_are_found_and_deleted_ones_are_not(folder: Path, tmp_path: Path) -> None:
    inside = tmp_path / "scale-tied-kv" / "kinship" / folder.name
    shutil.copytree(folder, inside)
    shutil.copytree(folder, tmp_path / ".deleted" / folder.name)
    (one,) = comparisons(str(tmp_path))
    listed: Any = experiments(str(tmp_path))["experiments"]
    assert [found["folder"] for found in listed] == [one["folder"]], "no study was recorded there"
    assert one["folder"] == f"scale-tied-kv/kinship/{folder.name}"
    assert one["status"] == "finished"
    found: Any = follow(str(tmp_path), str(one["name"]))
    assert found["answer"]["rows"]
    listed = runs(str(tmp_path))["runs"]
    trained: Any = [run for run in listed if run["group"] != "pretrained models"]  # SmolLM2, where it is installed
    assert {run["comparison"] for run in trained} == {one["name"]}


def test_differences_are_drawn_against_the_size_rung_by_rung() -> None:
    row = {"arm": "tied-kv", "seeds": 4, "verdict": "", "mean": 0.01, "low": 0.0, "high": 0.02}
    rows = [
        {**row, "rung": "25k", "parameters": 30_592, "non_embedding": 24_576},
        {**row, "rung": "14k", "parameters": 18_336, "non_embedding": 13_824},
        {**row, "rung": "14k, half the tokens", "parameters": None, "non_embedding": None},
    ]
    found = {"intervals": rows, "baseline": "softmax", "confidence": "95 %", "margin": 0.03}
    drawn = sizes_figure(found)
    assert drawn["layout"]["xaxis"]["ticktext"] == ["25k", "14k"]
    (line,) = drawn["data"]
    assert line["x"] == [18_336, 30_592]
    assert line["error_y"]["array"] == pytest.approx([1.015, 1.015], abs=0.01)
    near = {"mean": 0.02, "low": 0.0, "high": 0.04, "size": 43_690.0, "is_extrapolation": False}
    far = {"mean": 0.5, "low": -9.0, "high": 9.0, "size": 84_934_656.0, "is_extrapolation": True}
    drawn = forecast_figure({**found, "forecasts": {"tied-kv": [near, far]}})
    assert [one["name"] for one in drawn["data"]] == ["tied-kv", "tied-kv: forecast", "tied-kv: extrapolation"]
    assert [one["line"].get("dash") for one in drawn["data"]] == [None, "dash", "dot"]
    assert drawn["data"][0]["x"] == [13_824, 24_576]
    assert drawn["data"][2]["x"] == [24_576, 84_934_656.0]
    low, high = drawn["layout"]["yaxis"]["range"]
    assert -10 < low < high < 80, "intervals of an extrapolation do not hide what was measured"


def test_a_list_checks_an_answer_once_and_its_page_every_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[Path] = []
    real = work.find_answer

    def counted(request: Request, out: Path) -> Any:
        checks.append(out)
        return real(request, out)

    monkeypatch.setattr(work, "find_answer", counted)
    work._check_answer.cache_clear()
    root = str(folder.parent)
    for _ in range(3):
        comparisons(root)
    assert len(checks) == 1
    follow(root, opaque_id(folder.name))
    assert len(checks) == 2
