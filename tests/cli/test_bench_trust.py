"""`attnlab bench verdicts` and `attnlab bench compare`, at a size that means nothing."""

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
