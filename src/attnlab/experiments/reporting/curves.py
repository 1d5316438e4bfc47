"""Small figures, one for each variant, with the baseline in dashes: along the run, over learning rates, measures."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from attnlab.experiments.numbers import measure_interval
from attnlab.experiments.planning.plan import Trial
from attnlab.experiments.reporting.charts import error_bars, scatter
from attnlab.experiments.results import ArmResult, ArmRun, Comparison
from attnlab.formats import general
from attnlab.pages import BLUE, GREY, ORANGE, Figure, new_figure
from attnlab.statistics import mean_interval

_HEIGHT = 210  # pixels
_NEAREST = 0.3  # of the axis lie between two ticks at least, or they would run into each other
_BAND = "rgba(61,133,198,0.22)"  # BLUE, through which lines are seen
_BASELINE_BAND = "rgba(125,133,144,0.22)"  # GREY


def filled(x: Sequence[float], low: Sequence[float], high: Sequence[float], colour: str) -> go.Scatter:
    """Return the band between two lines."""
    return go.Scatter(
        x=[*x, *reversed(x)],
        y=[*high, *reversed(low)],
        fill="toself",
        fillcolor=colour,
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
    )


def curve_figures(comparison: Comparison) -> list[Figure]:
    """Draw the validation loss of each variant and of the baseline, with the band in which all their seeds lie."""
    baseline = comparison.baseline
    finished = [run for arm in comparison.arms for run in arm.runs if run.outcome == "finished"]
    losses = [loss for run in finished for step, loss in run.curve if step > 0]
    if not losses or not baseline.curve:
        return []
    room = 0.03 * (max(losses) - min(losses) or 1)
    figures = []
    for arm in comparison.variants:
        figure = new_figure(x="step", y="loss (nats)", height=_HEIGHT)
        figure.add_traces([*_band(baseline, _BASELINE_BAND), *_band(arm, _BAND)])
        figure.add_trace(_line(baseline, GREY, "dash"))
        figure.add_trace(_line(arm, BLUE, "solid"))
        figure.add_traces([_lost(run, max(losses)) for run in arm.runs if run.outcome == "diverged"])
        figure.update_layout(showlegend=False)
        figure.update_yaxes(range=[min(losses) - room, max(losses) + room])
        figures.append(Figure(figure, arm.name))
    return figures


def _line(arm: ArmResult, colour: str, dash: str) -> go.Scatter:
    return scatter(
        [point for point in arm.curve if point[0] > 0],
        name=arm.name,
        mode="lines+markers",
        hovertemplate="%{y:.3f}<extra>" + arm.name + "</extra>",
        line={"color": colour, "dash": dash, "width": 2},
        marker={"size": 5, "symbol": "circle" if dash == "solid" else "circle-open"},
    )


def _lost(run: ArmRun, top: float) -> go.Scatter:
    """Draw a run that diverged, as far as it came, along the top where it is off the figure.

    Where it had not been evaluated yet, it is drawn by its training loss.
    """
    curve = run.curve if len(run.curve) > 1 else run.training_curve
    points = [(step, loss) for step, loss in curve if step > 0 and math.isfinite(loss)]
    return scatter(
        [(step, min(loss, top), f"{loss:.3f}") for step, loss in points],
        name=f"seed {run.seed}, diverged",
        mode="lines+markers",
        hovertemplate="%{text}<extra>" + f"seed {run.seed}, diverged</extra>",
        line={"color": ORANGE, "dash": "dot", "width": 1.5},
        marker={"symbol": "x", "size": [0] * (len(points) - 1) + [9] * bool(points)},
    )


def _band(arm: ArmResult, colour: str) -> list[go.Scatter]:
    """Draw the range from the lowest to the highest seed at each step."""
    curves = [dict(run.curve) for run in arm.runs if run.outcome == "finished"]
    steps = [step for step, _ in arm.curve if step > 0]
    if not steps:
        return []
    low = [min(curve[step] for curve in curves) for step in steps]
    high = [max(curve[step] for curve in curves) for step in steps]
    return [filled(steps, low, high, colour)]


def gap_figures(comparison: Comparison) -> list[Figure]:
    """Draw how the paired difference goes along the run, with the interval of its mean."""
    baseline = {run.seed: dict(run.curve) for run in comparison.baseline.runs if run.outcome == "finished"}
    figures = []
    for arm in comparison.variants:
        ours = {run.seed: dict(run.curve) for run in arm.runs if run.outcome == "finished" and run.seed in baseline}
        shared = [set(ours[seed]) & set(baseline[seed]) for seed in ours]
        steps = sorted(set.intersection(*shared)) if len(ours) > 1 else []
        found = [mean_interval([ours[seed][step] - baseline[seed][step] for seed in ours]) for step in steps]
        if len(steps) < 3:
            continue
        figure = new_figure(x="step", y="Δ loss (nats)", height=_HEIGHT)
        figure.add_trace(filled(steps, [one.low for one in found], [one.high for one in found], _BAND))
        figure.add_trace(
            go.Scatter(
                mode="lines+markers",
                x=steps,
                y=[one.mean for one in found],
                hovertemplate="%{y:+.4f} nats<extra></extra>",
                line={"color": BLUE, "width": 2},
                marker={"size": 5},
            )
        )
        figure.add_hline(y=0, line_width=1.5, layer="below")
        figure.update_layout(showlegend=False)
        figures.append(Figure(figure, arm.name))
    return figures


def rate_figures(comparison: Comparison) -> list[Figure]:
    """Draw the loss at each learning rate that was tried, against the baseline's; nothing if none was."""
    baseline = comparison.plan.baseline
    return [
        Figure(rate_chart(arm.trials, arm.run.learning_rate, () if arm is baseline else baseline.trials), arm.name)
        for arm in comparison.plan.arms
        if arm.trials
    ]


