"""A bracketed search for the learning rate of every arm, with seeds that no comparison uses.

Rates start a factor of two apart around a first guess. The grid is extended until the best rate lies inside it, then
refined by a factor of √2 on both sides. Every rate is tried with the same seeds.

A seed *stays behind* if it diverges or ends well above the median of its rate: it has not left the plateau. The rate
that is taken is the largest one at which no seed stays behind, whose mean loss is within a standard error of the best
such mean, and above which the next rate is nearly as good. A rate with a better mean but a seed that stays behind is
never taken while there is another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median, stdev

from attnlab.corpora import Corpus
from attnlab.errors import AttnlabError
from attnlab.experiments.launching.jobs import Job, Launcher, LaunchListener
from attnlab.experiments.planning.plan import Trial
from attnlab.training import Execution, RunSpec

TUNING_SEED = 1_000_000  # and those after it, which no comparison uses
BEHIND = 0.1  # nats above the median of its rate from which a seed counts as staying behind
_APART, _FINE = 2.0, math.sqrt(2.0)
_EXTENSIONS = 6  # factors of two beyond the first grid, on each side
_LEAST_TOLERANCE = 0.002  # nats by which two means may differ and count as equal
_NEARLY_AS_GOOD = 0.02  # nats above the best mean that the next larger rate may have
_REFINED_FROM = 5  # first rates from which on the best is refined


@dataclass(frozen=True)
class Tuned:
    """An arm's run with the rate that it takes, and all that were tried, ascending."""

    run: RunSpec
    trials: tuple[Trial, ...]


@dataclass
class _Search:
    """The search of one arm: losses by rate, one for each seed."""

    run: RunSpec
    corpus: Corpus
    centre: float
    count: int
    seeds: int
    losses: dict[float, list[float | None]] = field(default_factory=dict)
    refined: bool = False

    def pending(self) -> list[float]:
        """Return the rates to try next; none when the search is over."""
        if not self.losses:
            first = (self.count - 1) // 2
            return [rounded(self.centre * _APART ** (number - first)) for number in range(self.count)]
        rates = sorted(self.losses)
        best = self._best_mean()
        if best is None:  # every rate fails: look further down
            lower = rounded(rates[0] / _APART)
            return [lower] if self._within(lower) else []
        inside = {best, choose_rate(self.run.variant, self.trials())}  # neither may lie at an end of the grid
        edges = [rounded(rates[0] / _APART)] if rates[0] in inside else []
        edges += [rounded(rates[-1] * _APART)] if rates[-1] in inside else []
        wanted = [rate for rate in edges if self._within(rate)]
        if wanted or self.refined or self.count < _REFINED_FROM:
            return wanted
        self.refined = True
        return [rate for rate in (rounded(best / _FINE), rounded(best * _FINE)) if rate not in self.losses]

    def _within(self, rate: float) -> bool:
        far = abs(math.log2(rate / self.centre))
        return far <= (self.count - 1) / 2 + _EXTENSIONS + 0.5

    def _best_mean(self) -> float | None:
        means = {rate: _mean(found) for rate, found in self.losses.items() if not stays_behind(found)}
        if not means:  # prefer anything that learns at all
            means = {rate: _mean(found) for rate, found in self.losses.items() if None not in found}
        return min(means, key=lambda rate: means[rate]) if means else None

    def trials(self) -> tuple[Trial, ...]:
        """Return all that was tried, ascending."""
        return tuple(
            Trial(learning_rate=rate, loss=None if None in found else _mean(found), losses=tuple(found))
            for rate, found in sorted(self.losses.items())
        )

    def tuned(self) -> Tuned:
        trials = self.trials()
        return Tuned(with_rate(self.run, choose_rate(self.run.variant, trials), self.corpus), trials)


