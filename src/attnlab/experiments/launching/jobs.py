"""A grid of runs as values: what is to be trained, how, and what became of it.

A run is idempotent: its directory is named by its spec and its text, one that has ended is not trained again, and one
that was interrupted resumes. So a job can be given to any process, any number of times.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from attnlab.errors import SpecError
from attnlab.experiments.launching.run_states import GridState
from attnlab.training import RunResult, RunSpec, Saving


@dataclass(frozen=True)
class Job:
    """One run of a grid. Its directory lies in the folder `out`."""

    number: int
    spec: RunSpec
    out: Path
    label: str = ""  # what it is called, if not by its variant
    measured: bool = True  # whether what `Work.after` names is called for it

    def __str__(self) -> str:
        return f"{self.label or self.spec.variant} seed {self.spec.seed}"


@dataclass(frozen=True)
class JobEnd:
    """What became of a job. There may be both a result and a problem: that of what came after the run."""

    job: Job
    result: RunResult | None
    problem: str | None
    peak_bytes: int | None  # of the process while it trained; None where the system does not tell


class LaunchListener:
    """Is told how a grid progresses, always in the thread that called `run`. This one keeps silent."""

    def planned(self, jobs: Sequence[Job]) -> None:
        """Note which jobs are to be done."""

    def progressed(self, state: GridState) -> None:
        """Note, once a second or so, how far all of them are."""

    def ended(self, end: JobEnd) -> None:
        """Note that a job has ended, now or before."""

    def note(self, text: str) -> None:
        """Note something worth a line of its own."""


class Launcher(Protocol):
    """Whatever can have jobs done."""

    @property
    def processes(self) -> int:
        """Return how many jobs are worked on at a time, as far as that is known."""

    @property
    def threads(self) -> int:
        """Return the threads of each job."""

    def run(self, jobs: Sequence[Job], *, listener: LaunchListener | None = None) -> list[JobEnd]:
        """Have all jobs done; their ends are in their order. Interrupted, it saves all runs and can be called again."""


@dataclass(frozen=True)
class Work:
    """How every job of a grid is done, alike for all: the same numbers come only of the same execution."""

    threads: int = 1
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    after: str | None = None  # "module:function", called in the worker with the path of a run that has ended
    cache: Path | None = None  # of texts
    saving: Saving | None = None
    variants_from: Path | None = None  # a Python file that adds variants

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise SpecError(f"{self.threads} threads cannot train", hint="use 1 or more, or leave it out")
        if self.after is not None and not all(self.after.partition(":")):
            raise SpecError(
                f"{self.after!r} names no function to call after a run", hint="write module:function, as in a.b:measure"
            )

    def order(self, job: Job, name: str) -> Mapping[str, Any]:
        """Return what a worker anywhere is told, as JSON: the job, and the name that its directory should have."""
        return {
            "spec": job.spec.model_dump(mode="json"),
            "out": str(job.out.resolve()),
            "name": name,
            "here": os.getcwd(),  # noqa: PTH109 (where relative paths begin)
            "execution": {
                "threads": self.threads,
                "workers": 1,
                "precision": self.precision,
                "compile": self.compile,
            },
            "after": self.after if job.measured else None,
            "cache": None if self.cache is None else str(self.cache.resolve()),
            "saving": None if self.saving is None else asdict(self.saving),
            "variants_from": None if self.variants_from is None else str(self.variants_from.resolve()),
        }
