"""What was measured, as a page, with figures where ratios are many."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from attnlab.bench.kernels.attention import AttentionBench, Measured
from attnlab.bench.kernels.peers import PEER
from attnlab.bench.results.findings import Findings
from attnlab.bench.results.judging import BarsBench, Judged
from attnlab.bench.results.report import (
    BAR_HEADINGS,
    FIGURE_HEADINGS,
    attention_words,
    bar_rows,
    columns,
    figure_rows,
    with_spread,
)
from attnlab.bench.results.timing import Ratio
from attnlab.pages import BLUE, GREEN, GREY, ORANGE, Figure, Page, Section, Table, new_figure
from attnlab.processes.machine import Machine


def attention_page(bench: AttentionBench) -> Page:
    """The table of all variants, and their ratios as bars."""
    shown = columns(on_page=True)
    rows = [[column.cell(row) for column in shown] for row in bench.variants]
    table = Table([column.heading for column in shown], rows, text_columns=(0, 1))
    caption = (
        "Bars left of the line are faster than fused softmax. Whiskers run from the 10th to the 90th percentile of the "
        "rounds. Marks are forward+backward."
    )
    return Page(
        title="Attention variants against fused softmax",
        lead="How long each variant takes on this machine, as a ratio to PyTorch's fused softmax attention.",
        facts=facts(bench.machine, str(bench.size), bench.rounds),
        sections=[
            Section("Time", [Figure(attention_chart(bench.variants), caption)]),
            Section("Table", [*attention_words(bench), table]),
        ],
    )


def bars_page(bench: BarsBench) -> Page:
    """The bars with their verdicts, how near each variant comes, and every figure."""
    claims = [(outcome.name, outcome.what, outcome.how) for outcome in bench.bars]
    caption = "Each mark is a variant. Right of the line, it misses the bar."
    return Page(
        title="The bars of attnlab's attention",
        lead="What attnlab claims of its speed and memory, measured on this machine as ratios.",
        facts=facts(bench.machine, str(bench.size), bench.rounds),
        sections=[
            Section("Verdicts", [Table(BAR_HEADINGS, bar_rows(bench), text_columns=(0, 1, 4))]),
            Section("What they claim", [Table(("bar", "concerns", "measured as"), claims, text_columns=(0, 1, 2))]),
            Section("How near", [Figure(bars_chart(bench), caption)]),
            Section("Every figure", [Table(FIGURE_HEADINGS, figure_rows(bench), text_columns=(0, 1, 4))]),
        ],
    )


def findings_page(bench: Findings, *, bars: bool) -> Page:
    """Every table of a race, and its verdicts if they are wanted."""
    verdicts: list[Section] = []
    if bars:
        claims = [(outcome.name, outcome.what, outcome.how) for outcome in bench.bars]
        caption = "Each mark is one figure. Right of the line, it misses the bar."
        verdicts = [
            Section("Verdicts", [Table(BAR_HEADINGS, bar_rows(bench), text_columns=(0, 1, 4))]),
            Section("What they claim", [Table(("bar", "concerns", "measured as"), claims, text_columns=(0, 1, 2))]),
            Section("How near", [Figure(bars_chart(bench), caption)]),
        ]
    left_out = [Section("Not measured", list(bench.notes))] if bench.notes else []
    tables = [
        Section(found.title, [found.words, Table(found.headings, found.rows, text_columns=found.text_columns)])
        for found in bench.tables()
    ]
    return Page(
        title=bench.title,
        lead=bench.lead,
        facts=facts(bench.machine, "float32", bench.rounds),
        sections=[*tables, *verdicts, *left_out],
    )


def attention_chart(measured: Sequence[Measured]) -> go.Figure:
    """Horizontal bars from the line at 1×, the fastest on top; the ratio's axis is logarithmic."""
    ordered = sorted(measured, key=lambda row: row.forward_backward.variant.median, reverse=True)
    names = [row.name for row in ordered]
    both = [row.forward_backward for row in ordered]
    figure = new_figure(x="time ÷ fused softmax (×)", height=130 + 26 * len(names))
    figure.add_trace(_bars("forward", names, [row.forward.variant for row in ordered], ORANGE, hatched=True))
    figure.add_trace(_bars("forward+backward", names, [times.variant for times in both], BLUE))
    marks = (
        ("its reference", [times.reference for times in both], GREY, "diamond-open"),
        (f"the {PEER} package", [times.peer for times in both], GREEN, "x"),
    )
    for name, ratios, colour, symbol in marks:
        if any(ratios):
            figure.add_trace(_marks(name, names, ratios, colour, symbol))
    figure.add_vline(x=1, line_width=1.5)
    figure.update_layout(barmode="group", bargap=0.25)
    ticks = _ticks(0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)
    figure.update_xaxes(type="log", range=_range(ordered), **ticks)
    figure.update_yaxes(**_rows(names), showgrid=False, ticks="")
    return figure


