"""What commands show while they work."""

from __future__ import annotations

from attnlab.cli.printing import StepClock


def test_counted_steps_tell_the_time_left() -> None:
    seconds = 0.0
    clock = StepClock(lambda: seconds)
    assert clock.describe("opening the model") == "opening the model"
    assert clock.describe("layer 1 of 4") == "layer 1 of 4"
    seconds = 10.0
    assert clock.describe("layer 2 of 4") == "layer 2 of 4   0:30 left"
    seconds = 30.0
    assert clock.describe("layer 4 of 4") == "layer 4 of 4   0:10 left"


def test_another_count_begins_anew() -> None:
    seconds = 0.0
    clock = StepClock(lambda: seconds)
    clock.describe("run 1 of 9")
    seconds = 100.0
    assert clock.describe("segment 1 of 5") == "segment 1 of 5"
    seconds = 101.0
    assert clock.describe("segment 2 of 5") == "segment 2 of 5   0:04 left"
    assert clock.describe("segment 1 of 5") == "segment 1 of 5"
