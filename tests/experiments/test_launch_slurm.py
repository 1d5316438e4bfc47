"""Jobs through submitit, with its executor of local processes in Slurm's place."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from attnlab.errors import SpecError
from attnlab.experiments.launching.jobs import Launcher
from attnlab.experiments.launching.launcher import launcher
from attnlab.experiments.launching.slurm import Task
from support.launching import SAVING, Hearing, Meanwhile, assert_undisturbed, grid, holder_of, runs_under_way

pytest.importorskip("submitit")
# submitit leaves it to Python to find that its processes have ended.
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")


def local(folder: Path, **options: Any) -> Launcher:
    given = {"cluster": "local", "cache": folder / "cache", "saving": SAVING, **options}
    return launcher("slurm", 2, 1, **given)


def disturb(folder: Path, variant: str, number: int) -> Meanwhile:
    """Send a signal to the process that trains a variant."""
    return Meanwhile(
        folder / "runs", lambda run: os.kill(holder_of(run), number), lambda run: run.path.name.startswith(variant)
    )


def test_a_killed_job_is_submitted_again_and_a_preempted_one_goes_on_by_itself(tmp_path: Path) -> None:
    jobs, heard = grid(tmp_path, seeds=1), Hearing()
    killed, preempted = disturb(tmp_path, "softmax", signal.SIGKILL), disturb(tmp_path, "tied-kv", signal.SIGUSR2)
    ends = local(tmp_path).run(jobs, listener=heard)
    assert killed.did is not None
    assert preempted.did is not None
    assert_undisturbed(tmp_path, jobs, ends)
    assert [note.partition(": job")[0] for note in heard.notes] == ["softmax seed 0 is taken up again (1 of 3)"]
    assert any(job.word for state in heard.states for job in state.jobs), "submitit's own word is shown"
    logs = tmp_path / "runs" / "slurm"
    said = [path.read_text() for path in logs.glob("*.err")]
    assert len(said) == 3
    assert sum("this job is preempted" in text for text in said) == 1
    assert not list(logs.glob("*_result.pkl"))


@pytest.mark.slow
def test_an_interruption_cancels_the_jobs(tmp_path: Path) -> None:
    jobs = grid(tmp_path, seeds=1, variants=["softmax"], steps=300)
    Meanwhile(tmp_path / "runs", lambda _: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        local(tmp_path).run(jobs)
    (run,) = runs_under_way(tmp_path / "runs")
    assert run.status == "unfinished", "nobody holds it any more"
    assert run.checkpoints.steps()


def test_what_slurm_cannot_be_asked_for(tmp_path: Path) -> None:
    jobs = grid(tmp_path, seeds=1)
    with pytest.raises(SpecError, match=r"Slurm cannot be asked for that(.|\n)*hint: use partition"):
        local(tmp_path, parameters={"nonsense": 3}).run(jobs)
    with pytest.raises(SpecError, match="mem_gb"):
        local(tmp_path, parameters={"memory": "much"}).run(jobs)


def test_what_is_queued_again_is_the_same(tmp_path: Path) -> None:
    task = Task({"name": str(tmp_path)})
    assert task.checkpoint().function is task
