"""Loss during healing, over seeds: its final value, and the tokens until it is close to the original's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attnlab.retrofit.healing.plan import Method
from attnlab.statistics import Interval, mean_interval

Points = tuple[tuple[float, float], ...]  # tokens, and the loss after them in nats


@dataclass(frozen=True)
class HealedRun:
    """One seed of one method: its folder, and the loss from the conversion on. It may have diverged."""

    seed: int
    path: Path
    curve: Points
    diverged: bool = False

    @property
    def final(self) -> float:
        return math.nan if self.diverged else self.curve[-1][1]


@dataclass(frozen=True)
class Healing:
    """All seeds of one method, for one variant or for the original."""

    method: Method
    runs: tuple[HealedRun, ...]

    @property
    def final(self) -> Interval | None:
        """Return the loss at the end with its interval over seeds; None if any seed diverged."""
        return over_seeds([run.final for run in self.runs])

    def until(self, limit: float) -> tuple[list[float], Interval | None]:
        """Return the tokens after which seeds have a loss up to the limit, and their interval if all of them do."""
        found = [tokens for run in self.runs if (tokens := tokens_until(run.curve, limit)) is not None]
        return found, over_seeds(found) if len(found) == len(self.runs) else None

    def difference(self, other: Healing) -> Interval | None:
        """Return by how much the loss at the end exceeds another's, seed by seed."""
        theirs = {run.seed: run.final for run in other.runs}
        return over_seeds([run.final - theirs[run.seed] for run in self.runs if run.seed in theirs])


def over_seeds(values: Sequence[float]) -> Interval | None:
    """Return a mean with its interval; with one seed, which has none, the ends are not numbers."""
    if not values or any(not math.isfinite(value) for value in values):
        return None
    return mean_interval(values) if len(values) > 1 else Interval(values[0], math.nan, math.nan)


def tokens_until(curve: Points, limit: float) -> float | None:
    """Return the tokens after which the loss first reaches a limit, on straight lines between what was measured."""
    before: tuple[float, float] | None = None
    for tokens, loss in curve:
        if loss <= limit:
            if before is None or before[1] <= limit:
                return tokens
            return before[0] + (tokens - before[0]) * (before[1] - limit) / (before[1] - loss)
        before = (tokens, loss)
    return None