def rate_chart(trials: Sequence[Trial], taken: float | None, baseline: Sequence[Trial]) -> go.Figure:
    """Draw mean losses over learning rates, single seeds as rings, what diverged as crosses, and the rate taken."""
    figure = new_figure(x="learning rate", y="loss (nats)", height=_HEIGHT)
    for drawn, colour, dash in ((baseline, GREY, "dash"), (trials, BLUE, "solid")):
        means = sorted((trial.learning_rate, trial.loss) for trial in drawn if trial.loss is not None)
        if drawn:
            figure.add_trace(
                scatter(
                    means,
                    mode="lines+markers",
                    hovertemplate="mean %{y:.3f} nats at %{x:g}<extra></extra>",
                    line={"color": colour, "dash": dash, "width": 2},
                    marker={"size": 5},
                )
            )
    seeds = [(trial.learning_rate, loss) for trial in trials for loss in trial.losses if loss is not None]
    lost = [trial.learning_rate for trial in trials if trial.loss is None]
    top = max([*(loss for _, loss in seeds), *(one.loss for one in (*trials, *baseline) if one.loss)], default=1.0)
    for points, word, symbol, colour in (
        (seeds, "one seed: %{y:.3f}", "circle-open", BLUE),
        ([(rate, top) for rate in lost], "diverged", "x", ORANGE),
    ):
        if points:
            marker = {"symbol": symbol, "color": colour, "size": 5 if symbol == "circle-open" else 9}
            figure.add_trace(scatter(points, hovertemplate=word + " at %{x:g}<extra></extra>", marker=marker))
    if taken is not None:
        figure.add_vline(x=taken, line_width=1, line_dash="dot")
    rates = sorted({trial.learning_rate for trial in (*trials, *baseline)})
    ticks = rates[:1]
    for rate in rates:
        if rate > ticks[-1] * (rates[-1] / rates[0]) ** _NEAREST:
            ticks.append(rate)
    figure.update_xaxes(type="log", tickvals=ticks, ticktext=[general(rate, 2) for rate in ticks], tickangle=0)
    figure.update_layout(showlegend=False)
    return figure


def measure_figures(comparison: Comparison, names: Sequence[str]) -> list[Figure]:
    """Draw each measure: its mean and interval for every arm that has it, and the baseline's as a line."""
    arms = [comparison.baseline, *comparison.variants][::-1]
    figures = []
    for name in names:
        figure = new_figure(x="", height=70 + 22 * len(arms))
        found = [(row, interval) for row, arm in enumerate(arms) if (interval := arm.measure(name)) is not None]
        theirs = comparison.baseline.measure(name)
        if theirs is not None:
            figure.add_vline(x=theirs.mean, line_width=1, line_dash="dash", layer="below")
        figure.add_trace(
            scatter(
                [(interval.mean, row, measure_interval(interval)) for row, interval in found],
                error_x=error_bars([interval for _, interval in found], thickness=1.5, width=3),
                marker={"color": BLUE, "size": 8, "symbol": "diamond"},
            )
        )
        figure.update_layout(showlegend=False)
        figure.update_yaxes(
            tickvals=list(range(len(arms))),
            ticktext=[arm.name for arm in arms],
            range=[-0.6, len(arms) - 0.4],
            tickfont={"size": 11},
            ticks="",
        )
        figures.append(Figure(figure, name))
    return figures
