"""The figures of the report on a model's knowledge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from attnlab.formats import percent
from attnlab.knowledge.answers.evaluation import Proportion, ScoreFindings, name_of
from attnlab.pages import BLUE, GREEN, GREY, ORANGE, Figure, new_figure
from attnlab.statistics import Interval, Reliability, RiskCoverage

_ROW, _SMALL = 44, 300  # pixels
_BAND = "rgba(61,133,198,0.2)"  # BLUE


def shares_chart(scores: Mapping[str, Proportion]) -> go.Figure:
    """Draw a row for each share with its interval, in per cent."""
    names = list(scores)[::-1]
    shares = [scores[name].share for name in names]
    figure = new_figure(x="answered exactly (%)", height=90 + _ROW * len(names))
    figure.add_trace(
        go.Scatter(
            mode="markers",
            x=[100 * share.mean for share in shares],
            y=list(range(len(names))),
            error_x=_error_bars(shares, 100) | {"thickness": 2, "width": 5},
            marker={"symbol": "diamond", "color": BLUE, "size": 11},
            text=[f"{name}: {scores[name].correct} of {scores[name].total}" for name in names],
            hovertemplate="%{text}<extra></extra>",
            showlegend=False,
        )
    )
    for row, name in enumerate(names):
        place = {"xref": "paper", "x": 0, "xanchor": "left", "y": row + 0.32, "yanchor": "middle"}
        words = f"<b>{name}</b> {percent(scores[name].share.mean, 1)} of {scores[name].total}"
        figure.add_annotation(text=words, showarrow=False, font={"size": 12}, **place)
    figure.update_xaxes(range=[0, max(5.0, 104 * max(share.high for share in shares))])
    figure.update_yaxes(range=[-0.6, len(names) - 0.4], showgrid=False, showticklabels=False, ticks="")
    return figure


def reliability_figures(found: Sequence[ScoreFindings]) -> list[Figure]:
    return [
        Figure(reliability_chart(one.reliability), f"{name_of(one.score)}: ECE {one.reliability.ece.mean:.3f}")
        for one in found
    ]


def reliability_chart(found: Reliability) -> go.Figure:
    """Draw accuracy against confidence; the diagonal is perfect calibration, and fuller bins have larger dots."""
    figure = new_figure(x="confidence", y="share that is right", height=_SMALL)
    figure.add_trace(
        go.Scatter(
            mode="lines", x=[0, 1], y=[0, 1], line={"dash": "dash", "color": GREY, "width": 1.5}, hoverinfo="skip"
        )
    )
    full = [one for one in found.bins if one.accuracy is not None and one.confidence is not None]
    most = max((one.count for one in full), default=1)
    accuracy = [one.accuracy for one in full if one.accuracy is not None]
    figure.add_trace(
        go.Scatter(
            mode="markers",
            x=[one.confidence for one in full],
            y=[share.mean for share in accuracy],
            error_y=_error_bars(accuracy) | {"thickness": 1.5, "width": 3},
            marker={"color": BLUE, "size": [6 + 12 * (one.count / most) ** 0.5 for one in full]},
            text=[f"{one.count} answers, confidence {one.low:.1f}–{one.high:.1f}" for one in full],
            hovertemplate="%{text}<br>%{y:.2f} right<extra></extra>",
        )
    )
    figure.update_layout(showlegend=False)
    figure.update_xaxes(range=[-0.03, 1.03])
    figure.update_yaxes(range=[-0.03, 1.03])
    return figure


def risk_figures(found: Sequence[ScoreFindings]) -> list[Figure]:
    curves = [one.risk_coverage for one in found]
    top = max(max(curve.area_blind, *curve.high) for curve in curves)  # the same for all, for comparison
    return [
        Figure(risk_chart(one.risk_coverage, top), f"{name_of(one.score)}: area {one.risk_coverage.area.mean:.3f}")
        for one in found
    ]


def risk_chart(found: RiskCoverage, top: float = 1.0) -> go.Figure:
    """Draw the risk–coverage curve with its band; the dotted line is the risk of a score that knows nothing."""
    figure = new_figure(x="share answered (%)", y="wrong among them (%)", height=_SMALL)
    x = [100 * value for value in found.coverage]
    low, high, risk = ([100 * value for value in values] for values in (found.low, found.high, found.risk))
    figure.add_trace(go.Scatter(x=x, y=high, mode="lines", line={"width": 0}, hoverinfo="skip"))
    figure.add_trace(
        go.Scatter(x=x, y=low, mode="lines", line={"width": 0}, fill="tonexty", fillcolor=_BAND, hoverinfo="skip")
    )
    blind = {"dash": "dot", "color": GREY, "width": 2}
    figure.add_trace(go.Scatter(x=[0, 100], y=[100 * found.area_blind] * 2, mode="lines", line=blind, hoverinfo="skip"))
    figure.add_trace(
        go.Scatter(
            x=x,
            y=risk,
            mode="lines",
            line={"color": BLUE, "width": 2.5},
            hovertemplate="%{x:.0f} % answered, %{y:.1f} % wrong<extra></extra>",
        )
    )
    figure.update_layout(showlegend=False)
    figure.update_xaxes(range=[0, 102])
    figure.update_yaxes(range=[0, max(2.0, min(102.0, 108 * top))])
    return figure


def separation_chart(seen: Sequence[float], unseen: Sequence[float]) -> go.Figure:
    """Draw the share of each group that reaches a confidence: the further apart, the better the separation."""
    figure = new_figure(x="confidence", y="reach it (%)", height=_SMALL + 30)
    for name, values, colour, dash in (("in the text", seen, BLUE, "solid"), ("unseen", unseen, ORANGE, "dash")):
        ordered = sorted(values)
        reached = [100 * (1 - place / len(ordered)) for place in range(len(ordered))]
        figure.add_trace(
            go.Scatter(
                name=name,
                x=[0, *ordered, 1],
                y=[100, *reached, 0],
                mode="lines",
                line={"shape": "vh", "color": colour, "dash": dash, "width": 2.5},
                hovertemplate=f"{name}: %{{y:.0f}} % reach %{{x:.2f}}<extra></extra>",
            )
        )
    figure.update_xaxes(range=[-0.02, 1.02])
    figure.update_yaxes(range=[0, 102])
    return figure


def threshold_line(figure: go.Figure, threshold: float | None) -> go.Figure:
    """Mark the threshold on an axis of confidence."""
    if threshold is not None:
        figure.add_vline(x=threshold, line_width=1.5, line_color=GREEN)
    return figure


def _error_bars(shares: Sequence[Interval], scale: float = 1) -> dict[str, object]:
    above = [scale * (share.high - share.mean) for share in shares]
    below = [scale * (share.mean - share.low) for share in shares]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "color": BLUE}
