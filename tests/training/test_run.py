"""A run from its spec to its result: finished once, stopped and gone on with, diverged, held, limited by minutes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor.exc import InductorError

from attnlab.corpora import open_corpus
from attnlab.errors import FileError, UnsupportedError
from attnlab.runs import RunDirectory, RunHeldError
from attnlab.training import RunResult, Saving, resume, run, train
from attnlab.training.engine import Engine
from attnlab.training.execution import Execution
from attnlab.training.fitting import steps_in
from support.processes import held_elsewhere
from support.training import ALONE, KINSHIP, At, ending, fork, smoke, train_in, wait


def test_what_a_run_leaves(tmp_path: Path) -> None:
    result = train_in(tmp_path, smoke(corpus=KINSHIP))
    assert result.outcome == "finished"
    assert (result.steps, result.already, result.message) == (6, False, None)
    directory = RunDirectory.open(result.path)
    record = directory.record
    assert record["spec"]["corpus"]["name"] == "kinship"
    assert record["resolved"]["steps"] == 6
    assert record["resolved"]["execution"] == {**Execution().model_dump(), "threads": 1, "workers": 1}
    assert record["corpus"]["hash"] == open_corpus(smoke(corpus=KINSHIP).corpus, tmp_path / "cache").hash
    assert record["versions"]["torch"] == torch.__version__
    metrics = directory.metrics()
    assert [entry["step"] for entry in metrics] == [1, 2, 3, 4, 5, 6]
    assert [entry["step"] for entry in metrics if "validation_loss" in entry] == [4, 6]
    assert metrics[-1]["validation_loss"] == result.validation_loss == directory.result["validation_loss"]
    assert all(entry["gradient_norm"] > 0 and entry["learning_rate"] > 0 for entry in metrics)
    assert directory.checkpoints.steps() == [4, 6]
    assert directory.status == "finished"


def test_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    first = train_in(tmp_path)

    def times() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in [first.path, *first.path.rglob("*")]}

    before = times()
    again, resumed = train_in(tmp_path), resume(first.path)
    assert again == resumed
    assert again.already
    assert again.weights_sha256 == first.weights_sha256
    assert times() == before


def test_other_specs_are_other_runs(tmp_path: Path) -> None:
    """The controls of every test that compares endings."""
    results = [train_in(tmp_path, spec) for spec in (smoke(), smoke(seed=1), smoke(steps=5), smoke(variant="tied-kv"))]
    assert len({result.path for result in results}) == 4
    assert len({ending(result)[0] for result in results}) == 4
    assert len({ending(result)[1] for result in results}) == 4
    assert len({ending(result)[2] for result in results}) == 4


def test_the_same_run_elsewhere_ends_the_same(tmp_path: Path) -> None:
    a, b = train_in(tmp_path / "a"), train_in(tmp_path / "b", saving=Saving(seconds=1e9))
    assert a.path.name == b.path.name
    assert ending(a) == ending(b), "how often it is saved changes nothing"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_signal_stops_between_two_steps(tmp_path: Path, number: int, workers: int) -> None:
    whole = train_in(tmp_path / "whole", workers=workers)
    before = signal.getsignal(number)
    ask = At(3, lambda: os.kill(os.getpid(), number))
    stopped = train_in(tmp_path, workers=workers, reporter=ask, saving=Saving())
    assert signal.getsignal(number) is before
    assert stopped.outcome == "stopped"
    assert stopped.steps == 4, "the step that was on its way is taken"
    directory = RunDirectory.open(stopped.path)
    assert directory.checkpoints.steps() == [4]
    assert directory.status == "unfinished"
    assert ending(train_in(tmp_path, workers=workers)) == ending(whole)


def test_a_stop_at_the_last_step_finishes(tmp_path: Path) -> None:
    result = train_in(tmp_path, reporter=At(5, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    assert result.outcome == "finished"


def test_a_second_interrupt_ends_at_once_and_loses_nothing_saved(tmp_path: Path) -> None:
    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train_in(tmp_path, reporter=At(3, twice))
    assert ending(train_in(tmp_path)) == ending(train_in(tmp_path / "whole"))


def test_two_at_once(tmp_path: Path) -> None:
    """The second is told who holds the run, and the first is not disturbed."""
    reader, writer = os.pipe()
    begun, begin = os.pipe()

    def hold() -> None:
        def pause() -> None:
            os.write(begin, b"!")
            os.read(reader, 1)

        train_in(tmp_path, reporter=At(3, pause))

    process = fork(hold)
    assert os.read(begun, 1) == b"!"
    path = next((tmp_path / "runs").iterdir())
    for again in (lambda: train_in(tmp_path), lambda: resume(path)):
        with pytest.raises(RunHeldError, match=f"process {process} ") as caught:
            again()
        assert caught.value.holder.pid == process
    os.write(writer, b"!")
    assert wait(process) == 0
    assert ending(train_in(tmp_path)) == ending(train_in(tmp_path / "whole"))


def test_two_who_begin_at_once(tmp_path: Path) -> None:
    """Somebody holds the folder just as it is made: nothing is written into it by the other."""
    first = train_in(tmp_path, reporter=At(2, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    with held_elsewhere(first.path) as process, pytest.raises(RunHeldError, match=str(process)):
        train_in(tmp_path)
    assert train_in(tmp_path).outcome == "finished"


# Divergence


def test_an_absurd_learning_rate_diverges(tmp_path: Path) -> None:
    spec = smoke(learning_rate=1e30, warmup_steps=0, steps=30)
    result = train_in(tmp_path, spec)
    assert result.outcome == "diverged"
    assert result.message is not None
    assert f"step {result.steps} " in result.message
    assert "1e+30" in result.message
    assert "lower" in result.message
    kept = json.loads((result.path / "result.json").read_text())
    assert (kept["outcome"], kept["steps"]) == ("diverged", result.steps)
    assert RunDirectory.open(result.path).status == "diverged"
    assert not (result.path / "model.safetensors").exists()
    again = train_in(tmp_path, spec)
    assert again.already
    assert (again.outcome, again.message) == ("diverged", result.message)


def test_a_high_but_finite_loss_is_hopeless_after_a_while(tmp_path: Path) -> None:
    result = train_in(tmp_path, smoke(learning_rate=1, warmup_steps=0, weight_decay=0, steps=200))
    assert result.outcome == "diverged"
    assert result.steps < 200
    assert result.message is not None
    assert "guessing" in result.message
    assert f"up to {result.steps}" in result.message


def test_what_is_hopeless_stays_so_over_an_interruption(tmp_path: Path) -> None:
    spec = smoke(learning_rate=1, warmup_steps=0, weight_decay=0, steps=200)
    whole = train_in(tmp_path / "whole", spec)
    stop = At(whole.steps - 3, lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert train_in(tmp_path, spec, reporter=stop).outcome == "stopped"
    result = train_in(tmp_path, spec)
    assert (result.outcome, result.steps, result.message) == (whole.outcome, whole.steps, whole.message)


@pytest.mark.parametrize("workers", [1, 2])
def test_not_a_number_is_noticed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    plain = Engine._mean_loss

    def poisoned(self: Engine, batch: Any) -> torch.Tensor:
        self.poison = getattr(self, "poison", 0) + 1  # type: ignore[attr-defined]
        return plain(self, batch) * (float("nan") if self.poison == 3 else 1.0)  # type: ignore[attr-defined]

    monkeypatch.setattr(Engine, "_mean_loss", poisoned)
    result = train_in(tmp_path, workers=workers, saving=Saving(steps=1))
    assert result.outcome == "diverged"
    assert result.steps == 3
    assert result.message is not None
    assert "step 3 has a loss of nan" in result.message
    assert RunDirectory.open(result.path).checkpoints.steps() == [1, 2], "what is not a number is not saved"


# Minutes


def test_minutes_become_steps_before_the_first_and_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = smoke(steps=None, minutes=1)
    monkeypatch.setattr(run, "steps_in", lambda *_: 5)
    stopped = train_in(tmp_path, spec, reporter=At(2, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    assert stopped.outcome == "stopped"
    resolved = RunDirectory.open(stopped.path).record["resolved"]
    assert resolved["steps"] == 5

    def measured_again(*_: object) -> int:
        raise AssertionError("the steps are measured once")

    monkeypatch.setattr(run, "steps_in", measured_again)
    result = train_in(tmp_path, spec)
    assert (result.outcome, result.steps) == ("finished", 5)
    assert RunDirectory.open(result.path).record["resolved"] == resolved


def test_steps_in_counts_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that takes a tenth of a second for the four rows of a step."""
    now = 0.0

    def step(self: Engine, number: int, stop: bool = False) -> None:
        del number, stop
        nonlocal now
        now += 0.025 * self.run.batch_size

    monkeypatch.setattr(Engine, "step", step)
    monkeypatch.setattr("attnlab.training.fitting.time.perf_counter", lambda: now)
    spec = smoke(steps=None, minutes=2)
    corpus = open_corpus(spec.corpus)
    assert steps_in(spec, corpus, Execution()) == pytest.approx(0.9 * 120 / 0.1, abs=2)
    assert steps_in(spec.replace(minutes=1e-9), corpus, Execution()) == 1
    assert steps_in(spec, corpus, Execution(workers=2)) == pytest.approx(0.9 * 120 / 0.05, abs=2)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert steps_in(spec, corpus, Execution()) == pytest.approx(0.9 * 120 / 0.025, abs=2)


