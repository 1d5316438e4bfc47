"""What cannot be trained is refused with what to do about it, before anything is written."""

from __future__ import annotations

import errno
import math
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnlab.errors import AttnlabError, FileError, SpecError, UnknownNameError, UnsupportedError
from attnlab.runs import RunDirectory
from attnlab.storage import disk
from attnlab.training import RunResult, resume
from support.disk import FailingDisk, raising
from support.runs import change_record
from support.training import At, ending, smoke, train_in


def assert_refused(folder: Path, kind: type[AttnlabError], match: str, spec: Callable[[], Any], **options: Any) -> str:
    """That training raises this, with a hint and without a trace on disk; returns the hint."""
    with pytest.raises(kind, match=match) as caught:
        train_in(folder, spec(), **options)
    assert not (folder / "runs").exists()
    return str(caught.value.hint)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty|has no|no tokens"),
        (b"short", "too few|needs more"),
        (b"\x89PNG\r\n\x00\x01\xff" * 50, "is no text"),
        (b"\xff\xfe\xff" * 50, "UTF-8"),
        (b"abcd " * 6, "too few|needs more"),  # long enough to train on, and too short to validate
    ],
    ids=["empty", "short", "binary", "not-utf8", "no-validation"],
)
def test_bad_texts(tmp_path: Path, content: bytes, message: str) -> None:
    text = tmp_path / "text.txt"
    text.write_bytes(content)
    hint = assert_refused(tmp_path, (FileError, SpecError), message, lambda: smoke(corpus={"name": str(text)}))  # type: ignore[arg-type]
    assert hint != "None"


def test_a_missing_text(tmp_path: Path) -> None:
    assert_refused(tmp_path, FileError, "no file", lambda: smoke(corpus={"name": str(tmp_path / "absent.txt")}))


@pytest.mark.parametrize(
    ("changes", "nearest"),
    [
        ({"size": "nanno"}, "nano"),
        ({"recipe": "gtp2"}, "gpt2"),
        ({"variant": "sofmax"}, "softmax"),
        ({"variant": "softmax,windw"}, "window"),
        ({"variant": "softmax,(windw*2)"}, "window"),
        ({"optimizer": "moun"}, "muon"),
        ({"corpus": {"name": "worlt"}}, "world"),
        ({"position": "rop"}, "rope"),
    ],
)
def test_unknown_names(tmp_path: Path, changes: dict[str, Any], nearest: str) -> None:
    hint = assert_refused(tmp_path, UnknownNameError, "there is no", lambda: smoke(**changes))
    assert nearest in hint


NUMBERS = [
    *("steps", "minutes", "batch_size", "evaluate_every", "validation_rows"),
    *("num_layers", "model_width", "num_heads", "context_length", "mlp_width"),
    *("learning_rate", "matrix_learning_rate", "clip"),
]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "many"])
def test_numbers_are_positive(name: str, value: object) -> None:
    with pytest.raises(SpecError, match=name):
        smoke(**{"steps": None, name: value})


@pytest.mark.parametrize(
    "bad",
    [{"seed": -1}, {"warmup_steps": -1}, {"weight_decay": -0.1}, {"dropout": 1.0}, {"dropout": -0.1}, {"stpes": 3}],
)
def test_other_bad_fields(bad: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=next(iter(bad))):
        smoke(**bad)


def test_steps_and_minutes_are_not_both_given() -> None:
    with pytest.raises(SpecError, match="not both"):
        smoke(steps=3, minutes=1)


def test_heads_that_do_not_divide_the_width(tmp_path: Path) -> None:
    assert_refused(tmp_path, SpecError, "3", lambda: smoke(num_heads=3))


@pytest.mark.parametrize(
    "wish", [{"threads": 0}, {"workers": 0}, {"threads": -2}, {"workers": -1}, {"micro_batch_size": 0}]
)
def test_bad_wishes(tmp_path: Path, wish: dict[str, int]) -> None:
    ((name, value),) = wish.items()
    assert_refused(tmp_path, SpecError, f"{name}.* is {value}", smoke, **wish)


def test_a_precision_that_there_is_not(tmp_path: Path) -> None:
    assert_refused(tmp_path, SpecError, "precision", smoke, precision="float8")


def test_a_context_shorter_than_the_task(tmp_path: Path) -> None:
    assert "context" in assert_refused(tmp_path, SpecError, "do not fit", lambda: smoke(context_length=4))


# The folder


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_folder_that_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(disk, "disk", FailingDisk(0, raising(number), for_ever=True))
    assert "`out=FOLDER`" in assert_refused(tmp_path, FileError, os.strerror(number).lower(), smoke)


def test_a_file_where_the_runs_should_lie(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(FileError, match="cannot be made") as caught:
        train_in(tmp_path)
    assert caught.value.hint is not None


@pytest.fixture
def stopped(tmp_path: Path) -> RunResult:
    return train_in(tmp_path, reporter=At(3, lambda: os.kill(os.getpid(), signal.SIGTERM)))


def test_a_run_of_another_format(tmp_path: Path, stopped: RunResult) -> None:
    change_record(stopped.path, format=99)
    for again in (lambda: train_in(tmp_path), lambda: resume(stopped.path)):
        with pytest.raises(FileError, match="in format 99"):
            again()


@pytest.mark.parametrize("resolved", [None, {}, {"steps": 3}, "text"])
def test_a_record_that_says_too_little(tmp_path: Path, stopped: RunResult, resolved: object) -> None:
    change_record(stopped.path, resolved=resolved)
    for again in (lambda: train_in(tmp_path), lambda: resume(stopped.path)):
        with pytest.raises(FileError, match="no run that this attnlab can resume") as caught:
            again()
        assert "anew" in str(caught.value.hint)


def test_a_run_of_a_graphics_card_where_there_is_none(
    tmp_path: Path, stopped: RunResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    resolved = RunDirectory.open(stopped.path).record["resolved"]
    resolved["execution"]["device"] = "cuda"
    change_record(stopped.path, resolved=resolved)
    with pytest.raises(UnsupportedError, match="begun on a graphics card"):
        resume(stopped.path, cache=tmp_path / "cache")


def test_a_record_that_is_no_json(tmp_path: Path, stopped: RunResult) -> None:
    (stopped.path / "run.json").write_text("{")
    with pytest.raises(FileError, match="is damaged"):
        train_in(tmp_path)


def test_no_run_to_resume(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no run directory"):
        resume(tmp_path / "absent")
    with pytest.raises(FileError, match="is no run directory"):
        resume(tmp_path)


class Planted:
    """What does harm when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (Path.touch, (self.mark,))


def test_no_pickle_is_ever_read(tmp_path: Path, stopped: RunResult) -> None:
    mark = tmp_path / "harm"
    poison = pickle.dumps(Planted(mark))
    pickle.loads(poison)
    assert mark.exists(), "it would be seen"
    mark.unlink()
    checkpoint = stopped.path / "checkpoints" / "step-000004"
    assert checkpoint.is_dir()
    for folder in (stopped.path, checkpoint, tmp_path / "runs"):
        for name in ("model.bin", "model.pt", "optimizer.pt", "state.pkl", "pytorch_model.bin", "model.ckpt"):
            (folder / name).write_bytes(poison)
    newer = stopped.path / "checkpoints" / "step-000005"
    newer.mkdir()
    for name in ("model.safetensors", "state.json", "manifest.json"):
        (newer / name).write_bytes(poison)
    with pytest.warns(UserWarning, match="step-000005 is damaged"):
        result = train_in(tmp_path)
    assert ending(result) == ending(train_in(tmp_path / "whole"))
    assert not mark.exists()
