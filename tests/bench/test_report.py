"""Rows and figures from numbers that are made by hand."""

from __future__ import annotations

import pytest

from attnlab.bench import AttentionBench, BarsBench, Measured, Ratio, Size, attention_page, bars_page, describe_machine
from attnlab.bench.kernels.attention import Peaks, Times
from attnlab.bench.kernels.bars import BARS
from attnlab.bench.kernels.yardsticks import Setting
from attnlab.bench.results.charts import attention_chart, bars_chart
from attnlab.bench.results.judging import judge
from attnlab.bench.results.report import attention_words, bar_rows, columns, figure_rows, number, with_spread
from attnlab.pages import Table


def ratio(value: float) -> Ratio:
    return Ratio(value, value * 0.9, value * 1.1, 15)


def measured(name: str, value: float, peer: float | None = None) -> Measured:
    theirs = None if peer is None else ratio(peer)
    ours = None if peer is None else ratio(peer / value)
    times = Times(0.02, ratio(value), ratio(4.0), theirs, ratio(4.0 / value), ours)
    return Measured(name, "blocked", times, times, Peaks(1_000_000, 2_000_000, 90_000_000, None))


BENCH = AttentionBench(
    describe_machine(), Size(), 15, (measured("softmax", 1.0), measured("sparsemax", 2.0, 30.0), measured("relu", 0.5))
)
BY_NAME = {bar.name: bar for bar in BARS}
VERDICTS = BarsBench(
    describe_machine(),
    Size(),
    15,
    (
        judge(BY_NAME["speed"], {"relu": ratio(1.15), "softmax": ratio(3.0)}, Setting()),
        judge(BY_NAME["window"], {"relu": ratio(8.0), "softmax": ratio(3.0)}, Setting()),
        judge(BY_NAME["decoding"], {"relu": ratio(1.0), "softmax": ratio(3.0)}, Setting()),
        judge(BY_NAME["speed-peer"], {}, Setting()),
    ),
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00"),
        (0.974, "0.97"),
        (9.99, "9.99"),
        (9.996, "10.0"),
        (99.94, "99.9"),
        (99.96, "100"),
        (1234.5, "1234"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_ratios_with_their_spread() -> None:
    assert with_spread(Ratio(1.0, 0.9, 1.25, 15)) == "1.00 0.90–1.25"
    assert with_spread(Ratio.exact(0.125)) == "0.125"
    assert with_spread(None) == "–"


def test_rows_of_the_table() -> None:
    rows = [[column.cell(row) for column in columns(on_page=False)] for row in BENCH.variants]
    assert rows == [
        ["softmax", "1.00 0.90–1.10", "1.00 0.90–1.10", "4.00", "–", "1.9 (86)"],
        ["sparsemax", "2.00 1.80–2.20", "2.00 1.80–2.20", "2.00", "15.0", "1.9 (86)"],
        ["relu", "0.50 0.45–0.55", "0.50 0.45–0.55", "8.00", "–", "1.9 (86)"],
    ]
    assert "(20.0 and 20.0 ms here)" in attention_words(BENCH)[0]


def test_rows_of_the_bars() -> None:
    assert bar_rows(VERDICTS) == [
        ("speed", "missed", "≤ 1.15", "3.00 2.70–3.30", "softmax", "1/2"),
        ("window", "missed", "≥ 8", "3.00 2.70–3.30", "softmax", "1/2"),
        ("decoding", "reported", "–", "1.00 0.90–1.10", "relu", "–"),
        ("speed-peer", "not measured", "≥ 2", "–", "–", "0/0"),
    ]
    assert len(figure_rows(VERDICTS)) == 6
    assert figure_rows(VERDICTS, missed_only=True) == [
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
    met, missed = bars_chart(VERDICTS).data
    assert list(met.x) == [1.0, 1.0]
    assert list(missed.x) == pytest.approx([3.0 / 1.15, 8.0 / 3.0])
    assert list(missed.y) == ["speed", "window"]


def test_pages_hold_every_row() -> None:
    tables = [part for section in attention_page(BENCH).sections for part in section.content if isinstance(part, Table)]
    assert [len(table.rows) for table in tables] == [3]
    tables = [part for section in bars_page(VERDICTS).sections for part in section.content if isinstance(part, Table)]
    assert [len(table.rows) for table in tables] == [4, 4, 6]
