"""The figures of a study: differences with their forecast, and loss against learning rate."""

from __future__ import annotations

import plotly.graph_objects as go

from attnlab.experiments.judging.judgement import percent
from attnlab.experiments.reporting.formats import count_text, percent_text
from attnlab.experiments.scale.findings import ArmFinding, CorpusFindings
from attnlab.experiments.scale.rates import RatePoint
from attnlab.pages import BLUE, GREY, ORANGE, Figure, new_figure

_HEIGHT, _RATES_HEIGHT = 260, 210  # pixels
_NEAR, _FAR = "rgba(61,133,198,0.30)", "rgba(217,115,13,0.13)"  # BLUE within what was tested, ORANGE beyond


def forecast_figures(found: CorpusFindings) -> list[Figure]:
    """Draw each arm: what was measured, the forecast one rung ahead, and the extrapolation to the target in another
    colour and dotted."""
    return [Figure(_forecast(arm), arm.name) for arm in found.arms]


def _forecast(arm: ArmFinding) -> go.Figure:
    figure = new_figure(x="non-embedding parameters", y="perplexity (%)", height=_HEIGHT)
    rungs = [rung for rung in arm.trend.whole if rung.judgement.percent is not None]
    last = rungs[-1] if rungs else None
    for forecast, colour, band, dash in ((arm.forecast, ORANGE, _FAR, "dot"), (arm.next_rung, BLUE, _NEAR, "dash")):
        if forecast is None or last is None or last.judgement.percent is None:
            continue
        measured = last.judgement.percent
        x = [last.non_embedding, forecast.target_size]
        low, mean, high = (percent(value) for value in (forecast.low, forecast.mean, forecast.high))
        edge = [measured.high, high, low, measured.low]
        figure.add_trace(
            go.Scatter(
                x=[*x, *x[::-1]],
                y=edge,
                mode="lines",
                fill="toself",
                fillcolor=band,
                line={"width": 0},
                hoverinfo="skip",
            )
        )
        figure.add_trace(
            go.Scatter(
                x=x,
                y=[measured.mean, mean],
                mode="lines",
                line={"color": colour, "dash": dash, "width": 2},
                hoverinfo="skip",
            )
        )
    for halved, symbol, colour in ((True, "circle-open", GREY), (False, "circle", BLUE)):
        drawn = [rung for rung in arm.trend.rungs if rung.halved is halved and rung.judgement.percent is not None]
        found = [rung.judgement.percent for rung in drawn if rung.judgement.percent is not None]
        figure.add_trace(
            go.Scatter(
                x=[rung.non_embedding for rung in drawn],
                y=[interval.mean for interval in found],
                mode="markers",
                error_y={
                    "symmetric": False,
                    "array": [interval.high - interval.mean for interval in found],
                    "arrayminus": [interval.mean - interval.low for interval in found],
                    "thickness": 1.5,
                    "width": 4,
                    "color": colour,
                },
                text=[
                    f"{rung.rung}: {percent_text(rung.judgement.mean or 0.0)}, {count_text(rung.tokens)} tokens"
                    for rung in drawn
                ],
                hovertemplate="%{text}<extra></extra>",
                marker={"symbol": symbol, "color": colour, "size": 8},
            )
        )
    figure.add_hline(y=0, line_width=1.5, layer="below")
    figure.update_xaxes(type="log", exponentformat="SI", nticks=5, tickangle=0)
    figure.update_layout(showlegend=False)
    return figure


def rate_figures(found: CorpusFindings) -> list[Figure]:
    """Draw loss against learning rate for every arm and rung that was searched or verified, the baseline in dashes."""
    baseline = found.study.comparison.baseline.name
    points = [one for one in found.study.rates.points if one.trials]
    theirs = {one.size: one for one in points if one.arm == baseline}
    return [
        Figure(_rates(one, theirs.get(one.size) if one.arm != baseline else None), f"{one.arm} at {one.size}")
        for one in points
    ]


def _rates(point: RatePoint, baseline: RatePoint | None) -> go.Figure:
    figure = new_figure(x="learning rate", y="loss (nats)", height=_RATES_HEIGHT)
    if baseline is not None:
        figure.add_trace(_curve(baseline, GREY, "dash"))
    figure.add_trace(_curve(point, BLUE, "solid"))
    seeds = [(trial.learning_rate, loss) for trial in point.trials for loss in trial.losses if loss is not None]
    figure.add_trace(
        go.Scatter(
            mode="markers",
            x=[rate for rate, _ in seeds],
            y=[loss for _, loss in seeds],
            hovertemplate="one seed: %{y:.3f} at %{x:g}<extra></extra>",
            marker={"symbol": "circle-open", "color": BLUE, "size": 5},
        )
    )
    lost = [trial.learning_rate for trial in point.trials if trial.loss is None]
    if lost:
        top = max((loss for _, loss in seeds), default=1.0)
        figure.add_trace(
            go.Scatter(
                mode="markers",
                x=lost,
                y=[top] * len(lost),
                hovertemplate="diverged at %{x:g}<extra></extra>",
                marker={"symbol": "x", "color": ORANGE, "size": 9},
            )
        )
    figure.add_vline(x=point.rate, line_width=1, line_dash="dot")
    figure.update_xaxes(type="log", nticks=4, tickangle=0)
    figure.update_layout(showlegend=False)
    return figure


def _curve(point: RatePoint, colour: str, dash: str) -> go.Scatter:
    found = [(trial.learning_rate, trial.loss) for trial in point.trials if trial.loss is not None]
    return go.Scatter(
        mode="lines",
        x=[rate for rate, _ in found],
        y=[loss for _, loss in found],
        hovertemplate="mean %{y:.3f} nats at %{x:g}<extra></extra>",
        line={"color": colour, "dash": dash, "width": 2},
    )
