"""What holds for every way to launch: what is done before, what a worker does, and what is refused."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from attnlab.attention.names import catalogue
from attnlab.corpora import open_corpus
from attnlab.errors import AttnlabError, FileError, SpecError, UnknownNameError
from attnlab.experiments.launching import slurm, worker
from attnlab.experiments.launching.jobs import Job, Work
from attnlab.experiments.launching.launcher import launcher
from attnlab.experiments.launching.status_table import RETAKES, StatusTable
from attnlab.experiments.launching.worker import attempt, perform
from attnlab.processes.child import Child
from attnlab.runs import RunHeldError
from support.launching import Hearing, grid
from support.processes import held_elsewhere
from support.training import smoke, train_in


def order(folder: Path, job: Job | None = None, **options: Any) -> dict[str, Any]:
    job = job or Job(0, smoke(), folder / "runs")
    return Work(cache=folder / "cache", **options).order(job, job.spec.name(open_corpus(job.spec.corpus).hash))


def forbid(*_: object, **__: object) -> None:
    raise AssertionError("this must not happen")


def test_what_has_ended_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = grid(tmp_path, steps=2)
    whole = [train_in(tmp_path, job.spec) for job in jobs]
    worker.keep_peak(whole[0].path, 123_456)
    monkeypatch.setattr(Child, "__init__", forbid)
    monkeypatch.setattr("attnlab.training.run.train", forbid)
    heard = Hearing()
    ends = launcher("local", cache=tmp_path / "cache").run(jobs, listener=heard)
    assert [end.result and end.result.weights_sha256 for end in ends] == [result.weights_sha256 for result in whole]
    assert all(end.result is not None and end.result.already for end in ends)
    assert [end.peak_bytes for end in ends] == [123_456, None, None, None]
    assert heard.ends == ends
    assert heard.notes == ["4 of 4 runs had ended before"]
    assert launcher("local").run([]) == []


def test_a_result_that_cannot_be_read_is_a_problem_of_its_job_alone(tmp_path: Path) -> None:
    jobs = grid(tmp_path, steps=2, seeds=1)
    damaged, _ = (train_in(tmp_path, job.spec) for job in jobs)
    (damaged.path / "result.json").write_text("{")
    first, second = launcher("local", cache=tmp_path / "cache").run(jobs)
    assert first.result is None
    assert "is damaged" in (first.problem or "")
    assert second.result is not None


def test_a_worker_trains_measures_and_does_what_comes_after(tmp_path: Path) -> None:
    first = perform(order(tmp_path))
    assert first["result"]["outcome"] == "finished"
    assert first["problem"] is None
    path = Path(first["result"]["path"])
    assert worker.read_peak(path) == first["peak_bytes"]
    again = perform(order(tmp_path, after="json:no_such_function"))
    assert again["result"]["already"]
    assert again["peak_bytes"] == first["peak_bytes"], "as it was when it trained"
    assert "json:no_such_function failed after the run: AttributeError" in again["problem"]
    assert "after the run: 1 and 2" in (worker._after("support.launch_hooks:refuse", path) or "")


def test_the_peak_is_that_of_one_run(tmp_path: Path) -> None:
    if not worker.reset_peak():
        pytest.skip("this system does not forget a peak")
    ballast = bytearray(200 << 20)
    ballast[:: 1 << 12] = b"x" * (200 << 8)
    before = worker.peak_bytes()
    del ballast
    assert worker.reset_peak()
    after = worker.peak_bytes()
    assert before is not None
    assert after is not None
    assert after < before - (150 << 20)
    assert worker.keep_peak(tmp_path, 5) == 5
    assert worker.keep_peak(tmp_path, 3) == 5, "of an interrupted run, the highest counts"
    assert worker.keep_peak(tmp_path, None) == 5
    (tmp_path / "usage.json").write_text('{"peak_bytes": "many"}')
    assert worker.read_peak(tmp_path) is None
    assert worker.keep_peak(tmp_path / "nowhere", 7) == 7, "a number that cannot be kept is no reason to fail"


def test_a_run_that_somebody_else_trains_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train_in(tmp_path / "whole", smoke(seed=1))
    job = Job(0, smoke(seed=1), tmp_path / "runs")
    path = train_in(tmp_path, job.spec).path
    (path / "result.json").rename(tmp_path / "kept.json")
    monkeypatch.setattr(worker, "_POLL", 0.0)
    slept: list[float] = []
    with held_elsewhere(path):

        def finish(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 2:
                (tmp_path / "kept.json").rename(path / "result.json")

        monkeypatch.setattr(worker.time, "sleep", finish)
        assert perform(order(tmp_path, job))["result"]["weights_sha256"] == whole.weights_sha256
    assert len(slept) >= 2

    (path / "result.json").unlink()
    monkeypatch.setattr(worker, "_PATIENCE", -1.0)
    with held_elsewhere(path), pytest.raises(RunHeldError):
        perform(order(tmp_path, job))


def test_another_text_on_another_machine_is_told(tmp_path: Path) -> None:
    wrong = {**order(tmp_path), "name": "softmax-of-another-text"}
    with pytest.raises(FileError, match="is another one here"):
        perform(wrong)
    assert "is another one here" in attempt(wrong)["error"]
    assert not (tmp_path / "runs").exists()


def test_mistakes_of_all_kinds_are_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(worker, "perform", lambda _: 1 / 0)
    assert attempt(order(tmp_path)) == {"error": "ZeroDivisionError: division by zero"}


def test_variants_of_ones_own_reach_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_known", dict(catalogue._known))  # other tests list all variants
    (tmp_path / "mine.py").write_text(
        "from attnlab.attention import Variant, add_variant\n"
        'add_variant(Variant("launch-sharp", "Sharper.", {"score": {"kind": "cosine", "temperature": 0.5}}))\n'
    )
    told = {**order(tmp_path, variants_from=tmp_path / "mine.py"), "name": "any"}
    (tmp_path / "mine.py").unlink()  # its text is part of the order: other machines need not have it
    told["spec"] = {**told["spec"], "variant": "launch-sharp"}
    with pytest.raises(FileError, match="another one here"):  # and not: no such variant
        perform(told)


def test_a_job_is_not_tried_for_ever(tmp_path: Path) -> None:
    heard = Hearing()
    table = StatusTable(grid(tmp_path, seeds=1), Work(cache=tmp_path / "cache"), heard)
    assert table.left == [0, 1]
    assert [table.lose(0, "gone\nand more") for _ in range(RETAKES + 1)] == [True] * RETAKES + [False]
    assert heard.notes == [f"softmax seed 0 is taken up again ({number} of 3): gone" for number in (1, 2, 3)]
    assert [end.problem for end in heard.ends] == [
        "gone\nand more\n\nit was tried 4 times, and each time the process was lost"
    ]
    result = {"path": "x", "outcome": "stopped", "steps": 1, "validation_loss": None, "seconds": 1.0}
    stopped = {"result": result, "peak_bytes": None, "problem": None}
    assert table.answer(1, stopped), "a run that was only stopped is resumed"
    assert not table.answer(1, {"error": "no disk"})
    assert [end.problem for end in table.ends()][1] == "no disk"


def test_nothing_is_measured_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The peak of the machine takes a moment, which a grid would lose with every run."""
    monkeypatch.setattr("attnlab.training.loop.matmul_peak", forbid)
    assert train_in(tmp_path).outcome == "finished"


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownNameError, match=r"called 'locla'\n\nhint: did you mean 'local'"):
        launcher("locla")
    with pytest.raises(SpecError, match="address"):
        launcher("local", address="10.0.0.1:6379")
    for options in ({"processes": 0}, {"threads": 0}):
        with pytest.raises(SpecError, match=r"(processes|threads) is 0"):
            launcher("local", **options)
    with pytest.raises(UnknownNameError, match=r"called 'afterr'\n\nhint: did you mean 'after'"):
        launcher("local", afterr="a:b")
    for after in ("json", "json:", ":dumps"):
        with pytest.raises(SpecError, match="names no function"):
            launcher("local", after=after)
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    for name in ("ray", "slurm"):
        with pytest.raises(AttnlabError, match=rf"is not installed\n\nhint: pip install 'attnlab\[{name}\]'"):
            launcher(name)


