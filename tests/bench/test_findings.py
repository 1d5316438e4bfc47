"""Rows and figures from numbers that are made by hand."""

from __future__ import annotations

import pytest

from attnlab.bench import AttentionBench, BarsBench, CallSize, Measured, Ratio, describe_machine, findings_page
from attnlab.bench.attention import Peaks, Times, attention_chart
from attnlab.bench.bars import BARS, BarSetting
from attnlab.bench.findings import bars_chart, bars_table, figures_table, with_spread
from attnlab.pages import Table
from support.bench import rows_of, words_of


def ratio(value: float) -> Ratio:
    return Ratio(value, value * 0.9, value * 1.1, 15)


def measured(name: str, value: float, peer: float | None = None) -> Measured:
    theirs = None if peer is None else ratio(peer)
    ours = None if peer is None else ratio(peer / value)
    times = Times(0.02, ratio(value), ratio(4.0), theirs, ratio(4.0 / value), ours)
    return Measured(name, "blocked", times, times, Peaks(1_000_000, 2_000_000, 90_000_000, None))


BENCH = AttentionBench(
    describe_machine(),
    15,
    (),
    (),
    CallSize(),
    (measured("softmax", 1.0), measured("sparsemax", 2.0, 30.0), measured("relu", 0.5)),
)
BY_NAME = {bar.name: bar for bar in BARS}
LENGTHS = BarSetting().lengths
VERDICTS = BarsBench(
    describe_machine(),
    15,
    ("something was left out",),
    (
        BY_NAME["speed"].judge({"relu": ratio(1.15), "softmax": ratio(3.0)}, LENGTHS),
        BY_NAME["window"].judge({"relu": ratio(8.0), "softmax": ratio(3.0)}, LENGTHS),
        BY_NAME["decoding"].judge({"relu": ratio(1.0), "softmax": ratio(3.0)}, LENGTHS),
        BY_NAME["speed-peer"].judge({}, LENGTHS),
    ),
    CallSize(),
)


def test_ratios_with_their_spread() -> None:
    assert with_spread(Ratio(1.0, 0.9, 1.25, 15)) == "1.00 0.90–1.25"
    assert with_spread(Ratio.exact(0.125)) == "0.125"
    assert with_spread(None) == "–"


def test_rows_of_the_table() -> None:
    chart, table = BENCH.sections()
    assert chart.heading == "Time"
    assert rows_of(table) == [
        ("softmax", "1.00 0.90–1.10", "1.00 0.90–1.10", "4.00", "–", "1.91 (85.8)"),
        ("sparsemax", "2.00 1.80–2.20", "2.00 1.80–2.20", "2.00", "15.0", "1.91 (85.8)"),
        ("relu", "0.50 0.45–0.55", "0.50 0.45–0.55", "8.00", "–", "1.91 (85.8)"),
    ]
    assert "(20.0 and 20.0 ms here)" in words_of(table)
    assert words_of(table).endswith("Kernels: blocked for softmax, sparsemax, relu.")


def test_rows_of_the_bars() -> None:
    assert bars_table(VERDICTS.bars).rows == [
        ("speed", "missed", "≤ 1.15", "3.00 2.70–3.30", "softmax", "1/2"),
        ("window", "missed", "≥ 8", "3.00 2.70–3.30", "softmax", "1/2"),
        ("decoding", "reported", "–", "1.00 0.90–1.10", "relu", "–"),
        ("speed-peer", "not measured", "≥ 2", "–", "–", "0/0"),
    ]
    assert len(figures_table(VERDICTS.bars).rows) == 6
    assert figures_table(VERDICTS.bars, missed_only=True).rows == [
        ("speed", "softmax", "3.00 2.70–3.30", "≤ 1.15", "missed"),
        ("window", "softmax", "3.00 2.70–3.30", "≥ 8", "missed"),
    ]


def test_the_chart_of_ratios() -> None:
    chart = attention_chart(BENCH.variants)
    forward, both, reference, peer = chart.data
    assert [trace.name for trace in chart.data] == [
        "forward",
        "forward+backward",
        "its reference",
        "the entmax package",
    ]
    assert list(both.y) == ["sparsemax", "softmax", "relu"]  # drawn from below: the fastest on top
    assert list(both.x) == [1.0, 0.0, -0.5]  # from the line at 1
    assert both.base == forward.base == 1
    assert list(both.error_x.array) == pytest.approx([0.2, 0.1, 0.05])
    assert list(reference.x) == [4.0] * 3
    assert (list(peer.x), list(peer.y)) == ([30.0], ["sparsemax"])
    assert chart.layout.shapes[0].x0 == 1
    assert forward.marker.pattern.shape  # told apart without colour
    assert chart.layout.xaxis.title.text == "time ÷ fused softmax (×)"


def test_the_chart_without_peers_and_references() -> None:
    times = Times(0.02, ratio(1.0), None, None, None, None)
    chart = attention_chart([Measured("softmax", "fused", times, times, Peaks(1, 1, None, None))])
    assert [trace.name for trace in chart.data] == ["forward", "forward+backward"]


def test_the_chart_of_bars() -> None:
    met, missed = bars_chart(VERDICTS.bars).data
    assert list(met.x) == [1.0, 1.0]
    assert list(missed.x) == pytest.approx([3.0 / 1.15, 8.0 / 3.0])
    assert list(missed.y) == ["speed", "window"]


def test_pages_hold_every_row() -> None:
    for found, bars, counts in ((BENCH, False, [3]), (VERDICTS, True, [4, 4, 6])):
        sections = findings_page(found, bars=bars).sections
        tables = [part for section in sections for part in section.content if isinstance(part, Table)]
        assert [len(table.rows) for table in tables] == counts
    assert sections[-1].content == ["something was left out"]
