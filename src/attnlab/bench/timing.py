"""Ratios of durations, measured such that other load on a shared machine affects them little.

Calls are timed in rounds. In each round every call is timed once, right after the previous one, and every second round
has the reverse order, so that a machine that becomes slower or faster favours none. A ratio is taken within each round;
the figure is the median over the rounds, and its spread is from the 10th to the 90th percentile.

One effect remains: if other work occupies the cores, a call of many small parallel steps waits more often than a call
of one long step. A wide spread indicates this.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from attnlab.errors import SpecError

Call = Callable[[], object]
Clock = Callable[[], float]

_PATIENCE = 10.0  # maximum seconds of one call over all rounds
_FEWEST = 3  # minimum rounds, even for a slow call


@dataclass(frozen=True)
class Ratio:
    """A ratio with its spread over the rounds."""

    median: float
    low: float  # 10th percentile
    high: float  # 90th percentile
    rounds: int

    @classmethod
    def over(cls, values: Sequence[float]) -> Ratio:
        """Return the median and spread of one ratio per round."""
        low, median, high = (float(number) for number in np.quantile(values, (0.1, 0.5, 0.9)))
        return cls(median, low, high, len(values))

    @classmethod
    def exact(cls, value: float) -> Ratio:
        """Return a ratio that was counted, and so has no spread."""
        return cls(value, value, value, 1)


@dataclass(frozen=True)
class Durations:
    """Seconds of each call by round; a slow call has fewer rounds, and they are the first ones."""

    seconds: Mapping[str, tuple[float, ...]]

    def ratio(self, name: str, to: str) -> Ratio:
        """Return how many times as long as `to` the call takes."""
        pairs = zip(self.seconds[name], self.seconds[to], strict=False)  # the rounds that both have
        return Ratio.over([duration / other for duration, other in pairs])

    def median(self, name: str) -> float:
        """Return the median seconds, which hold for this machine and this moment only."""
        return float(np.median(self.seconds[name]))


def take_turns(
    calls: Mapping[str, Call],
    rounds: int,
    *,
    patience: float = _PATIENCE,
    clock: Clock = time.perf_counter,
) -> Durations:
    """Time the calls in `rounds` rounds, after one that is not counted.

    A call that has taken more than `patience` seconds in total drops out, but not before its third round.

    Parameters
    ----------
    calls
        The calls to time, by name.
    rounds
        The number of counted rounds; one more is run before them.
    patience
        Total seconds after which a call drops out, but not before its third round.
    clock
        The function that returns the time.
    """
    check_rounds(rounds)
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    with _no_collection():
        for call in calls.values():
            call()
        for number in range(rounds):
            for name in turn_order(list(calls), number):
                if len(seconds[name]) < _FEWEST or sum(seconds[name]) <= patience:
                    seconds[name].append(seconds_of(calls[name], clock))
    return Durations({name: tuple(values) for name, values in seconds.items()})


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of all values lies."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def turn_order(names: Sequence[str], number: int) -> list[str]:
    """Return the order of the calls in a round: as given in even rounds, reversed in odd ones."""
    return list(names) if number % 2 == 0 else list(reversed(names))


def check_rounds(rounds: int) -> None:
    if rounds < 1:
        raise SpecError(f"{rounds} rounds measure nothing", hint="use `rounds=1` or more; 15 give a steady median")


def seconds_of(call: Call, clock: Clock = time.perf_counter) -> float:
    """Return how long a call takes."""
    start = clock()
    call()
    return clock() - start


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python's garbage collection from striking one call and sparing the other."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
