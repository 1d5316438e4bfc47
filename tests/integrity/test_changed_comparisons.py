"""The answer and the plan of a comparison: changed ones are not believed, and unreadable ones are one sentence."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from attnlab.cli import main
from attnlab.errors import Terminated
from attnlab.experiments import comparing
from attnlab.storage.plans import read_plan, write_plan


def test_a_changed_answer_is_not_believed(comparison: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", str(comparison)]
    assert main(command) == 0
    before = capsys.readouterr()
    path = comparison / "answer.json"
    answer = json.loads(path.read_text())
    verdicts = [row[1] for row in answer["answer"]["rows"]]
    for row in answer["answer"]["rows"]:
        row[1] = "better"
    assert verdicts != ["better"] * len(verdicts)
    path.write_text(json.dumps(answer))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(command) == 0
    again = capsys.readouterr()
    assert f"warning: {path} was changed after it was written" in again.err
    assert again.out == before.out
    assert [row[1] for row in json.loads(path.read_text())["answer"]["rows"]] == verdicts


def test_an_answer_that_lost_its_hash_is_not_believed(comparison: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = comparison / "answer.json"
    answer = json.loads(path.read_text())
    answer["answer"]["first_lines"] = ["Everything is better."]
    path.write_text(json.dumps({"format": answer["format"], "answer": answer["answer"]}))
    assert main(["compare", str(comparison), "--quiet"]) == 0
    assert "Everything is better" not in capsys.readouterr().out


def test_an_edited_plan_is_told_beside_an_answer(comparison: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = comparison / "plan.json"
    path.write_text(path.read_text().replace('"alpha": 0.05', '"alpha": 0.5'))
    assert main(["compare", str(comparison)]) == 2
    captured = capsys.readouterr()
    assert f"{path} was changed after it was made" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seeds": "x"}, "seeds of a plan is 'x'"),
        ({"smallest_p": None}, "smallest_p of a plan is None"),
        ({"more": 1}, "a plan has no field 'more'"),
    ],
)
def test_a_plan_that_cannot_be_read_is_one_sentence(
    changes: dict[str, object], said: str, comparison: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As another version of attnlab may write it, with its hash."""
    write_plan(comparison, {**read_plan(comparison), **changes})
    assert main(["compare", str(comparison)]) == 2
    error = capsys.readouterr().err
    assert f"error: {comparison / 'plan.json'} cannot be read: {said}" in error
    assert "hint: compare again in another folder" in error
    assert "pydantic" not in error
    assert "http" not in error


def test_a_plan_as_json(comparison: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(comparison), "--plan", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.pop("folder") == str(comparison)
    assert found == read_plan(comparison)


@pytest.mark.parametrize(
    ("interrupt", "word", "code"), [(KeyboardInterrupt, "interrupted", 130), (Terminated, "terminated", 143)]
)
def test_an_interruption_says_what_is_kept(
    interrupt: type[BaseException],
    word: str,
    code: int,
    comparison: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(*_: object) -> None:
        raise interrupt

    monkeypatch.setattr(comparing, "check_runs", stop)
    (comparison / "answer.json").unlink()
    assert main(["compare", str(comparison), "--quiet"]) == code
    said = f"{word}: what was trained is kept, and the same command resumes from there\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    "content", [{}, {"looks": 3, "seconds": 1}, {"looks": [{"seeds": ["x"], "verdicts": {}}], "seconds": 1}]
)
def test_damaged_analyses_are_one_sentence(
    content: dict[str, object], comparison: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (comparison / "looks.json").write_text(json.dumps(content))
    assert main(["compare", comparison.name, "--quiet"]) == 2
    error = capsys.readouterr().err
    assert "looks.json is damaged: it holds no analysis" in error
    assert "hint:" in error


def test_a_changed_analysis_is_not_believed(comparison: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = comparison / "looks.json"
    content = json.loads(path.read_text())
    content["looks"][0]["verdicts"] = {}
    path.write_text(json.dumps(content))
    assert main(["compare", str(comparison), "--json", "--quiet"]) == 2
    assert "looks.json was changed after it was written" in capsys.readouterr().err
