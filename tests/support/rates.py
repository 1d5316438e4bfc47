"""A launcher that trains nothing: the loss of a run is a known function of its spec."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from attnlab.experiments.launching.jobs import Job, JobEnd, LaunchListener
from attnlab.training import RunResult, RunSpec

Loss = Callable[[RunSpec], float | None]  # None for a run that diverges


class KnownLosses:
    """Ends every job at once with the loss of its spec; keeps the jobs of each call."""

    processes, threads = 1, 1

    def __init__(self, loss: Loss, *, fails: bool = False) -> None:
        self.loss, self.fails = loss, fails
        self.calls: list[list[Job]] = []

    def run(self, jobs: Sequence[Job], *, listener: LaunchListener | None = None) -> list[JobEnd]:  # noqa: ARG002
        self.calls.append(list(jobs))
        return [JobEnd(job, None, "the machine broke", None) if self.fails else self._end(job) for job in jobs]

    def _end(self, job: Job) -> JobEnd:
        loss = self.loss(job.spec)
        outcome = "finished" if loss is not None else "diverged"
        return JobEnd(job, RunResult(Path("nowhere"), outcome, 1, loss, 1.0), None, None)

    @property
    def jobs(self) -> list[Job]:
        return [job for call in self.calls for job in call]


def rate_of(spec: RunSpec) -> float:
    assert spec.learning_rate is not None
    return spec.learning_rate


def octaves(spec: RunSpec, best: float) -> float:
    """Return the distance of a run's rate to the best in factors of two."""
    return math.log2(rate_of(spec) / best)


def bowl(best: float, depth: float = 0.05) -> Loss:
    """Return a loss that is quadratic in the logarithm of the rate, and a seed's noise, the same at all rates."""
    return lambda spec: 2 + depth * octaves(spec, best) ** 2 + 0.001 * (spec.seed % 3)