# What is told on the way


class Recording:
    """A tracker of somebody's own."""

    made: list[Recording] = []  # noqa: RUF012 (one list for all is meant)

    def __init__(self, path: Path, step: int) -> None:
        self.path, self.first, self.closed = path, step, False
        self.told: list[tuple[int, dict[str, float]]] = []
        Recording.made.append(self)

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        self.told.append((step, dict(numbers)))

    def close(self) -> None:
        self.closed = True


def test_a_tracker_gets_every_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recording, "made", [])
    stop = At(3, lambda: os.kill(os.getpid(), signal.SIGTERM))
    train_in(tmp_path, trackers=[Recording], reporter=stop)
    result = train_in(tmp_path, trackers=[Recording])
    first, second = Recording.made
    assert (first.first, second.first, first.path) == (0, 4, result.path)
    assert first.closed
    assert second.closed
    told = [{"step": step, **numbers} for step, numbers in first.told + second.told]
    assert told == RunDirectory.open(result.path).metrics()


def test_a_tracker_that_fails_is_heard_and_the_others_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(Recording):
        def log(self, *_: object) -> None:
            raise OSError("no such server")

    monkeypatch.setattr(Recording, "made", [])
    with pytest.raises(OSError, match="no such server"):
        train_in(tmp_path, trackers=[Recording, Failing], workers=2)
    assert all(tracker.closed for tracker in Recording.made)
    assert train_in(tmp_path, workers=2).outcome == "finished"


