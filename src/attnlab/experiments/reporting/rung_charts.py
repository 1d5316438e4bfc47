"""The first picture of a report: the difference to the baseline against the size of the model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from attnlab.experiments.judging.trends import ArmTrend, RungDifference
from attnlab.experiments.reporting.axis import DifferenceAxis
from attnlab.experiments.reporting.formats import count_text, percent_text
from attnlab.pages import BLUE, GREEN, GREY, ORANGE, new_figure

_HEIGHT, _LABEL = 440, 17  # pixels
_STYLES = ((BLUE, "circle"), (ORANGE, "square"), (GREEN, "diamond"), (GREY, "triangle-up"))
_BAND = "rgba(125,133,144,0.22)"  # GREY


def size_chart(trends: Sequence[ArmTrend], baseline: str, margin: float) -> go.Figure:
    """Draw every arm's paired difference with its interval over the sizes, and the margin as a band."""
    judged = [rung.judgement for one in trends for rung in one.whole]
    axis = DifferenceAxis.of(judged, margin)
    begin, end = axis.range()
    figure = new_figure(x="parameters, embeddings included", y=f"perplexity against {baseline}", height=_HEIGHT)
    figure.add_hrect(y0=axis.place(-margin), y1=axis.place(margin), fillcolor=_BAND, line_width=0, layer="below")
    figure.add_hline(y=0, line_width=1.5, layer="below")
    sizes = sorted({rung.parameters for one in trends for rung in one.whole})
    for number, one in enumerate(trends):
        colour, symbol = _STYLES[number % len(_STYLES)]
        drawn = [rung for rung in one.whole if rung.judgement.mean is not None]
        if drawn:
            dash = "solid" if number < len(_STYLES) else "dot"
            figure.add_trace(_line(one.arm, drawn, axis, colour, symbol, dash, _shift(number, len(trends))))
    for annotation in _labels(trends, axis):
        figure.add_annotation(annotation)
    ticks = axis.ticks()
    figure.update_yaxes(
        range=[begin, end], tickvals=[place for place, _ in ticks], ticktext=[text for _, text in ticks]
    )
    room = math.log10(sizes[-1] / sizes[0]) if len(sizes) > 1 else 1.0
    figure.update_xaxes(
        type="log",
        range=[math.log10(sizes[0]) - 0.06 * room, math.log10(sizes[-1]) + 0.3 * room],
        tickvals=sizes,
        ticktext=[count_text(size) for size in sizes],
        tickangle=0,
    )
    figure.update_layout(showlegend=False)
    return figure


def _shift(number: int, count: int) -> float:
    """Return a factor beside 1 that keeps the intervals of different arms from covering each other."""
    return float(1.012 ** (number - (count - 1) / 2))


def _line(
    name: str,
    rungs: Sequence[RungDifference],
    axis: DifferenceAxis,
    colour: str,
    symbol: str,
    dash: str,
    shift: float,
) -> go.Scatter:
    means = [rung.judgement.mean or 0.0 for rung in rungs]
    lows = [mean if rung.judgement.low is None else rung.judgement.low for mean, rung in zip(means, rungs, strict=True)]
    highs = [
        mean if rung.judgement.high is None else rung.judgement.high for mean, rung in zip(means, rungs, strict=True)
    ]
    places = [axis.place(mean) for mean in means]
    return go.Scatter(
        name=name,
        mode="lines+markers",
        x=[rung.parameters * shift for rung in rungs],
        y=places,
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [axis.place(high) - place for high, place in zip(highs, places, strict=True)],
            "arrayminus": [place - axis.place(low) for low, place in zip(lows, places, strict=True)],
            "thickness": 1.5,
            "width": 4,
            "color": colour,
        },
        text=[
            f"{name} at {count_text(rung.parameters)} parameters, {count_text(rung.tokens)} tokens: "
            f"{percent_text(mean)} ({percent_text(low)} … {percent_text(high)}), {rung.judgement.verdict}"
            for rung, mean, low, high in zip(rungs, means, lows, highs, strict=True)
        ],
        hovertemplate="%{text}<extra></extra>",
        line={"color": colour, "width": 2, "dash": dash},
        marker={"color": colour, "symbol": symbol, "size": 9},
    )


def _labels(trends: Sequence[ArmTrend], axis: DifferenceAxis) -> list[go.layout.Annotation]:
    """Return a name beside the last point of each line, pushed up where it would hide another."""
    begin, end = axis.range()
    per_pixel = (end - begin) / (_HEIGHT - 70)
    ends = [
        (axis.place(rung.judgement.mean), rung.parameters, one.arm)
        for one in trends
        if (rung := one.largest).judgement.mean is not None
    ]
    labels, last = [], -math.inf
    for place, parameters, name in sorted(ends):
        last = max(place, last + _LABEL * per_pixel)
        labels.append(
            go.layout.Annotation(
                text=name,
                x=math.log10(parameters),
                y=place,
                ax=18,
                ay=-(last - place) / per_pixel,
                xanchor="left",
                font={"size": 12},
                arrowhead=0,
                arrowwidth=1,
                arrowcolor=GREY,
                standoff=6,
            )
        )
    return labels
