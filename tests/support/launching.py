"""Grids of runs so small that a test can kill their workers, and what must be true of them afterwards."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from attnlab.experiments.launching.jobs import GridState, Job, JobEnd, LaunchListener
from attnlab.runs import RunDirectory
from attnlab.runs.directory import METRICS
from attnlab.training import Saving
from support.training import ending, smoke, train_in, wait_until

SAVING = Saving(steps=20)
STEPS = 60
VARIANTS = ("softmax", "tied-kv")


def grid(folder: Path, *, steps: int = STEPS, variants: Sequence[str] = VARIANTS, seeds: int = 2) -> list[Job]:
    """A job for each variant and seed."""
    pairs = itertools.product(variants, range(seeds))
    specs = [smoke(variant=variant, seed=seed, steps=steps, evaluate_every=steps) for variant, seed in pairs]
    return [Job(number, spec, folder / "runs") for number, spec in enumerate(specs)]


def assert_undisturbed(folder: Path, jobs: Sequence[Job], ends: Sequence[JobEnd]) -> None:
    """That every job was finished exactly once, and as it is without any disturbance."""
    assert [end.job for end in ends] == list(jobs)
    for end in ends:
        assert end.problem is None, end.problem
        assert end.result is not None
        whole = train_in(folder / "undisturbed", end.job.spec, saving=Saving())
        assert ending(end.result) == ending(whole), f"{end.job} ended otherwise"
        steps = [entry["step"] for entry in RunDirectory.open(end.result.path).metrics()]
        assert steps == list(range(1, whole.steps + 1))
    assert len(list((folder / "runs").glob("*/result.json"))) == len(jobs)


def runs_under_way(out: Path, lines: int = 3) -> list[RunDirectory]:
    """The runs that have come so far and have not ended."""
    found = []
    for path in out.glob(f"*/{METRICS}"):
        with contextlib.suppress(OSError):
            if path.read_bytes().count(b"\n") >= lines and not (path.parent / "result.json").exists():
                found.append(RunDirectory.open(path.parent))
    return found


class Meanwhile(threading.Thread):
    """Does something once a run below a folder is in its midst, while the test waits for the grid."""

    def __init__(
        self,
        out: Path,
        work: Callable[[RunDirectory], object],
        fits: Callable[[RunDirectory], bool] = lambda _: True,
    ) -> None:
        super().__init__(daemon=True)
        self._out, self._work, self._fits = out, work, fits
        self.did: Path | None = None  # the run that was under way
        self.start()

    def run(self) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            for run in runs_under_way(self._out):
                if self._fits(run):
                    self._work(run)
                    self.did = run.path
                    return
            time.sleep(0.02)  # the runs need the processor, too


def holder_of(run: RunDirectory) -> int:
    """The number of the process that trains a run."""
    wait_until(lambda: run.holder is not None and run.holder.pid is not None)
    assert run.holder is not None
    assert run.holder.pid is not None
    return run.holder.pid


class Hearing(LaunchListener):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.states: list[GridState] = []
        self.ends: list[JobEnd] = []
        self.notes: list[str] = []

    def planned(self, jobs: Sequence[Job]) -> None:
        self.jobs = list(jobs)

    def progressed(self, state: GridState) -> None:
        self.states.append(state)

    def ended(self, end: JobEnd) -> None:
        self.ends.append(end)

    def note(self, text: str) -> None:
        self.notes.append(text)