def search_rates(
    runs: Sequence[RunSpec],
    count: int,
    seeds: int,
    corpus: Corpus,
    folder: Path,
    launcher: Launcher,
    listener: LaunchListener,
    centres: Sequence[float] | None = None,
) -> list[Tuned]:
    """Search the rate of each run, `count` rates at first, each with `seeds` seeds.

    `centres` are first guesses; by default the rates that the runs have, or the recipe's own.
    """
    guesses = centres or [run.resolve(corpus, Execution()).optimizer.learning_rate for run in runs]
    searches = [_Search(run, corpus, guess, count, seeds) for run, guess in zip(runs, guesses, strict=True)]
    while wanted := [(search, rate) for search in searches for rate in search.pending()]:
        jobs = [
            Job(
                number * seeds + seed,
                with_rate(search.run, rate, corpus).replace(seed=TUNING_SEED + seed),
                folder,
                f"{search.run.variant} at rate {rate:g}",
                measured=False,
            )
            for number, (search, rate) in enumerate(wanted)
            for seed in range(seeds)
        ]
        ends = launcher.run(jobs, listener=listener)
        for number, (search, rate) in enumerate(wanted):
            search.losses[rate] = [
                end.loss(f"the trial {end.job}") for end in ends[number * seeds : (number + 1) * seeds]
            ]
    return [search.tuned() for search in searches]


def choose_rate(name: str, trials: Sequence[Trial]) -> float:
    """Return the largest rate that is as good as the best, at which no seed stays behind, with a margin of safety.

    Three seeds say little about the rate above which training turns unstable, so the next larger rate that was tried
    must be nearly as good, too. Where that holds for none, the smallest rate that is as good as the best is taken.
    """
    stable = [trial for trial in trials if not stays_behind(trial.losses)]
    pool = stable or [trial for trial in trials if trial.loss is not None]
    if not pool:
        raise AttnlabError(
            f"{name} diverged at every learning rate that was tried: "
            f"{', '.join(f'{trial.learning_rate:g}' for trial in trials)}",
            hint="lower the first guess with `learning_rate=0.0001`",
        )
    if not stable:  # the one whose worst seed is best
        return min(pool, key=lambda trial: max(loss for loss in trial.losses if loss is not None)).learning_rate
    best = min(stable, key=lambda trial: _mean(trial.losses))
    good = [trial.learning_rate for trial in stable if _as_good(trial, best)]
    near = {trial.learning_rate for trial in stable if _mean(trial.losses) <= _mean(best.losses) + _NEARLY_AS_GOOD}
    safe = [
        low for low, high in pairwise(sorted(trial.learning_rate for trial in trials)) if low in good and high in near
    ]
    return max(safe, default=min(good))


def _as_good(trial: Trial, best: Trial) -> bool:
    """Return whether a mean is within a standard error of the best, paired by seed."""
    gaps = [ours - theirs for ours, theirs in zip(trial.losses, best.losses, strict=True) if ours and theirs]
    error = stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
    return fmean(gaps) <= max(_LEAST_TOLERANCE, error)


def stays_behind(losses: Sequence[float | None]) -> bool:
    """Return whether a seed diverged or ends well above the median of all."""
    finished = [loss for loss in losses if loss is not None]
    return len(finished) < len(losses) or max(finished) > median(finished) + BEHIND


def with_rate(run: RunSpec, rate: float, corpus: Corpus) -> RunSpec:
    """Return the run with another rate; Muon's matrices have a rate of their own, which moves along."""
    usual = run.resolve(corpus, Execution()).optimizer
    if usual.kind != "muon":
        return run.replace(learning_rate=rate)
    return run.replace(
        learning_rate=rate, matrix_learning_rate=rounded(usual.matrix_learning_rate * rate / usual.learning_rate)
    )


def rounded(rate: float) -> float:
    """Return a rate with four digits, so that the same rate always has the same name."""
    return float(f"{rate:.4g}")


def _mean(losses: Sequence[float | None]) -> float:
    return fmean(loss for loss in losses if loss is not None)