def bars_chart(bench: Judged) -> go.Figure:
    """How much of its limit each variant uses up."""
    judged = [outcome for outcome in bench.bars if outcome.limit is not None and outcome.figures]
    figure = new_figure(x="share of the limit (×)", height=150 + 34 * len(judged))
    for met, name, colour, symbol in ((True, "met", BLUE, "circle-open"), (False, "missed", ORANGE, "x")):
        found = [(outcome.name, one) for outcome in judged for one in outcome.figures if one.met is met]
        figure.add_trace(
            go.Scatter(
                name=name,
                mode="markers",
                x=[one.strain for _, one in found],
                y=[bar for bar, _ in found],
                text=[f"{one.variant} {with_spread(one.ratio)}" for _, one in found],
                hovertemplate="%{text}<extra>%{y}</extra>",
                marker={"symbol": symbol, "color": colour, "size": 10, "line": {"color": colour, "width": 2}},
                showlegend=True,
            )
        )
    figure.add_vline(x=1, line_width=1.5)
    figure.update_xaxes(type="log", **_ticks(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100))
    figure.update_yaxes(**_rows([outcome.name for outcome in reversed(judged)]))
    return figure


def _bars(name: str, names: list[str], ratios: list[Ratio], colour: str, *, hatched: bool = False) -> go.Bar:
    return go.Bar(
        name=name,
        orientation="h",
        y=names,
        base=1,
        x=[ratio.median - 1 for ratio in ratios],
        error_x={
            "array": [ratio.high - ratio.median for ratio in ratios],
            "arrayminus": [ratio.median - ratio.low for ratio in ratios],
            "symmetric": False,
            "color": GREY,
            "thickness": 1.2,
            "width": 3,
        },
        marker={
            "color": colour,
            "line": {"color": colour, "width": 1},
            "pattern": {"shape": "/" if hatched else "", "fillmode": "replace", "size": 5, "solidity": 0.4},
        },
        legendrank=2 if hatched else 1,  # a figure draws its first bar lowest, and a legend names it first
        text=[with_spread(ratio) for ratio in ratios],
        textposition="none",
        hovertemplate="%{text} ×<extra>%{y}, " + name + "</extra>",
    )


def _marks(name: str, names: list[str], ratios: list[Ratio | None], colour: str, symbol: str) -> go.Scatter:
    found = [(which, ratio) for which, ratio in zip(names, ratios, strict=True) if ratio is not None]
    return go.Scatter(
        name=name,
        mode="markers",
        x=[ratio.median for _, ratio in found],
        y=[which for which, _ in found],
        text=[with_spread(ratio) for _, ratio in found],
        hovertemplate="%{text} ×<extra>%{y}, " + name + "</extra>",
        marker={"symbol": symbol, "color": colour, "size": 9, "line": {"color": colour, "width": 2}},
        showlegend=True,
        legendrank=3,
    )


def _ticks(*places: float) -> dict[str, object]:
    return {"tickvals": places, "ticktext": [f"{place:g}×" for place in places]}


def _rows(names: Sequence[str]) -> dict[str, object]:
    """A row for each name, from below, without more room than they need."""
    return {"categoryorder": "array", "categoryarray": list(names), "range": [-0.6, len(names) - 0.4]}


def _range(measured: Sequence[Measured]) -> list[float]:
    """The ends of the logarithmic axis: all that is drawn, and some room."""
    bars = [times.variant for row in measured for times in (row.forward, row.forward_backward)]
    both = [row.forward_backward for row in measured]
    marks = [ratio.median for times in both for ratio in (times.reference, times.peer) if ratio is not None]
    low = min([0.5, *(bar.low for bar in bars), *marks])
    high = max([2.0, *(bar.high for bar in bars), *marks])
    return [math.log10(low) - 0.05, math.log10(high) + 0.05]


def facts(machine: Machine, size: str, rounds: int) -> dict[str, str]:
    """What figures depend on, by name."""
    warning = {"Warning": machine.warning} if machine.warning else {}
    return {
        "Machine": str(machine),
        "System": f"{machine.system}, Python {machine.python}, attnlab {machine.attnlab}",
        "Size": size,
        "Rounds": str(rounds),
        **warning,
    }
