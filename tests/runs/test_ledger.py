"""Runs are found wherever they lie below a folder and whatever state they are in, and leave the disk as wholes."""

from __future__ import annotations

import errno
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from attnlab.errors import FileError, UnknownNameError
from attnlab.runs.cleaning import collect_garbage, remove_run
from attnlab.runs.directory import RunDirectory, RunHeldError
from attnlab.runs.ledger import find_run, find_runs
from attnlab.storage import disk
from support.disk import FailingDisk, kill_at, raising, record_effects
from support.processes import held_elsewhere
from support.runs import RECORD, leave_behind, make_run


def test_runs_are_found_and_summarised(tmp_path: Path) -> None:
    make_run(tmp_path / "b")
    make_run(tmp_path / "plan" / "a", finished=True, steps=10)
    make_run(tmp_path / "c", finished=True, outcome="diverged")
    RunDirectory.create(tmp_path / "d", {})
    (tmp_path / "no run").mkdir()
    make_run(tmp_path / ".hidden")
    make_run(tmp_path / "b" / "inside")
    found = find_runs(tmp_path)
    assert [run.id for run in found] == ["b", "c", "d", "plan/a"]
    assert [run.status for run in found] == ["unfinished", "diverged", "new", "finished"]
    one = found[0]
    assert (one.step, one.steps, one.validation_loss, one.seed) == (4, 10, 5.6, 3)
    assert (one.variant, one.recipe, one.size, one.started) == ("cosine", "gpt2", "tiny", RECORD["started"])
    assert one.path == tmp_path / "b"
    assert one.bytes == sum(path.stat().st_size for path in one.path.rglob("*") if path.is_file())
    assert (found[2].step, found[2].steps, found[2].variant, found[2].validation_loss) == (None, None, None, None)


def test_a_folder_that_is_a_run_itself(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    assert [run.id for run in find_runs(tmp_path / "run")] == ["run"]


def test_no_runs(tmp_path: Path) -> None:
    assert find_runs(tmp_path) == []
    assert find_runs(tmp_path / "nowhere") == []
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="is no folder"):
        find_runs(tmp_path / "file")


def test_damaged_runs_are_listed_as_such(tmp_path: Path) -> None:
    for name, file, text in [
        ("a", "run.json", b"{"),
        ("b", "metrics.jsonl", b'garbled\n{"step": 1}\n'),
        ("c", "result.json", b"\xff"),
        ("d", "run.json", b'{"format": 77}'),
    ]:
        (make_run(tmp_path / name).path / file).write_bytes(text)
    found = find_runs(tmp_path)
    assert [run.status for run in found] == ["damaged"] * 4
    for run, words in zip(found, ["no JSON", "line 1", "no JSON", "format 77"], strict=True):
        assert run.problem is not None
        assert words in run.problem
        assert run.bytes > 0


@pytest.mark.parametrize(
    ("spec", "variant"),
    [
        ({"variant": "cosine"}, "cosine"),
        ({"variant": ""}, None),
        ({"variant": {"score": 1}}, None),
        ({"variant": None, "size": ["x"], "steps": "many", "seed": True, "recipe": {}}, None),
        ("no spec", None),
        (None, None),
    ],
)
def test_a_record_of_any_layout_is_summarised(tmp_path: Path, spec: Any, variant: str | None) -> None:
    RunDirectory.create(tmp_path / "run", {"spec": spec, "started": None, "corpus": 3})
    (found,) = find_runs(tmp_path)
    assert (found.variant, found.size, found.steps, found.recipe, found.started) == (variant, None, None, None, None)


def test_a_loss_that_is_not_finite_is_found(tmp_path: Path) -> None:
    make_run(tmp_path / "run").log({"step": 5, "validation_loss": math.inf})
    assert find_runs(tmp_path)[0].validation_loss == math.inf


def test_a_run_is_found_by_name_and_by_path(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "plan" / "one")
    assert find_run("plan/one", tmp_path / "runs") == run.path
    assert find_run(str(run.path), tmp_path / "elsewhere") == run.path
    with pytest.raises(UnknownNameError, match="no run called 'plan/on'") as caught:
        find_run("plan/on", tmp_path / "runs")
    assert "plan/one" in str(caught.value.hint)
    with pytest.raises(FileError, match=r"it has no run\.json"):
        find_run("plan", tmp_path / "runs")
    with pytest.raises(FileError, match="no runs in"):
        find_run("one", tmp_path / "elsewhere")


# Removing


