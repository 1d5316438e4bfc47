"""`attnlab retrofit`: a page, JSON and CSV from one command, and errors that say what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnlab.cli import main
from support.pretrained import write_llama

SAVED = ("mqa", "window-4")


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    return write_llama(tmp_path / "tiny")


def test_one_command_writes_everything(llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = [str(llama), "--to", "mqa,window:4", "--text", str(tmp_path / "text.txt"), "--length", "16"]
    common += ["--texts", "4", "--fitting-texts", "8", "--out", str(tmp_path / "runs")]
    common += ["--threads", "1", "--workers", "1", "--quiet"]
    page, table = tmp_path / "page.html", tmp_path / "table.csv"
    assert main(["retrofit", *common, "--report", str(page), "--csv", str(table)]) == 0
    shown = capsys.readouterr()
    assert "mqa: converting all 2 layers without training costs" in shown.out
    assert "is a run" in shown.err
    assert page.read_text(encoding="utf-8").startswith("<!")
    assert table.read_text().splitlines()[1].startswith("mqa,cost,0,")
    assert main(["retrofit", *common, "--json", "--save", str(tmp_path / "saved")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["variants"]] == ["mqa", "window:4"]
    kinds = [json.loads((tmp_path / "saved" / name / "config.json").read_text())["model_type"] for name in SAVED]
    assert kinds == ["llama", "attnlab"]
    loud = [one for one in common if one != "--quiet"]
    assert main(["retrofit", *loud, "--layers", "0", "--tokens", "768", "--batch-size", "2", "--seeds", "2"]) == 0
    shown = capsys.readouterr()
    assert "reason" in shown.out  # of the verdicts
    assert "layers 0" in shown.out
    healed = found["variants"][0]["healed"]
    assert main(["generate", healed, "to be", "--tokens", "3", "--out", str(tmp_path / "runs")]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere", "--to", "mqa"], "nowhere is no run and no model"),
        (["LLAMA", "--to", "gqa:2"], "gqa:2 changes nothing"),
        (["LLAMA", "--to", "window:4", "--report", "no/page.html"], "there is no folder no"),
        (["LLAMA", "--to", "mqa", "--layers", "9"], "no layer of a model with 2"),
    ],
)
def test_errors(
    arguments: list[str], words: str, llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(llama) if one == "LLAMA" else one for one in arguments]
    assert main(["retrofit", *given, "--out", str(tmp_path / "runs"), "--quiet"]) == 2
    assert words in capsys.readouterr().err
