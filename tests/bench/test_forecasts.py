"""The measurement of forecasts at a size that takes seconds: what it reports, judges and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnlab.bench.forecasts import bench_forecasts, read_ladders
from attnlab.cli import main
from attnlab.errors import FileError


def study(sizes: tuple[int, ...] = (16_000, 32_000, 64_000, 128_000), arms: int = 2) -> dict[str, Any]:
    """The data of a study whose arms have planted constant differences."""
    rungs = [
        [
            {
                "non_embedding": size,
                "tokens": 50 * size,
                "baseline": [2.0 - 0.1 * place + 0.01 * seed for seed in range(4)],
                "arm_losses": [2.0 - 0.1 * place + 0.011 * seed + 0.03 * (arm + 1) for seed in range(4)],
                "seeds": [0, 1, 2, 3],
                "diverged": [],
            }
            for place, size in enumerate(sizes)
        ]
        for arm in range(arms)
    ]
    return {"corpora": [{"corpus": "text", "arms": [{"arm": f"arm {n}", "rungs": one} for n, one in enumerate(rungs)]}]}


def test_simulated_and_real_ladders_are_reported_and_judged(tmp_path: Path) -> None:
    path = tmp_path / "scale.json"
    path.write_text(json.dumps(study()))
    found = bench_forecasts(8, [path])
    assert [bar.name for bar in found.bars] == ["forecast-coverage", "backtest-coverage", "backtest-decisions"]
    assert found.real is not None
    assert [arm.name for arm in found.real.arms] == ["arm 0 on text", "arm 1 on text"]
    assert found.real.sign.mean == 1.0
    assert found.notes == ("only 2 variants",)
    titles = [section.heading for section in found.sections()]
    simulated = ["Simulated ladders, 1 rung ahead", "Simulated ladders, 2 rungs ahead"]
    assert titles == [*simulated, "Back-test", "Every variant"]
    assert json.loads(json.dumps(found.to_dict()))["benchmark"] == "forecasts"


def test_an_arm_that_diverged_is_left_out(tmp_path: Path) -> None:
    data = study()
    data["corpora"][0]["arms"][0]["rungs"][1]["diverged"] = [2]
    path = tmp_path / "scale.json"
    path.write_text(json.dumps(data))
    assert [ladder.name for ladder in read_ladders(path)] == ["arm 1 on text"]


@pytest.mark.parametrize("content", ["rubbish", "{}", '{"corpora": [{"arms": [{}]}]}'])
def test_what_is_no_study_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "scale.json"
    path.write_text(content)
    with pytest.raises(FileError, match=r"not the scale.json of a study"):
        read_ladders(path)
    with pytest.raises(FileError, match="cannot be read"):
        read_ladders(tmp_path / "missing.json")


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "forecasts", "--smoke", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["simulated"]["checks"]