def test_a_run_is_removed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run.path / "link").symlink_to(make_run(tmp_path / "other").path)
    size = find_runs(tmp_path)[1].bytes
    assert remove_run(run.path) == size
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
    assert [(one.id, one.status) for one in find_runs(tmp_path)] == [("other", "unfinished")]


def test_a_damaged_run_is_removed(tmp_path: Path) -> None:
    (make_run(tmp_path / "run").path / "run.json").write_text("{")
    remove_run(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_run_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(FileError, match=r"it has no run\.json"):
        remove_run(tmp_path / "mine")
    (tmp_path / "mine" / "run.json").write_text(json.dumps({"my": "own"}))
    with pytest.raises(FileError, match="not written by attnlab"):
        remove_run(tmp_path / "mine")
    assert (tmp_path / "mine" / "run.json").exists()


def test_where_one_stands_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "run")
    for folder in (run.path, run.path / "checkpoints"):
        monkeypatch.chdir(folder)
        with pytest.raises(FileError, match="the folder you are in"):
            remove_run(run.path)
    assert run.status == "unfinished"


def test_a_running_one_is_not_removed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with held_elsewhere(run.path) as process:
        with pytest.raises(RunHeldError, match=f"process {process} "):
            remove_run(run.path)
        assert run.metrics()
    remove_run(run.path)


def test_a_run_is_removed_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    effects = record_effects(lambda: remove_run(make_run(tmp_path / "whole", steps=0).path))
    begun = len(record_effects(lambda: make_run(tmp_path / "begun", steps=0)))
    for effect in range(len(effects) - begun):
        folder = tmp_path / f"killed at {effect}"
        run = make_run(folder / "run", steps=0)
        kill_at(effect, lambda: remove_run(run.path))  # noqa: B023 (called at once)
        assert [one.status for one in find_runs(folder)] in (["new"], [])
        collect_garbage(folder)
        assert [path.name for path in folder.iterdir()] in (["run"], [])
    with monkeypatch.context() as patch:
        run = make_run(tmp_path / "failing" / "run")
        patch.setattr(disk, "disk", FailingDisk(5, raising(errno.EIO)))
        with pytest.raises(FileError, match="cannot be removed"):
            remove_run(run.path)


# Cleaning up


def test_cleaning_up_removes_what_nobody_needs(tmp_path: Path) -> None:
    finished = make_run(tmp_path / "plan" / "finished", finished=True)
    unfinished = make_run(tmp_path / "unfinished")
    left = [
        leave_behind(tmp_path, "run"),
        leave_behind(tmp_path / "plan", "run"),
        leave_behind(unfinished.path, "run.json"),
        leave_behind(unfinished.path / "checkpoints", "step-000006"),
        leave_behind(unfinished.path / "checkpoints", "step-000008", os.getppid()),  # who does not hold the run
    ]
    before = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    told = collect_garbage(tmp_path, dry_run=True)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) == before
    done = collect_garbage(tmp_path)
    assert done == told
    after = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert sum(one.bytes for one in done) == before - after
    assert [(one.run, one.what) for one in done if one.what == "checkpoints"] == [("plan/finished", "checkpoints")]
    assert not any(path.exists() for path in left)
    assert finished.checkpoints.steps() == []
    assert unfinished.checkpoints.steps() == [2, 4]
    assert finished.status == "finished"
    assert collect_garbage(tmp_path) == []


def test_cleaning_up_keeps_what_may_be_needed(tmp_path: Path) -> None:
    make_run(tmp_path / "no weights", finished=True).path.joinpath("model.safetensors").unlink()
    make_run(tmp_path / "bad weights", finished=True).path.joinpath("model.safetensors").write_bytes(b"\0" * 100)
    living = leave_behind(tmp_path, "run", os.getppid())
    held = make_run(tmp_path / "held", finished=True)
    (make_run(tmp_path / "damaged").path / "run.json").write_text("{")
    with held_elsewhere(held.path):
        found = collect_garbage(tmp_path)
    assert [(one.run, one.bytes) for one in found] == [("damaged", 0), ("held", 0)]
    assert "is damaged" in str(found[0].problem)
    assert "held by process" in str(found[1].problem)
    for name in ("no weights", "bad weights", "held"):
        assert RunDirectory.open(tmp_path / name).checkpoints.steps() == [2, 4]
    assert living.exists()


def test_cleaning_up_tells_what_it_could_not_remove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path / "run", finished=True)
    leave_behind(tmp_path, "run")
    monkeypatch.setattr(disk, "disk", FailingDisk(0, raising(errno.EACCES)))
    first, second = collect_garbage(tmp_path)
    assert (first.bytes, first.problem) == (0, "permission denied")
    assert (second.what, second.problem) == ("checkpoints", None)