# Going on


def test_resume_needs_no_spec(tmp_path: Path) -> None:
    stopped = train_in(tmp_path, reporter=At(3, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    result = resume(stopped.path, cache=tmp_path / "cache")
    assert not result.already
    assert ending(result) == ending(train_in(tmp_path / "whole"))


def test_what_was_chosen_first_stays(tmp_path: Path) -> None:
    """Other wishes do not change a run that has begun."""
    whole = train_in(tmp_path / "whole", micro_batch_size=3)
    stopped = train_in(tmp_path, micro_batch_size=3, reporter=At(3, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    result = train_in(tmp_path, workers=2, micro_batch_size=1)
    assert result.path == stopped.path
    assert ending(result) == ending(whole)


def test_a_run_of_more_threads_than_cores_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does that was begun on a larger machine: nothing is measured that cannot be."""
    monkeypatch.setattr("attnlab.training.loop.available_cores", lambda: 0)
    assert train_in(tmp_path).outcome == "finished"


def test_a_changed_text_is_not_gone_on_with(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("the cat sat on the mat. " * 40)
    spec = smoke(corpus={"name": str(text)})
    stopped = train_in(tmp_path, spec, reporter=At(3, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    text.write_text("the dog sat on the mat. " * 40)
    with pytest.raises(FileError, match="has changed") as caught:
        resume(stopped.path, cache=tmp_path / "cache")
    assert caught.value.hint is not None
    assert train_in(tmp_path, spec).path != stopped.path, "it is another run"
    text.write_text("the cat sat on the mat. " * 40)
    assert resume(stopped.path, cache=tmp_path / "cache").outcome == "finished"


def test_the_default_folder_is_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = train(smoke(steps=1), **ALONE)
    assert isinstance(result, RunResult)
    assert result.path.parent == Path("runs")
    assert (tmp_path / result.path / "result.json").exists()


def test_a_compiler_that_fails_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise InductorError(PermissionError(13, "Permission denied", "cache"), None)

    monkeypatch.setattr(Engine, "step", fail)
    with pytest.raises(UnsupportedError, match=r"cannot compile this model here: PermissionError.*denied") as caught:
        train_in(tmp_path, smoke(steps=2))
    assert "TORCHINDUCTOR_CACHE_DIR" in str(caught.value.hint)
