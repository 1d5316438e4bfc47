"""The same number of learning-rate trials for every arm, so that none is judged by a rate that suits another.

Trials use a seed that no comparison uses. They lie evenly on a logarithmic scale around the recipe's own rate, a factor
of two apart, and the arm takes the best of those that did not diverge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attnlab.corpora import Corpus
from attnlab.errors import AttnlabError
from attnlab.experiments.launching import Job, Launcher, LaunchListener
from attnlab.experiments.plan import Trial
from attnlab.training import Execution, RunSpec

TUNING_SEED = 1_000_000
_APART = 2.0


@dataclass(frozen=True)
class Tuned:
    """An arm's run with the rate that it takes, and all that were tried."""

    run: RunSpec
    trials: tuple[Trial, ...]

    @property
    def at_the_edge(self) -> bool:
        """Whether the best lies at the end of what was tried, so that a better one may lie beyond."""
        rates = [trial.learning_rate for trial in self.trials]
        return len(rates) > 1 and self.run.learning_rate in {min(rates), max(rates)}


def tune(
    runs: Sequence[RunSpec], count: int, corpus: Corpus, folder: Path, launcher: Launcher, listener: LaunchListener
) -> list[Tuned]:
    """Try `count` rates for each run."""
    jobs: list[Job] = []
    tried: list[float] = []
    for run in runs:
        for rate in _rates(run, count, corpus):
            jobs.append(Job(len(jobs), _with_rate(run, rate, corpus).replace(seed=TUNING_SEED), folder))
            tried.append(rate)
    ends = launcher.run(jobs, listener=listener)
    tuned = []
    for number, run in enumerate(runs):
        mine = range(number * count, (number + 1) * count)
        trials = []
        for job in mine:
            result = ends[job].result
            if result is None:
                raise AttnlabError(f"a trial of {run.variant} failed: {ends[job].problem}", hint="call it again")
            loss = result.validation_loss if result.outcome == "finished" else None
            trials.append(Trial(learning_rate=tried[job], loss=loss))
        tuned.append(Tuned(_with_rate(run, _best(run, trials), corpus), tuple(trials)))
    return tuned


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
