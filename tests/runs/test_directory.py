"""A run directory: what is written is read, by whoever comes next, after whatever happened."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock
import pytest
import torch

import attnlab
from attnlab.errors import AttnlabError, FileError, InputError
from attnlab.runs.directory import FORMAT, RunDirectory, RunHeldError
from attnlab.runs.metrics import Metrics, MetricsFollower
from attnlab.storage import disk
from support.disk import FailingDisk, kill_at, raising, record_effects
from support.processes import held_elsewhere

RECORD = {"spec": {"steps": 10, "seed": 0}, "versions": {"attnlab": "0.1.0"}, "started": "2026-01-02T03:04:05+00:00"}


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "runs" / "one", RECORD)


# The record


def test_a_record_is_read_as_it_was_written(run: RunDirectory) -> None:
    assert RunDirectory.exists(run.path)
    again = RunDirectory.open(run.path)
    assert again.record == run.record == {"format": FORMAT, **RECORD}
    again.record["spec"]["steps"] = 11
    assert again.record == run.record
    assert sorted(path.name for path in run.path.iterdir()) == [".lock", "run.json"]


def test_a_record_is_strict_json(tmp_path: Path) -> None:
    record = {"width": math.nan, "folder": tmp_path, "shape": (1, 2), "words": "ü", "format": 99}
    run = RunDirectory.create(tmp_path / "run", record)
    written = json.loads((run.path / "run.json").read_bytes(), parse_constant=lambda word: pytest.fail(word))
    assert len(written.pop("sha256")) == 64
    assert written == {"format": FORMAT, "width": "nan", "folder": str(tmp_path), "shape": [1, 2], "words": "ü"}
    assert run.record == written


@pytest.mark.parametrize("record", [{"a": object()}, {"a": {1: 2}}, {"a": torch.zeros(1)}])
def test_what_is_no_json_is_refused_before_anything_is_made(tmp_path: Path, record: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="JSON cannot hold"):
        RunDirectory.create(tmp_path / "run", record)
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_not_begun_twice(run: RunDirectory) -> None:
    with pytest.raises(FileError, match="there is a run in") as caught:
        RunDirectory.create(run.path, {"other": 1})
    assert "`out=FOLDER`" in str(caught.value.hint)
    assert RunDirectory.open(run.path).record == run.record


def test_a_folder_that_is_there_may_become_a_run(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    assert RunDirectory.create(tmp_path, RECORD).status == "new"


def refused(path: Path) -> str:
    with pytest.raises(FileError) as caught:
        RunDirectory.open(path)
    assert caught.value.hint
    return caught.value.message


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    assert "there is no run directory" in refused(tmp_path / "nowhere")
    assert "it has no run.json" in refused(tmp_path)
    (tmp_path / "run.json").mkdir()
    assert "it has no run.json" in refused(tmp_path)
    assert not RunDirectory.exists(tmp_path)


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"\xff\xfe{}", b'{"format": 1} x', b"[" * 100_000])
def test_a_damaged_record_is_refused(run: RunDirectory, text: bytes) -> None:
    (run.path / "run.json").write_bytes(text)
    assert "run.json is damaged" in refused(run.path)


@pytest.mark.parametrize("written", [{"format": 2, "versions": {"attnlab": "9.9"}}, {"format": "1"}, {}])
def test_a_run_of_another_version_is_refused(run: RunDirectory, written: dict[str, Any]) -> None:
    (run.path / "run.json").write_text(json.dumps(written))
    message = refused(run.path)
    assert f"in format {written.get('format')}" in message
    assert f"this attnlab ({attnlab.__version__}) reads format {FORMAT}" in message
    assert ("by attnlab 9.9" in message) is ("versions" in written)
    assert json.loads((run.path / "run.json").read_text()) == written


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_beginning_fails_at_any_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    effects = record_effects(lambda: RunDirectory.create(tmp_path / "whole" / "run", RECORD))
    for effect in range(len(effects)):
        path = tmp_path / str(effect) / "run"
        with monkeypatch.context() as patch:
            patch.setattr(disk, "disk", FailingDisk(effect, raising(number)))
            with pytest.raises(FileError, match=os.strerror(number).lower()) as caught:
                RunDirectory.create(path, RECORD)
        assert caught.value.hint
        last = effect == len(effects) - 1  # the flush after the name is there
        assert RunDirectory.exists(path) is last
        if not last:
            assert RunDirectory.create(path, RECORD).record["spec"] == RECORD["spec"]


# Who holds it


def test_the_second_is_told_who_holds_it(run: RunDirectory) -> None:
    with held_elsewhere(run.path, "attnlab train --size tiny") as process:
        with pytest.raises(RunHeldError) as caught, run.hold():
            pytest.fail("two hold it")
        holder = run.holder
        assert holder is not None
        assert (holder.pid, holder.host, holder.command) == (process, socket.gethostname(), "attnlab train --size tiny")
        assert caught.value.holder == holder
        for words in (str(process), socket.gethostname(), "attnlab train --size tiny", f"since {holder.since}"):
            assert words in caught.value.message
        assert isinstance(caught.value, AttnlabError)
        assert caught.value.hint
        assert run.status == "running"
    # That process was killed, and never said that it ended.
    assert (run.path / ".holder.json").exists()
    assert run.holder is None
    assert run.status == "new"
    with run.hold():
        assert run.holder is not None
        assert run.holder.pid == os.getpid()
    assert run.holder is None


def test_holding_twice_in_one_process_is_told_too(run: RunDirectory) -> None:
    again = RunDirectory.open(run.path)
    with run.hold():
        with pytest.raises(RunHeldError, match=f"process {os.getpid()} "), again.hold():
            pytest.fail("two hold it")
        assert again.holder is not None
    with again.hold():
        assert run.holder is not None


def test_an_error_ends_the_hold(run: RunDirectory) -> None:
    with pytest.raises(ZeroDivisionError), run.hold():
        raise ZeroDivisionError
    assert run.holder is None
    assert not (run.path / ".holder.json").exists()


def test_a_holder_who_left_no_name(run: RunDirectory) -> None:
    stale = {"pid": 2**22 + 1, "host": socket.gethostname(), "command": "killed", "since": "then"}
    for content in (None, "{", json.dumps(stale)):
        with filelock.FileLock(run.path / ".lock"):
            if content is not None:
                (run.path / ".holder.json").write_text(content)
            with pytest.raises(RunHeldError, match=r"is held by another process\n"), run.hold():
                pytest.fail("two hold it")


def test_looking_does_not_disturb(run: RunDirectory) -> None:
    before = sorted(path.name for path in run.path.iterdir())
    assert (run.holder, run.status, run.result, run.metrics()) == (None, "new", None, [])
    assert sorted(path.name for path in run.path.iterdir()) == before


def test_those_who_look_do_not_see_each_other(run: RunDirectory) -> None:
    with (run.path / ".lock").open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH | fcntl.LOCK_NB)
        assert run.holder is None


def test_a_run_that_was_removed_cannot_be_held(run: RunDirectory) -> None:
    (run.path / "run.json").unlink()
    with pytest.raises(FileError, match="was removed"), run.hold():
        pytest.fail("it is gone")
    for path in run.path.iterdir():
        path.unlink()
    run.path.rmdir()
    with pytest.raises(FileError, match="there is no folder"), run.hold():
        pytest.fail("it is gone")
    assert not run.path.exists()


def test_a_folder_that_may_not_be_written_cannot_be_held(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(filelock.FileLock, "acquire", forbid)
    with pytest.raises(FileError, match="cannot be held for writing: permission denied"), run.hold():
        pytest.fail("it may not be written")


# Metrics


def fill(run: RunDirectory, steps: int) -> None:
    for step in range(steps):
        run.log({"step": step, "loss": 1 / (step + 1)})


def test_metrics_are_read_as_they_were_logged(run: RunDirectory) -> None:
    entry = {"step": 3, "loss": 0.1 + 0.2, "worst": math.inf, "least": -math.inf, "words": "ü\n", "none": None}
    run.log(entry)
    run.log({"step": 4, "loss": math.nan})
    first, second = run.metrics()
    assert first == entry
    assert math.isnan(second["loss"])
    lines = (run.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2
    for line in lines:
        json.loads(line, parse_constant=lambda word: pytest.fail(word))
    assert run.status == "unfinished"


@pytest.mark.parametrize("entry", [{}, {"loss": 1.0}, {"step": 1.5}, {"step": True}, {"step": "1"}])
def test_metrics_need_a_step(run: RunDirectory, entry: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="need the step"):
        run.log(entry)
    assert run.metrics() == []


def test_metrics_cut_anywhere_are_those_before(run: RunDirectory) -> None:
    fill(run, 3)
    path = run.path / "metrics.jsonl"
    whole, entries = path.read_bytes(), run.metrics()
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        found = run.metrics()
        assert found == entries[: len(found)]
        assert len(found) == max(whole[:length].count(b"\n"), whole[: length + 1].count(b"\n"))
        run.log({"step": 9})  # does not stick to half a line
        assert run.metrics() == [*found, {"step": 9}]


def test_rewinding_forgets_what_came_later(run: RunDirectory) -> None:
    run.rewind(3)
    assert not (run.path / "metrics.jsonl").exists()
    fill(run, 6)
    whole = (run.path / "metrics.jsonl").read_bytes()
    with (run.path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 3, "lo')
    run.rewind(5)
    assert (run.path / "metrics.jsonl").read_bytes() == whole
    run.rewind(2)
    assert [entry["step"] for entry in run.metrics()] == [0, 1, 2]
    for step in range(3, 6):
        run.log({"step": step, "loss": 1 / (step + 1)})
    assert (run.path / "metrics.jsonl").read_bytes() == whole
    run.rewind(-1)
    assert run.metrics() == []


def test_rewinding_is_whole_or_not_at_all(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(run, 4)
    path = run.path / "metrics.jsonl"
    whole = path.read_bytes()
    effects = record_effects(lambda: run.rewind(1))
    for effect in range(len(effects)):
        path.write_bytes(whole)
        kill_at(effect, lambda: run.rewind(1))
        assert len(run.metrics()) == (4 if effect <= effects.index("rename") else 2)
        path.write_bytes(whole)
        with monkeypatch.context() as patch:
            patch.setattr(disk, "disk", FailingDisk(effect, raising(errno.ENOSPC)))
            with pytest.raises(FileError, match="no space left"):
                run.rewind(1)
        assert len(run.metrics()) in (4, 2)


def test_damage_at_the_end_is_left_out_and_damage_before_is_told(run: RunDirectory) -> None:
    fill(run, 2)
    path = run.path / "metrics.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0\0\0\n\xff\n[1]\n{}\n")
    assert len(run.metrics()) == 2
    path.write_bytes(b"{garbled}\n" + whole)
    for read in (run.metrics, lambda: run.rewind(0)):
        with pytest.raises(FileError, match=r"line 1 of .* is damaged"):
            read()
    assert path.read_bytes() == b"{garbled}\n" + whole


def test_metrics_on_a_full_disk(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(run, 2)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "disk", FailingDisk(1, raising(errno.ENOSPC)))  # after half a line
        with pytest.raises(FileError, match="no space left"):
            run.log({"step": 2, "loss": 0.5})
    run.log({"step": 2, "loss": 0.25})
    assert [entry["step"] for entry in run.metrics()] == [0, 1, 2]
    assert run.metrics()[-1]["loss"] == 0.25


# The end


@pytest.mark.parametrize(("outcome", "status"), [("finished", "finished"), ("diverged", "diverged")])
def test_a_result_ends_the_run(run: RunDirectory, outcome: str, status: str) -> None:
    fill(run, 1)
    run.finish({"outcome": outcome, "loss": math.nan})
    again = RunDirectory.open(run.path)
    assert again.result == {"outcome": outcome, "loss": "nan"}
    assert again.status == status
    with again.hold():
        assert run.status == status


def test_a_result_is_whole_or_not_there(run: RunDirectory) -> None:
    run.finish({})
    for effect in range(len(record_effects(lambda: run.finish({"loss": 1})))):
        (run.path / "result.json").unlink(missing_ok=True)
        kill_at(effect, lambda: run.finish({"loss": 2}))
        assert run.result in (None, {"loss": 2})


def test_a_damaged_result_is_told(run: RunDirectory) -> None:
    (run.path / "result.json").write_text("{")
    with pytest.raises(FileError, match=r"result\.json is damaged"):
        _ = run.status


def test_a_checkpoint_lasts_no_longer_than_the_metrics_before_it(run: RunDirectory) -> None:
    fill(run, 1)
    save: Callable[[], Path] = lambda: run.checkpoints.save(1, {"model": {"a": torch.ones(2)}}, {})  # noqa: E731
    assert record_effects(save)[:2] == ["flush", "make_folder"]
    (run.path / "metrics.jsonl").unlink()
    assert run.status == "unfinished"
    found = RunDirectory.open(run.path).checkpoints.latest()
    assert found is not None
    assert found.path == run.path / "checkpoints" / "step-000001"


def test_metrics_are_followed_while_they_are_written(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", {})
    path = run.path / "metrics.jsonl"
    follower = MetricsFollower(path)
    assert not [*follower.read()]
    assert Metrics(path).last() is None
    run.log({"step": 1, "loss": 2.0})
    run.log({"step": 2, "loss": math.inf})
    assert [*follower.read()] == [{"step": 1, "loss": 2.0}, {"step": 2, "loss": math.inf}]
    with path.open("ab") as file:
        file.write(b'{"step": 3, "lo')
    assert not [*follower.read()], "half a line is left for the next time"
    assert not follower.was_rewound()
    assert Metrics(path).last() == {"step": 2, "loss": math.inf}
    run.rewind(1)
    assert follower.was_rewound()
    assert [*follower.read()] == [{"step": 1, "loss": 2.0}]
    with path.open("ab") as file:
        file.write(b'garbled\n{"step": 2}\n')
    assert not follower.was_rewound()
    assert [*follower.read()] == [{"step": 2}]
