"""TensorBoard gets every number of a run, and is asked for only when somebody wants it."""

from __future__ import annotations

import builtins
import errno
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from attnlab.errors import FileError, UnsupportedError
from attnlab.runs import RunDirectory
from attnlab.training import TensorBoard
from support.training import At, smoke, train_in


def read_events(path: Path) -> dict[str, list[tuple[int, float]]]:
    """The scalars in the event files, as TensorBoard itself reads them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other packages' making
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(str(path / "tensorboard"))
        events.Reload()
        return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


@pytest.mark.filterwarnings("ignore")  # of other packages' making
def test_every_number_is_in_the_events(tmp_path: Path) -> None:
    stop = At(3, lambda: os.kill(os.getpid(), signal.SIGTERM))
    train_in(tmp_path, smoke(), trackers=[TensorBoard], reporter=stop)
    result = train_in(tmp_path, smoke(), trackers=[TensorBoard])
    events = read_events(result.path)
    metrics = RunDirectory.open(result.path).metrics()
    assert events.keys() == {"loss", "gradient_norm", "learning_rate", "validation_loss"}
    for name, told in events.items():
        expected = [(entry["step"], pytest.approx(entry[name], rel=1e-6)) for entry in metrics if name in entry]
        assert told == expected


@pytest.mark.filterwarnings("ignore")
def test_what_came_after_the_checkpoint_is_hidden(tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("pulled the plug")

    with pytest.raises(RuntimeError, match="plug"):
        train_in(tmp_path, smoke(), trackers=[TensorBoard], reporter=At(3, fail))
    result = train_in(tmp_path, smoke(), trackers=[TensorBoard])
    assert [step for step, _ in read_events(result.path)["loss"]] == [1, 2, 3, 4, 5, 6], "none of them twice"


def test_event_files_that_cannot_be_written(tmp_path: Path) -> None:
    tracker = TensorBoard(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracker._writer, "add_scalar", full)
        with pytest.raises(FileError, match="event files for TensorBoard cannot be written: no space left"):
            tracker.log(1, {"loss": 1.0})
    tracker.close()


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith(("torch.utils.tensorboard", "tensorboard")):
            raise ImportError(name)
        return usual(name, *rest)

    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UnsupportedError, match="not installed") as caught:
        train_in(tmp_path, trackers=[TensorBoard], workers=2)
    assert "attnlab[tensorboard]" in str(caught.value.hint)
    assert train_in(tmp_path).outcome == "finished"


def test_nothing_is_tracked_unasked(tmp_path: Path) -> None:
    assert not (train_in(tmp_path).path / "tensorboard").exists()
