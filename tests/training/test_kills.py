"""A run that is killed, or whose disk fails, at any moment and is begun again ends as the one never interrupted."""

from __future__ import annotations

import errno
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnlab.errors import FileError
from attnlab.runs import RunDirectory
from attnlab.runs.checkpoints import Checkpoints, DamagedCheckpointWarning
from attnlab.storage import disk
from attnlab.training import LostWorkerError, RunResult, RunSpec, Saving
from attnlab.training.engine import Engine, process_group
from support.checkpoints import cut, flip
from support.disk import FailingDisk, kill_at, killing, raising, record_effects
from support.training import At, children_of, ending, fork, kill_self, smoke, train_in, wait, wait_until

STEPS = 8
SPECS = [smoke(steps=STEPS), smoke(steps=STEPS, recipe="fast", dropout=0.1)]


@pytest.fixture(params=SPECS, ids=["gpt2", "fast"])
def spec(request: pytest.FixtureRequest) -> RunSpec:
    found: RunSpec = request.param
    return found


def stop_at(folder: Path, spec: RunSpec, step: int) -> RunResult:
    """A run that was asked to end after this step, with a checkpoint there."""
    return train_in(folder, spec, reporter=At(step - 1, lambda: os.kill(os.getpid(), signal.SIGTERM)))


def test_killed_at_random_steps(tmp_path: Path, spec: RunSpec) -> None:
    """Six times each: at steps with and without a checkpoint, the first and the last included."""
    whole = ending(train_in(tmp_path / "whole", spec))
    steps = [1, STEPS, *random.Random(spec.recipe).choices(range(2, STEPS), k=4)]
    for number, step in enumerate(steps):
        folder = tmp_path / str(number)
        process = fork(lambda folder=folder, step=step: train_in(folder, spec, reporter=At(step, kill_self)))
        assert wait(process) == -signal.SIGKILL
        assert ending(train_in(folder, spec)) == whole, f"killed after step {step}"


def test_killed_again_and_again(tmp_path: Path, spec: RunSpec) -> None:
    """One run, killed after every step that it reaches."""
    for step in range(1, STEPS + 1):
        assert wait(fork(lambda step=step: train_in(tmp_path, spec, reporter=At(step, kill_self)))) == -signal.SIGKILL
        path = next((tmp_path / "runs").iterdir())
        assert RunDirectory.open(path).status in {"unfinished", "new"}
    assert ending(train_in(tmp_path, spec)) == ending(train_in(tmp_path / "whole", spec))


def in_save(monkeypatch: pytest.MonkeyPatch, step: int, effect: int, fail: Callable[[], None], **how: Any) -> None:
    """Let an effect on the disk fail inside the save of one step; every other save is as usual."""
    save = Checkpoints.save

    def failing(self: Checkpoints, at: int, *arguments: Any) -> Path:
        usual = disk.disk
        if at == step:
            disk.disk = FailingDisk(effect, fail, **how)
        try:
            return save(self, at, *arguments)
        finally:
            disk.disk = usual

    monkeypatch.setattr(Checkpoints, "save", failing)


def count_effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: RunSpec, step: int) -> list[str]:
    """What the save of a step does to the disk."""
    effects: list[str] = []
    save = Checkpoints.save
    with monkeypatch.context() as patch:

        def counting(self: Checkpoints, at: int, *arguments: Any) -> Path:
            if at == step:
                effects.extend(record_effects(lambda: save(self, at, *arguments)))
            else:
                save(self, at, *arguments)
            return self.path(at)

        patch.setattr(Checkpoints, "save", counting)
        train_in(tmp_path, spec)
    return effects


