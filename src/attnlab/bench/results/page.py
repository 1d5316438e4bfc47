"""The findings of a measurement as a page."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from attnlab.bench.results.findings import Findings, bars_table, figures_table, with_spread
from attnlab.bench.results.judging import JudgedBar
from attnlab.pages import BLUE, ORANGE, Figure, Page, Section, Table, new_figure


def findings_page(found: Findings, *, bars: bool) -> Page:
    """Return every section of the findings, with the verdicts if they are wanted."""
    verdicts: list[Section] = []
    if bars:
        claims = [(bar.name, bar.what, bar.how) for bar in found.bars]
        caption = "Each mark is one figure. Right of the line, it misses the bar."
        verdicts = [
            Section("Verdicts", [bars_table(found.bars)]),
            Section("What they claim", [Table(("bar", "concerns", "measured as"), claims, text_columns=(0, 1, 2))]),
            Section("How near", [Figure(bars_chart(found.bars), caption)]),
            Section("Every figure", [figures_table(found.bars)]),
        ]
    left_out = [Section("Not measured", list(found.notes))] if found.notes else []
    machine = found.machine
    facts = {
        "Machine": str(machine),
        "System": f"{machine.system}, Python {machine.python}, attnlab {machine.attnlab}",
        "Size": found.conditions or "float32",
        "Rounds": str(found.rounds),
    }
    if machine.warning:
        facts["Warning"] = machine.warning
    return Page(found.title, found.lead, [*found.sections(), *verdicts, *left_out], facts)


def bars_chart(bars: Sequence[JudgedBar]) -> go.Figure:
    """Draw how much of its limit each figure uses up."""
    judged = [bar for bar in bars if bar.limit is not None and bar.figures]
    figure = new_figure(x="share of the limit (×)", height=150 + 34 * len(judged))
    for met, name, colour, symbol in ((True, "met", BLUE, "circle-open"), (False, "missed", ORANGE, "x")):
        found = [(bar.name, one) for bar in judged for one in bar.figures if one.met is met]
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
    figure.update_xaxes(type="log", **ratio_ticks(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100))
    figure.update_yaxes(**name_rows([bar.name for bar in reversed(judged)]))
    return figure


def ratio_ticks(*places: float) -> dict[str, object]:
    """Return the ticks of a ratio's axis, as plotly takes them."""
    return {"tickvals": places, "ticktext": [f"{place:g}×" for place in places]}


def name_rows(names: Sequence[str]) -> dict[str, object]:
    """Return the axis with a row for each name, from below, without more room than they need."""
    return {"categoryorder": "array", "categoryarray": list(names), "range": [-0.6, len(names) - 0.4]}
