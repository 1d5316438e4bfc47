"""`attnlab look`, as somebody types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnlab.cli import main
from support.training import KINSHIP, smoke, train_in


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return train_in(tmp_path, smoke(corpus=KINSHIP, variant="softmax,linear", num_layers=2)).path


def test_a_page_and_a_table(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", run.name]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].split()[:3] == ["layer", "head", "entropy"]
    assert [line.split()[:2] for line in lines[2:4]] == [["0", "0"], ["0", "1"]]
    assert "layer 1: no map: linear" in captured.out
    assert captured.err == "wrote look.html\n"
    assert "<h1>Inside" in Path("look.html").read_text(encoding="utf-8")
    Path("look.html").unlink()
    assert main(["look", str(run), "a" * 30, "--out", "mine.html", "--layer", "0", "--head", "1"]) == 0
    captured = capsys.readouterr()
    assert "the first 8 are shown" in captured.err
    assert len(captured.out.splitlines()) == 3
    assert Path("mine.html").exists()
    assert not Path("look.html").exists()


def test_json_on_stdout_and_nothing_else(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", run.name, "abc", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tokens"] == ["a", "b", "c"]
    assert set(found["layers"][0]["heads"][0]) == {"head", "numbers", "row_mass"}
    assert not Path("look.html").exists()
    assert main(["look", run.name, "abc", "--json", "--weights", "--out", "look.html"]) == 0
    weights = json.loads(capsys.readouterr().out)["layers"][0]["heads"][1]["weights"]
    assert [sum(row) for row in weights] == pytest.approx([1, 1, 1])
    assert Path("look.html").exists()


def test_names(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", run.name, "--names"]) == 0
    assert "blocks.0.attention.weights" in capsys.readouterr().out
    assert main(["look", run.name, "--names", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["residual"] == ["batch", "tokens", 16]
    assert not Path("look.html").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent"], "there is no run or folder absent"),
        (["runs"], "neither a run nor a GPT-2 folder"),
        (["RUN", ""], "the text is empty"),
        (["RUN", "日本"], "does not know '日'"),
        (["RUN", "\udcff\udcfe"], "does not know"),
        (["RUN", "--layer", "7"], "there is no layer 7"),
        (["RUN", "--tokens", "0"], "a text of 0 tokens"),
        (["RUN", "--step", "99"], "no weights of step 99"),
        (["RUN", "--weights"], "--weights belongs to --json"),
        (["RUN", "--out", "missing/look.html"], "there is no folder missing"),
        (["RUN", "--source", "a"], "takes no source"),
    ],
)
def test_what_cannot_be_is_explained(
    run: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["look", *(run.name if word == "RUN" else word for word in arguments)]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert "hint:" in captured.err
    assert captured.out == ""
    assert not Path("look.html").exists()
