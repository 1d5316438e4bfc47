"""`attnlab runs`: what it prints, what it asks, and what it will not remove."""

from __future__ import annotations

import io
import json
import math
import sys
from pathlib import Path

import pytest

from attnlab.cli import main
from attnlab.runs.directory import RunDirectory
from support.processes import held_elsewhere
from support.runs import leave_behind, make_run


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


def output(capsys: pytest.CaptureFixture[str], *tokens: str, code: int = 0) -> tuple[str, str]:
    assert main(["runs", *tokens]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def answer(monkeypatch: pytest.MonkeyPatch, text: str, *, terminal: bool = True) -> None:
    stdin = io.StringIO(text)
    monkeypatch.setattr(stdin, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stdin", stdin)


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    make_run(Path("runs/one"))
    make_run(Path("runs/two"), steps=10, finished=True)
    RunDirectory.create(Path("runs/three"), {"spec": 7})
    out, err = output(capsys, "list")
    assert err == ""
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["run", "status", "step", "loss", "variant", "recipe", "size", "started", "disk"]
    assert lines[2][:8] == ["one", "unfinished", "4/10", "5.6", "cosine", "gpt2", "tiny", "2026-01-02"]
    assert lines[3][:8] == ["three", "new", "–", "–", "–", "–", "–", "–"]
    assert lines[4][:4] == ["two", "finished", "10/10", "5"]
    assert lines[4][-1] == "KiB"


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    make_run(Path("elsewhere/one")).log({"step": 5, "validation_loss": math.nan})
    out, err = output(capsys, "list", "--out", "elsewhere", "--json")
    assert err == ""
    (found,) = json.loads(out, parse_constant=lambda word: pytest.fail(word))
    assert (found["id"], found["path"], found["status"]) == ("one", "elsewhere/one", "unfinished")
    assert (found["step"], found["steps"], found["validation_loss"]) == (5, 10, "nan")


def test_no_runs(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = output(capsys, "list")
    assert out == ""
    assert err.startswith("no runs in runs\n\nhint: `attnlab train` begins one")
    assert json.loads(output(capsys, "list", "--json")[0]) == []


def test_a_damaged_run_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    (make_run(Path("runs/one")).path / "run.json").write_text("{")
    out, err = output(capsys, "list")
    assert "damaged" in out
    assert err.startswith("one: runs/one/run.json is damaged")
    out, err = output(capsys, "show", "one", code=2)
    assert out == ""
    assert "is damaged" in err
    assert "hint: " in err


def test_one_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(Path("runs/one"))
    with held_elsewhere(run.path, "attnlab train") as process:
        out, err = output(capsys, "show", "one")
    assert err == ""
    facts = {line[:16].strip(): line[16:].strip() for line in out.splitlines()}
    assert facts["status"] == "running"
    assert facts["step"] == "4/10"
    assert facts["corpus"] == "pydoc abc123"
    assert facts["versions"] == "attnlab 0.1.0, torch 2.13.0"
    assert facts["machine"] == "cores 2"
    assert facts["held by"].startswith(f"process {process} on ")
    lines = [line.split() for line in out.splitlines()]
    assert ["step", "training_loss", "validation_loss"] in lines
    assert ["4", "4.6"] in lines
    assert [line[0] for line in lines if line[2:] == ["B"] and line[0].isdigit()] == ["2", "4"]


def test_one_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    make_run(Path("runs/one"), finished=True)
    found = json.loads(output(capsys, "show", "runs/one", "--json")[0])
    assert found["record"]["spec"]["seed"] == 3
    assert [entry["step"] for entry in found["metrics"]] == [2, 2, 3, 4, 4]
    assert [saved["step"] for saved in found["checkpoints"]] == [2, 4]
    assert found["result"] == {"outcome": "finished", "validation_loss": 5.5}
    assert found["holder"] is None


def test_one_that_is_bare_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    RunDirectory.create(Path("runs/bare"), {"corpus": "x", "machine": [1]})
    out, _ = output(capsys, "show", "bare")
    assert "no checkpoints" in out
    assert "new" in out


def test_a_name_that_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    make_run(Path("runs/first"))
    _, err = output(capsys, "show", "frist", code=2)
    assert err == "error: there is no run called 'frist'\n\nhint: did you mean 'first'?\n"
    _, err = output(capsys, "rm", "first", "frist", "--yes", code=2)
    assert "did you mean" in err
    assert RunDirectory.exists(Path("runs/first"))
    _, err = output(capsys, "rm", "--yes", code=2)
    assert "no run is named" in err


@pytest.mark.parametrize(
    ("text", "removed"), [("y\n", True), ("YES\n", True), ("\n", False), ("n\n", False), ("", False)]
)
def test_removing_asks(
    text: str, removed: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(Path("runs/one"))
    answer(monkeypatch, text)
    out, err = output(capsys, "rm", "one")
    assert out == ""
    assert "remove it? [y/N]" in err
    assert RunDirectory.exists(Path("runs/one")) is not removed
    assert ("nothing was removed" in err) is not removed
    assert ("freed" in err) is removed


def test_removing_without_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(Path("runs/one"))
    make_run(Path("runs/two"))
    answer(monkeypatch, "y\n", terminal=False)
    _, err = output(capsys, "rm", "one", "two", code=2)
    assert "no terminal" in err
    assert "--yes" in err
    assert RunDirectory.exists(Path("runs/one"))
    _, err = output(capsys, "rm", "one", "two", "one", "--yes")
    assert err.splitlines()[:2] == ["removed one", "removed two"]
    assert list(Path("runs").iterdir()) == []


def test_removing_refuses_all_if_it_refuses_one(capsys: pytest.CaptureFixture[str]) -> None:
    make_run(Path("runs/one"))
    held = make_run(Path("runs/two"))
    Path("runs/mine").mkdir()
    with held_elsewhere(held.path) as process:
        _, err = output(capsys, "rm", "one", "two", "--yes", code=2)
        assert f"runs/two is held by process {process} " in err
    _, err = output(capsys, "rm", "one", "mine", "--yes", code=2)
    assert "it has no run.json" in err
    assert sorted(path.name for path in Path("runs").iterdir()) == ["mine", "one", "two"]


def test_cleaning_up(capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(Path("runs/one"), finished=True)
    leave_behind(Path("runs"), "run")
    would, _ = output(capsys, "gc", "--dry-run")
    assert "checkpoints" in would
    assert "would be freed" in would
    assert run.checkpoints.steps() == [2, 4]
    with held_elsewhere(run.path):
        out, err = output(capsys, "gc")
    assert "1000 B freed" in out
    assert err.startswith("one was left alone: held by process ")
    found = json.loads(output(capsys, "gc", "--json")[0])
    assert found["dry_run"] is False
    assert found["freed_bytes"] > 0
    assert [(one["run"], one["what"]) for one in found["found"]] == [("one", "checkpoints")]
    assert run.checkpoints.steps() == []
    assert output(capsys, "gc") == ("0 B freed\n", "")
