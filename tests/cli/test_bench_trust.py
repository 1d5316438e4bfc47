"""`attnlab bench verdicts`, `attnlab bench compare` and `attnlab bench verify`, at a size that means nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnlab.cli import main


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path / "cache"))


def test_verdicts_simulated_and_trained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "verdicts", "--smoke", "--trained", "null", "--bars", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    settings = {one["setting"] for one in found["counts"]}
    assert any(setting.startswith("trained") for setting in settings)
    assert len(list(Path("null").iterdir())) == 160
    names = {bar["name"] for bar in found["bars"]}
    assert names >= {"false-difference", "false-equivalence", "overlooked", "trained-false-difference"}


def test_the_main_job_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "compare", "--smoke", "--bars", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    figures = found["figures"]
    assert figures["minutes"] > 0
    assert figures["GiB"] > 0
    assert figures["overhead"] > 1
    assert figures["MB of report"] < 6
    assert "nats below bigram" in figures
    assert len(found["bars"]) == 6


def test_verification_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "verify", "--smoke", "--bars", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    values = {bar["name"]: bar["figures"][0]["ratio"]["median"] for bar in found["bars"]}
    assert 0 < values["verify-bundle"] < 40
    assert values["verify-seconds"] > 0
    assert values["verify-loading"] > 0
    receipts, run = (found["figures"][name] for name in ("seconds of its receipts", "seconds of a run"))
    assert min(receipts, run) > 0
    assert values["verify-training"] == pytest.approx(run / (run - receipts))  # a run of moments: any value


def test_only_a_comparison_is_verified(capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty").mkdir()
    assert main(["bench", "verify", "empty"]) == 2
    assert "empty is no comparison" in capsys.readouterr().err
