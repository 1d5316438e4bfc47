"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest

from attnlab import formats
from attnlab.formats import NOTHING


def test_decimals_and_signs() -> None:
    assert [formats.fixed(value) for value in (0.256, -3.1, -0.001)] == ["0.26", "−3.10", "0.00"]
    assert [formats.signed(value, 2) for value in (0.256, -3.1, -0.001, 0.0)] == ["+0.26", "−3.10", "0.00", "0.00"]


def test_digits_that_count() -> None:
    assert [formats.significant(value) for value in (0.971, 9.714, 9.996, 97.14, 99.96, -971.4)] == [
        "0.97",
        "9.71",
        "10.0",
        "97.1",
        "100",
        "−971",
    ]
    assert [formats.general(value) for value in (1234567.0, 0.25, -0.0, -1e-9)] == ["1.2346e+06", "0.25", "0", "−1e−09"]
    assert [formats.general(value, 3, sign=True) for value in (1.234, -0.5, 0.0)] == ["+1.23", "−0.5", "0"]
    assert [formats.general(value) for value in (math.inf, -math.inf, math.nan)] == ["∞", "−∞", "not a number"]


@pytest.mark.parametrize("missing", [None, math.nan, math.inf])
def test_missing_numbers(missing: float | None) -> None:
    assert {formats.fixed(missing), formats.signed(missing), formats.percent(missing)} == {NOTHING}
    assert formats.interval(missing, 1.0) == formats.interval(0.0, missing) == NOTHING
    assert formats.significant(None) == formats.p_value(None) == formats.byte_count(None) == NOTHING
    assert formats.ratio(None, 2.0) == formats.ratio(1.0, 0.0) == formats.ratio(1.0, None) == NOTHING


def test_units() -> None:
    assert [formats.count(number) for number in (946, 999.6, 33_100, 124e6)] == ["946", "1.00 k", "33.1 k", "124 M"]
    assert [formats.byte_count(number) for number in (812, 1536, 40 * 2**20)] == ["812 B", "1.50 KiB", "40.0 MiB"]
    assert formats.ratio(5, 4) == "1.25 ×"
    assert [formats.percent(0.256), formats.percent(-0.256, 1)] == ["26 %", "−25.6 %"]
    assert [formats.p_value(p) for p in (0.0004, 0.0114)] == ["< 0.001", "0.011"]
    assert [formats.p_relation(p) for p in (0.0004, 0.0114, None)] == ["< 0.001", "= 0.011", NOTHING]


def test_intervals_and_words() -> None:
    assert formats.interval(-0.25, 0.125) == "−0.250 … +0.125"
    assert formats.interval(0.25, 0.5, 1, sign=False) == "0.2 … 0.5"
    assert [formats.plural(number, "seed") for number in (1, 4)] == ["1 seed", "4 seeds"]
    assert [formats.and_list(words) for words in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


def test_durations() -> None:
    assert [formats.clock_time(seconds) for seconds in (0, 59.6, 72, 3725)] == ["0:00", "1:00", "1:12", "1:02:05"]


def test_names_of_files_hold_no_signs() -> None:
    assert formats.file_name("window:64*2,softmax+gqa:4") == "window-64-2-softmax+gqa-4"
    assert formats.file_name("entmax:1.3 / a|b", 12) == "entmax-1-3--"
