"""Runs in local processes: killed, interrupted, left alone by their parent, they all end as if nothing had happened."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from attnlab.experiments.launching import launcher as launchers
from attnlab.experiments.launching import status_table
from attnlab.experiments.launching.jobs import Job
from attnlab.experiments.launching.launcher import launcher
from attnlab.experiments.launching.worker import read_peak
from attnlab.processes import crew
from attnlab.storage.disk import is_alive
from support.launching import SAVING, Hearing, Meanwhile, assert_undisturbed, grid, holder_of, runs_under_way
from support.training import KINSHIP, fork, smoke, wait, wait_until

FRAGILE = """
import itertools, json, os, sys

first = sys.stdin.readline()
if '"seed": 7' in first:
    print("out of luck", file=sys.stderr, flush=True)
    os._exit(9)
sys.stdin = itertools.chain([first], sys.stdin)

from attnlab.experiments.launching.worker import perform
from attnlab.training.grid_process import serve_until_alone

serve_until_alone(perform)
"""

HOOK = """
from pathlib import Path

def measure(path):
    (path / "measured.txt").write_text("yes")

def fail(path):
    raise RuntimeError("no such head")
"""


def test_a_killed_worker_costs_only_the_steps_since_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "TICK", 0.1)
    monkeypatch.setattr(status_table, "POLL", 0.1)
    jobs, heard = grid(tmp_path), Hearing()
    meanwhile = Meanwhile(tmp_path / "runs", lambda run: os.kill(holder_of(run), signal.SIGKILL))
    ends = launcher("local", 2, 1, cache=tmp_path / "cache", saving=SAVING).run(jobs, listener=heard)
    assert meanwhile.did is not None
    assert_undisturbed(tmp_path, jobs, ends)
    assert sum("taken up again (1 of 3)" in note and "code -9" in note for note in heard.notes) == 1
    assert heard.jobs == jobs
    assert sorted(end.job.number for end in heard.ends) == [0, 1, 2, 3]
    for end in ends:
        assert end.result is not None
        assert not end.result.already
        assert end.peak_bytes == read_peak(end.result.path)
        assert end.peak_bytes is None or end.peak_bytes > 50e6  # PyTorch alone needs more
    assert any(job.step and job.loss for state in heard.states for job in state.running)
    assert all(0 <= state.share <= 1 for state in heard.states)


def test_an_interruption_saves_every_run_and_the_next_call_goes_on(tmp_path: Path) -> None:
    jobs = grid(tmp_path, seeds=1)
    one = launcher("local", 1, 1, cache=tmp_path / "cache")  # it saves nothing by itself for a minute
    before = signal.getsignal(signal.SIGTERM)
    Meanwhile(tmp_path / "runs", lambda _: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(KeyboardInterrupt):
        one.run(jobs)
    assert signal.getsignal(signal.SIGTERM) is before
    (begun,) = runs_under_way(tmp_path / "runs")
    assert begun.status == "unfinished", "nobody holds it any more"
    assert begun.checkpoints.steps() == [begun.metrics()[-1]["step"]], "it was saved where it stopped"
    assert_undisturbed(tmp_path, jobs, one.run(jobs))


def test_processes_do_not_outlive_their_parent(tmp_path: Path) -> None:
    jobs = grid(tmp_path, seeds=1, steps=100_000)
    parent = fork(lambda: launcher("local", 1, 1, cache=tmp_path / "cache").run(jobs))
    wait_until(lambda: bool(runs_under_way(tmp_path / "runs")))
    (run,) = runs_under_way(tmp_path / "runs")
    worker = holder_of(run)
    os.kill(parent, signal.SIGKILL)
    assert wait(parent) == -signal.SIGKILL
    try:
        wait_until(lambda: not is_alive(worker), 30)
    finally:
        if is_alive(worker):
            os.kill(worker, signal.SIGKILL)
    assert run.checkpoints.steps(), "it saved its run"


def test_what_goes_wrong_with_one_job_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fragile_worker.py").write_text(FRAGILE)
    (tmp_path / "some_hook.py").write_text(HOOK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(launchers, "_MODULE", "fragile_worker")
    specs = [
        smoke(seed=7),
        smoke(),
        smoke(corpus={"name": str(tmp_path / "missing.txt")}),
        smoke(corpus={**KINSHIP, "validation_share": 0.0001}),
        smoke(),
    ]
    jobs = [Job(number, spec, tmp_path / "runs") for number, spec in enumerate(specs)]
    heard = Hearing()
    one = launcher("local", 1, 1, cache=tmp_path / "cache", after="some_hook:measure")
    dead, good, missing, impossible, again = one.run(jobs, listener=heard)
    assert dead.result is None
    assert "ended with code 9" in (dead.problem or "")
    assert "out of luck" in (dead.problem or "")
    assert "it was tried 4 times" in (dead.problem or "")
    assert [f"({number} of 3)" in note for number, note in enumerate(heard.notes, start=1)] == [True] * 3
    assert good.problem is None
    assert good.result is not None
    assert (good.result.path / "measured.txt").read_text() == "yes"
    assert missing.result is None
    assert "missing.txt" in (missing.problem or "")
    assert impossible.result is None
    assert "tokens to validate on" in (impossible.problem or "")
    assert again.result is not None, "the same job twice is one run"
    assert again.result.already
    assert again.result.weights_sha256 == good.result.weights_sha256
