"""Comparisons so small that a test can carry them out, and a launcher that trains in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnlab.experiments.launching.jobs import Job, JobEnd, LaunchListener
from attnlab.experiments.request import Request
from attnlab.training import train

SMALL: dict[str, Any] = {
    "variants": ("tied-kv",),
    "size": "nano",
    "corpus": "mqar",
    "vocabulary_size": 16,
    "corpus_options": {"pairs": 2, "validation_examples": 8},
    "steps": 6,
    "changes": (
        "num_layers=1",
        "model_width=16",
        "num_heads=2",
        "context_length=8",
        "batch_size=4",
        "validation_rows=4",
        "evaluate_every=2",
    ),
    "seeds": 3,
    "pilot": 0,
}


def small(**changes: Any) -> Request:
    return Request(**{**SMALL, **changes})


class InProcess:
    """Trains one job after the other, here; counts those that were trained."""

    processes, threads = 1, 1

    def __init__(self, cache: Path, *, fails: int | None = None) -> None:
        self.cache, self.fails, self.trained = cache, fails, 0

    def run(self, jobs: Sequence[Job], *, listener: LaunchListener | None = None) -> list[JobEnd]:  # noqa: ARG002
        ends = []
        for job in jobs:
            if self.fails is not None and self.trained >= self.fails:
                ends.append(JobEnd(job, None, "the machine broke", None))
                continue
            result = train(job.spec, job.out, cache=self.cache, threads=1, workers=1, precision="float32")
            self.trained += not result.already
            ends.append(JobEnd(job, result, None, None))
        return ends
