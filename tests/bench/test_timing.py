"""Ratios from durations: a clock that only the calls move shows what is computed from what."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from attnlab.bench import Durations, Ratio, take_turns
from attnlab.bench.timing import turn_order
from attnlab.errors import SpecError


class Clock:
    """Time that passes only while a call runs; remembers the order of the calls."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order: list[str] = []

    def __call__(self) -> float:
        return self.now

    def call(self, name: str, *seconds: float) -> Callable[[], None]:
        """A call that takes these durations in turn, and then the last one again and again."""
        left = list(seconds)

        def run() -> None:
            self.order.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return run


def test_every_second_round_goes_backwards() -> None:
    assert turn_order(["a", "b", "c"], 0) == ["a", "b", "c"]
    assert turn_order(["a", "b", "c"], 1) == ["c", "b", "a"]
    clock = Clock()
    take_turns({name: clock.call(name, 1.0) for name in "abc"}, 3, clock=clock)
    assert "".join(clock.order) == "abc" + "abc" + "cba" + "abc"


def test_the_first_round_is_not_counted() -> None:
    clock = Clock()
    found = take_turns({"base": clock.call("base", 9.0, 1.0), "call": clock.call("call", 90.0, 2.0)}, 4, clock=clock)
    assert found.seconds == {"base": (1.0,) * 4, "call": (2.0,) * 4}
    assert found.ratio("call", "base") == Ratio(2.0, 2.0, 2.0, 4)


def test_a_ratio_is_taken_within_each_round() -> None:
    # A machine that slows down tenfold halfway changes every duration, and no ratio.
    clock = Clock()
    base = clock.call("base", 1.0, 1.0, 1.0, 10.0, 10.0)
    call = clock.call("call", 3.0, 3.0, 3.0, 30.0, 30.0)
    found = take_turns({"base": base, "call": call}, 4, patience=1e9, clock=clock)
    assert found.ratio("call", "base") == Ratio(3.0, 3.0, 3.0, 4)


def test_the_spread_runs_from_the_10th_to_the_90th_percentile() -> None:
    durations = Durations({"base": (1.0,) * 11, "call": tuple(float(number) for number in range(11))})
    assert durations.ratio("call", "base") == Ratio(median=5.0, low=1.0, high=9.0, rounds=11)


def test_one_outlier_does_not_move_the_median() -> None:
    durations = Durations({"base": (1.0, 1.0, 1.0), "call": (2.0, 500.0, 2.0)})
    ratio = durations.ratio("call", "base")
    assert ratio.median == 2.0
    assert ratio.high > 2.0
    assert durations.median("call") == 2.0


def test_a_slow_call_takes_part_in_fewer_rounds_but_three() -> None:
    clock = Clock()
    calls = {name: clock.call(name, seconds) for name, seconds in (("base", 1.0), ("slow", 4.0), ("slowest", 100.0))}
    found = take_turns(calls, 10, patience=20.0, clock=clock)
    assert {name: len(seconds) for name, seconds in found.seconds.items()} == {"base": 10, "slow": 6, "slowest": 3}
    assert found.ratio("slowest", "base") == Ratio(100.0, 100.0, 100.0, 3)
    assert found.ratio("slow", "slowest").rounds == 3


@pytest.mark.parametrize("rounds", [0, -1])
def test_no_rounds_are_refused(rounds: int) -> None:
    with pytest.raises(SpecError, match=f"^{rounds} rounds measure nothing"):
        take_turns({}, rounds)


def test_garbage_collection_rests_while_timing_and_comes_back() -> None:
    seen = []

    def fail() -> None:
        seen.append(gc.isenabled())
        raise RuntimeError

    assert gc.isenabled()
    with pytest.raises(RuntimeError):
        take_turns({"call": fail}, 1)
    assert seen == [False]
    assert gc.isenabled()


def test_what_is_counted_has_no_spread() -> None:
    assert Ratio.exact(0.5) == Ratio(0.5, 0.5, 0.5, 1)
