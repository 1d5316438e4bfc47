"""The same number of learning-rate trials for every arm, so that none is judged by a rate that suits another.

Trials use seeds that no comparison uses. They lie evenly on a logarithmic scale around the recipe's own rate, a factor
of two apart, and the arm takes the best of those that did not diverge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from attnlab.corpora import Corpus
from attnlab.errors import AttnlabError
from attnlab.experiments.launching import Job, JobEnd, Launcher, LaunchListener
from attnlab.experiments.plan import Trial
from attnlab.training import Execution, RunSpec

TUNING_SEED = 1_000_000
_APART = 2.0


@dataclass(frozen=True)
class Tuned:
    """An arm's run with the rate that it takes, and all that were tried."""

    run: RunSpec
    trials: tuple[Trial, ...]


def tune(
    runs: Sequence[RunSpec],
    count: int,
    seeds: int,
    corpus: Corpus,
    folder: Path,
    launcher: Launcher,
    listener: LaunchListener,
) -> list[Tuned]:
    """Try `count` rates for each run, each with `seeds` seeds."""
    tried = [(run, rate) for run in runs for rate in _rates(run, count, corpus)]
    jobs: list[Job] = []
    for run, rate in tried:
        for number in range(seeds):
            trial = _with_rate(run, rate, corpus).replace(seed=TUNING_SEED + number)
            jobs.append(Job(len(jobs), trial, folder, f"{run.variant} at {rate:g}"))
    ends = launcher.run(jobs, listener=listener)
    trials = [
        Trial(learning_rate=rate, loss=_mean_loss(ends[place * seeds : (place + 1) * seeds]))
        for place, (_, rate) in enumerate(tried)
    ]
    tuned = []
    for number, run in enumerate(runs):
        mine = tuple(trials[number * count : (number + 1) * count])
        tuned.append(Tuned(_with_rate(run, _best(run, mine), corpus), mine))
    return tuned


def _mean_loss(ends: Sequence[JobEnd]) -> float | None:
    """None if any of them diverged."""
    losses = []
    for end in ends:
        if end.result is None:
            raise AttnlabError(f"the trial {end.job} failed: {end.problem}", hint="call it again: it goes on")
        if end.result.outcome != "finished" or end.result.validation_loss is None:
            return None
        losses.append(end.result.validation_loss)
    return fmean(losses)


def _rates(run: RunSpec, count: int, corpus: Corpus) -> list[float]:
    middle = run.resolve(corpus, Execution()).optimizer.learning_rate
    return [float(f"{middle * _APART ** (number - (count - 1) // 2):.4g}") for number in range(count)]


def _with_rate(run: RunSpec, rate: float, corpus: Corpus) -> RunSpec:
    """Muon's matrices have a rate of their own, which moves along."""
    usual = run.resolve(corpus, Execution()).optimizer
    if usual.kind != "muon":
        return run.replace(learning_rate=rate)
    matrices = usual.matrix_learning_rate * rate / usual.learning_rate
    return run.replace(learning_rate=rate, matrix_learning_rate=float(f"{matrices:.4g}"))


def _best(run: RunSpec, trials: Sequence[Trial]) -> float:
    known = [(trial.loss, trial.learning_rate) for trial in trials if trial.loss is not None]
    if not known:
        raise AttnlabError(
            f"{run.variant} diverged at every learning rate that was tried: "
            f"{', '.join(f'{trial.learning_rate:g}' for trial in trials)}",
            hint="lower the middle one with --change learning_rate=…",
        )
    return min(known)[1]