def test_slurm_needs_slurm_and_parameters_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "check_extra", lambda *_: None)
    monkeypatch.setattr(slurm.shutil, "which", lambda _: None)
    with pytest.raises(AttnlabError, match="sbatch is not found"):
        launcher("slurm")
    with pytest.raises(UnknownNameError, match="cluster"):
        launcher("slurm", cluster="slrum")
    for wrong in (0, "soon", "-5", 1.5, "0:00:00"):
        with pytest.raises(SpecError, match="as its time"):
            launcher("slurm", cluster="local", parameters={"time": wrong})
    given = {"partition": "short", "time": "1-01:30:01", "gpus": "2", "memory": 8, "qos": "low", "slurm_account": "us"}
    assert slurm._translate(given) == {
        "slurm_partition": "short",
        "timeout_min": 25 * 60 + 31,
        "gpus_per_node": 2,
        "mem_gb": 8,
        "slurm_qos": "low",
        "slurm_account": "us",
    }


def test_every_job_has_the_same_execution(tmp_path: Path) -> None:
    one = launcher("local", threads=1, cache=tmp_path)
    other = launcher("local", cache=tmp_path)
    assert one.threads == other.threads == 1
    told = one.work.order(Job(3, smoke(), tmp_path), "name")  # type: ignore[attr-defined]
    assert told["execution"] == {"threads": 1, "workers": 1, "precision": "float32", "compile": False}
