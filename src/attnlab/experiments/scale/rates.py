"""The learning rate of every arm on every rung.

On the smaller rungs the rate is searched (`rate_search.py`). Through the searched rungs goes a law for each arm,

    log rate = a + b · log N

which gives the rate on the rungs above. On the first of them the law is verified: the rate that it gives is tried
together with its two neighbours, a factor of two away, and the search is extended if a neighbour is better. What was
found there joins the law for the rungs above. There nothing corrects it, so its exponent b is shared by all arms: the
found rates are a factor of √2 or 2 apart, and an exponent of each arm's own would magnify that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

import numpy as np

from attnlab.corpora import Corpus
from attnlab.experiments.launching.jobs import Launcher, LaunchListener
from attnlab.experiments.planning.plan import Arm, Trial
from attnlab.experiments.planning.planner import arms_at
from attnlab.experiments.planning.rate_search import rounded, search_rates
from attnlab.experiments.request import Request, ScaleRequest
from attnlab.training import Execution

_FIRST_GUESS, _GUESS_AT, _GUESS_EXPONENT = 0.016, 30_000, -0.4  # of GPT-2's recipe; a search corrects it
NEIGHBOURS = 3  # rates by which the law is verified: its own and one on each side

Source = Literal["searched", "verified", "law"]


@dataclass(frozen=True)
class RatePoint:
    """The rate of one arm on one rung, where it comes from, and what was tried there."""

    size: str
    parameters: int
    arm: str
    rate: float
    source: Source
    trials: tuple[Trial, ...] = ()


@dataclass(frozen=True)
class RateTable:
    """The rates of all arms on all rungs, and the law of each searched arm as (a, b), in natural logarithms."""

    points: tuple[RatePoint, ...]
    laws: Mapping[str, tuple[float, float]]

    def rates(self) -> dict[str, dict[str, float]]:
        """Return the rates by size and arm."""
        return {size: {one.arm: one.rate for one in points} for size, points in self._by_size()}

    def trials(self) -> dict[str, dict[str, tuple[Trial, ...]]]:
        """Return what was tried, by size and arm."""
        return {size: {one.arm: one.trials for one in points} for size, points in self._by_size()}

    def _by_size(self) -> Iterator[tuple[str, Iterator[RatePoint]]]:
        return groupby(self.points, key=lambda one: one.size)  # the points of a size follow each other


def find_rates(
    request: ScaleRequest, corpus: Corpus, folder: Path, launcher: Launcher, listener: LaunchListener
) -> RateTable:
    """Search, predict and verify the rates on one corpus; trials lie in `folder`, so an interrupted search resumes."""
    asked = request.comparison(corpus.spec.name, {})
    points: list[RatePoint] = []
    for number, size in enumerate(request.rungs):
        arms = arms_at(asked, size, 1.0, corpus, recorded=False)
        count = arms[0].parameters
        points += [
            RatePoint(size, count, one.name, one.run.learning_rate, "law") for one in arms if one.run.learning_rate
        ]
        arms = [arm for arm in arms if arm.run.learning_rate is None]
        if not arms:
            continue
        if number > request.rate_rungs:
            laws = _laws(points)
            points += [RatePoint(size, count, arm.name, rounded(_rate(laws[arm.name], count)), "law") for arm in arms]
            continue
        guesses = [_guess(points, asked, arm, count, corpus) for arm in arms]
        source: Source = "searched" if number < request.rate_rungs else "verified"
        listener.note(f"learning rates at {size}: {source} for {len(arms)} arms")
        rates = request.rate_count if source == "searched" else NEIGHBOURS
        runs = [arm.run for arm in arms]
        tuned = search_rates(runs, rates, request.rate_seeds, corpus, folder, launcher, listener, guesses)
        points += [
            RatePoint(size, count, arm.name, found.run.learning_rate or 0.0, source, found.trials)
            for arm, found in zip(arms, tuned, strict=True)
        ]
    return RateTable(tuple(points), _laws(points))


def _guess(points: Sequence[RatePoint], asked: Request, arm: Arm, count: int, corpus: Corpus) -> float:
    """Return the first rate to try: by the arm's own law, or by experience with the recipe."""
    own = _laws([one for one in points if one.arm == arm.name])
    if own:
        return _rate(own[arm.name], count)
    if asked.recipe == "gpt2":
        return float(_FIRST_GUESS * (count / _GUESS_AT) ** _GUESS_EXPONENT)
    return arm.run.resolve(corpus, Execution()).optimizer.learning_rate


def _rate(law: tuple[float, float], count: int) -> float:
    a, b = law
    return math.exp(a + b * math.log(count))


def _laws(points: Sequence[RatePoint]) -> dict[str, tuple[float, float]]:
    """Fit log rate = a + b · log N by least squares to the rates that were tried, with an a for each arm and one b.

    Where no arm has two of them, b is that of the first guess.
    """
    tried = [one for one in points if one.source != "law"]
    x, y = {}, {}
    for arm in dict.fromkeys(one.arm for one in tried):
        x[arm] = np.log([one.parameters for one in tried if one.arm == arm])
        y[arm] = np.log([one.rate for one in tried if one.arm == arm])
    spread = sum(float(np.sum((one - one.mean()) ** 2)) for one in x.values())
    together = sum(float(np.sum((x[arm] - x[arm].mean()) * y[arm])) for arm in x)
    b = together / spread if spread else _GUESS_EXPONENT
    return {arm: (float(y[arm].mean() - b * x[arm].mean()), b) for arm in x}
