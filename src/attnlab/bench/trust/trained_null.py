"""Runs of one spec at many seeds, for comparisons of it with itself, in which there is nothing to find."""

from __future__ import annotations

from pathlib import Path

from attnlab.errors import AttnlabError
from attnlab.experiments.launching.jobs import Job, LaunchListener
from attnlab.experiments.launching.launcher import launcher
from attnlab.training import RunSpec

STEPS = 100
SEED = 3_000_000  # and those after it, which nothing else uses


def train_null(
    count: int, out: Path, listener: LaunchListener | None = None, *, smoke: bool = False
) -> dict[int, float]:
    """The final losses of `count` runs of the default size, fewer steps than a comparison's, by their seeds."""
    run = RunSpec(size="pico", steps=4 if smoke else STEPS, learning_rate=4e-3, warmup_steps=10, batch_size=16)
    if smoke:
        tiny = {"name": "mqar", "vocabulary_size": 32, "options": {"pairs": 2}}
        run = run.replace(corpus=tiny, num_layers=1, model_width=16, num_heads=2, batch_size=2)
    run = run.replace(evaluate_every=run.steps, validation_rows=8 if smoke else 512)
    jobs = [Job(number, run.replace(seed=SEED + number), out) for number in range(count)]
    losses = {}
    for end in launcher("local").run(jobs, listener=listener):
        if end.result is None or end.result.validation_loss is None:
            raise AttnlabError(f"a run for the null comparisons failed: {end.problem}", hint="call it again to go on")
        losses[end.job.spec.seed] = end.result.validation_loss
    return losses