def test_killed_anywhere_inside_a_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every effect of the third save, which also removes the first."""
    spec = smoke(steps=7, recipe="fast")
    whole = ending(train_in(tmp_path / "whole", spec))
    effects = count_effects(tmp_path / "counted", monkeypatch, spec, 6)
    assert effects.count("rename") == 2
    for effect in range(len(effects)):
        folder = tmp_path / str(effect)
        with monkeypatch.context() as patch:
            in_save(patch, 6, effect, killing)
            assert wait(fork(lambda folder=folder: train_in(folder, spec))) == -signal.SIGKILL
        result = train_in(folder, spec, saving=Saving())
        assert ending(result) == whole, f"killed at effect {effect}, {effects[effect]}"


def test_killed_at_the_beginning_and_at_the_end(tmp_path: Path) -> None:
    """While the directory is made, and from the last checkpoint to the result."""
    spec = smoke(steps=2, evaluate_every=2)
    whole = ending(train_in(tmp_path / "whole", spec))
    (tmp_path / "counted").mkdir()
    effects = len(record_effects(lambda: train_in(tmp_path / "counted", spec)))
    for effect in [*range(12), *range(effects - 14, effects)]:
        folder = tmp_path / str(effect)
        folder.mkdir()
        kill_at(effect, lambda folder=folder: train_in(folder, spec))  # type: ignore[misc]
        assert ending(train_in(folder, spec)) == whole, f"killed at effect {effect} of {effects}"
        left = next((folder / "runs").iterdir())
        assert (left / "tokenizer.json").exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_failing_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, workers: int) -> None:
    spec = SPECS[0]
    whole = ending(train_in(tmp_path / "whole", spec, workers=workers))
    effects = count_effects(tmp_path / "counted", monkeypatch, spec, 4)
    for effect in range(0, effects.index("rename") + 1, 5):
        folder = tmp_path / str(effect)
        with monkeypatch.context() as patch:
            in_save(patch, 4, effect, raising(number), for_ever=True)
            with pytest.raises(FileError, match=os.strerror(number).lower()) as caught:
                train_in(folder, spec, workers=workers)
        assert "training again resumes" in str(caught.value.hint)
        assert children_of(os.getpid()) == []
        assert ending(train_in(folder, spec, workers=workers)) == whole


def test_a_full_disk_under_the_metrics_and_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = smoke(steps=2, evaluate_every=2)
    whole = ending(train_in(tmp_path / "whole", spec))
    (tmp_path / "counted").mkdir()
    effects = len(record_effects(lambda: train_in(tmp_path / "counted", spec)))
    for effect in range(0, effects - 3, 6):
        folder = tmp_path / str(effect)
        folder.mkdir()
        with monkeypatch.context() as patch:
            patch.setattr(disk, "disk", FailingDisk(effect, raising(errno.ENOSPC), for_ever=True))
            with pytest.raises(FileError, match="no space left") as caught:
                train_in(folder, spec)
        assert caught.value.hint is not None
        assert ending(train_in(folder, spec)) == whole


# Damaged checkpoints


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("damage", [cut, flip, Path.unlink])
def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, file: str, damage: Callable[[Path], None]) -> None:
    spec = SPECS[0]
    stopped = stop_at(tmp_path, spec, 6)
    checkpoints = RunDirectory.open(stopped.path).checkpoints
    assert checkpoints.steps() == [4, 6]
    damage(checkpoints.path(6) / file)
    with pytest.warns(DamagedCheckpointWarning, match="step-000006"):
        result = train_in(tmp_path, spec)
    assert ending(result) == ending(train_in(tmp_path / "whole", spec))


def test_with_every_checkpoint_damaged_it_begins_anew(tmp_path: Path, spec: RunSpec) -> None:
    stopped = stop_at(tmp_path, spec, 6)
    checkpoints = RunDirectory.open(stopped.path).checkpoints
    for step in checkpoints.steps():
        flip(checkpoints.path(step) / "optimizer.safetensors")
    with pytest.warns(DamagedCheckpointWarning) as warned:
        result = train_in(tmp_path, spec)
    assert len(warned) == 2
    assert ending(result) == ending(train_in(tmp_path / "whole", spec))


def test_garbled_metrics_are_written_again(tmp_path: Path) -> None:
    spec = SPECS[0]
    stopped = stop_at(tmp_path, spec, 6)
    with (stopped.path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 7, "loss": 1.0}\n{"step": 8, "lo')
    assert ending(train_in(tmp_path, spec)) == ending(train_in(tmp_path / "whole", spec))


# Several workers


def test_a_killed_leader_leaves_nobody_behind(tmp_path: Path) -> None:
    spec = SPECS[1]
    whole = ending(train_in(tmp_path / "whole", spec, workers=2))
    reader, writer = os.pipe()

    def tell_and_die() -> None:
        os.write(writer, b" ".join(str(child).encode() for child in children_of(os.getpid())))
        kill_self()

    for step in (1, 3, 4):
        folder = tmp_path / str(step)
        process = fork(
            lambda folder=folder, step=step: train_in(folder, spec, workers=2, reporter=At(step, tell_and_die))
        )
        assert wait(process) == -signal.SIGKILL
        (worker,) = (int(child) for child in os.read(reader, 100).split())
        wait_until(lambda worker=worker: not is_running(worker))
        assert ending(train_in(folder, spec, workers=2)) == whole


@pytest.mark.parametrize(("step", "ordered"), [(1, True), (4, True), (STEPS - 1, True), (4, False)])
def test_a_killed_worker_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, ordered: bool) -> None:
    """With shared counters, and with sockets, as on an architecture that may reorder stores."""
    spec = SPECS[0]
    whole = ending(train_in(tmp_path / "whole", spec, workers=2))
    monkeypatch.setattr(process_group, "has_total_store_order", lambda: ordered)

    def kill_worker() -> None:
        (worker,) = children_of(os.getpid())
        os.kill(worker, signal.SIGKILL)

    with pytest.raises(LostWorkerError, match="worker process") as caught:
        train_in(tmp_path, spec, workers=2, reporter=At(step, kill_worker))
    assert "resume" in str(caught.value.hint)
    assert children_of(os.getpid()) == []
    path = next((tmp_path / "runs").iterdir())
    assert RunDirectory.open(path).holder is None
    assert ending(train_in(tmp_path, spec, workers=2)) == whole


def test_a_worker_that_fails_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    step = Engine.step

    def failing(self: Engine, number: int, stop: bool = False) -> Any:
        if number == 2 and not self.group.leads:
            raise MemoryError("too little memory here")
        return step(self, number, stop)

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "step", failing)
        with pytest.raises(LostWorkerError):
            train_in(tmp_path, workers=2)
    assert "too little memory here" in capfd.readouterr().err
    assert train_in(tmp_path, workers=2).outcome == "finished"


def is_running(process: int) -> bool:
    """Whether a process is there and no zombie, which only waits for its parent to look."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in {"Z", "X"}
