"""Figures of how something goes in a comparison: a small one for each variant, with the baseline in dashes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from attnlab.experiments.judging.ranking import others
from attnlab.experiments.planning.plan import Trial
from attnlab.experiments.results import ArmResult, Cell, Comparison
from attnlab.pages import BLUE, GREY, ORANGE, Figure, new_figure
from attnlab.statistics import mean_interval

_HEIGHT = 210  # pixels
_BAND = "rgba(61,133,198,0.22)"  # BLUE, through which lines are seen
_BASELINE_BAND = "rgba(125,133,144,0.22)"  # GREY


def curve_figures(comparison: Comparison) -> list[Figure]:
    """The validation loss of each variant and of the baseline, with the band in which all their seeds lie."""
    baseline = comparison.baseline
    finished = [cell for arm in comparison.arms for cell in arm.cells if cell.outcome == "finished"]
    losses = [loss for cell in finished for step, loss in cell.curve if step > 0]
    if not losses or not baseline.curve:
        return []
    room = 0.03 * (max(losses) - min(losses) or 1)
    figures = []
    for arm in others(comparison):
        figure = new_figure(x="step", y="loss (nats)", height=_HEIGHT)
        figure.add_traces([*_band(baseline, _BASELINE_BAND), *_band(arm, _BAND)])
        figure.add_trace(_line(baseline, GREY, "dash"))
        figure.add_trace(_line(arm, BLUE, "solid"))
        figure.add_traces([_lost(cell, max(losses)) for cell in arm.cells if cell.outcome == "diverged"])
        figure.update_layout(showlegend=False)
        figure.update_yaxes(range=[min(losses) - room, max(losses) + room])
        figures.append(Figure(figure, arm.name))
    return figures


def _line(arm: ArmResult, colour: str, dash: str) -> go.Scatter:
    curve = [point for point in arm.curve if point[0] > 0]
    return go.Scatter(
        name=arm.name,
        mode="lines+markers",
        x=[step for step, _ in curve],
        y=[loss for _, loss in curve],
        hovertemplate="%{y:.3f}<extra>" + arm.name + "</extra>",
        line={"color": colour, "dash": dash, "width": 2},
        marker={"size": 5, "symbol": "circle" if dash == "solid" else "circle-open"},
    )


def _lost(cell: Cell, top: float) -> go.Scatter:
    """A run that diverged, as far as it came, along the top where it is off the figure.

    Where it had not been evaluated yet, it is drawn by its training loss.
    """
    curve = cell.curve if len(cell.curve) > 1 else cell.training_curve
    points = [(step, loss) for step, loss in curve if step > 0 and math.isfinite(loss)]
    return go.Scatter(
        name=f"seed {cell.seed}, diverged",
        mode="lines+markers",
        x=[step for step, _ in points],
        y=[min(loss, top) for _, loss in points],
        text=[f"{loss:.3f}" for _, loss in points],
        hovertemplate="%{text}<extra>" + f"seed {cell.seed}, diverged</extra>",
        line={"color": ORANGE, "dash": "dot", "width": 1.5},
        marker={"symbol": "x", "size": [0] * (len(points) - 1) + [9] * bool(points)},
    )


def _band(arm: ArmResult, colour: str) -> list[go.Scatter]:
    """From the lowest to the highest seed at each step."""
    curves = [dict(cell.curve) for cell in arm.cells if cell.outcome == "finished"]
    steps = [step for step, _ in arm.curve if step > 0]
    if not steps:
        return []
    low = [min(curve[step] for curve in curves) for step in steps]
    high = [max(curve[step] for curve in curves) for step in steps]
    return [_filled([*steps, *reversed(steps)], [*high, *reversed(low)], colour)]


def _filled(x: Sequence[float], y: Sequence[float], colour: str) -> go.Scatter:
    return go.Scatter(x=x, y=y, fill="toself", fillcolor=colour, line={"width": 0}, mode="lines", hoverinfo="skip")


def gap_figures(comparison: Comparison) -> list[Figure]:
    """How the paired difference goes along the run, with the interval of its mean."""
    baseline = {cell.seed: dict(cell.curve) for cell in comparison.baseline.cells if cell.outcome == "finished"}
    found: list[tuple[str, list[tuple[int, float, float, float]]]] = []
    for arm in others(comparison):
        ours = {
            cell.seed: dict(cell.curve) for cell in arm.cells if cell.outcome == "finished" and cell.seed in baseline
        }
        shared = [set(ours[seed]) & set(baseline[seed]) for seed in ours]
        points = []
        for step in sorted(set.intersection(*shared)) if len(ours) > 1 else []:
            interval = mean_interval([ours[seed][step] - baseline[seed][step] for seed in ours])
            points.append((step, interval.mean, interval.low, interval.high))
        if len(points) > 2:
            found.append((arm.name, points))
    return [Figure(_gap_chart(points), name) for name, points in found]


def _gap_chart(points: Sequence[tuple[int, float, float, float]]) -> go.Figure:
    steps = [step for step, *_ in points]
    figure = new_figure(x="step", y="Δ loss (nats)", height=_HEIGHT)
    band = [*(high for *_, high in points), *(low for _, _, low, _ in reversed(points))]
    figure.add_trace(_filled([*steps, *reversed(steps)], band, _BAND))
    figure.add_trace(
        go.Scatter(
            mode="lines+markers",
            x=steps,
            y=[mean for _, mean, _, _ in points],
            hovertemplate="%{y:+.4f} nats<extra></extra>",
            line={"color": BLUE, "width": 2},
            marker={"size": 5},
        )
    )
    figure.add_hline(y=0, line_width=1.5, layer="below")
    figure.update_layout(showlegend=False)
    return figure


def rate_figures(comparison: Comparison) -> list[Figure]:
    """The loss at each learning rate that was tried, against the baseline's; empty if none was."""
    tuned = [arm for arm in comparison.plan.arms if arm.trials]
    losses = [trial.loss for arm in tuned for trial in arm.trials if trial.loss is not None]
    if not losses:
        return []
    top = max(losses) + 0.08 * (max(losses) - min(losses) or 1)
    figures = []
    for arm in tuned:
        figure = new_figure(x="learning rate", y="loss (nats)", height=_HEIGHT)
        if arm is not comparison.plan.baseline and comparison.plan.baseline.trials:
            figure.add_trace(_trials(comparison.plan.baseline.trials, GREY, "dash"))
        figure.add_trace(_trials(arm.trials, BLUE, "solid"))
        lost = [trial.learning_rate for trial in arm.trials if trial.loss is None]
        if lost:
            marker = {"symbol": "x", "color": ORANGE, "size": 10}
            words = "diverged at %{x:g}<extra></extra>"
            figure.add_trace(
                go.Scatter(mode="markers", x=lost, y=[top] * len(lost), marker=marker, hovertemplate=words)
            )
        figure.update_layout(showlegend=False)
        rates = sorted({trial.learning_rate for trial in (*arm.trials, *comparison.plan.baseline.trials)})
        figure.update_xaxes(type="log", tickvals=rates, ticktext=[f"{rate:g}" for rate in rates], tickangle=0)
        figures.append(Figure(figure, arm.name))
    return figures


def _trials(trials: Sequence[Trial], colour: str, dash: str) -> go.Scatter:
    found = sorted((trial.learning_rate, trial.loss) for trial in trials if trial.loss is not None)
    best = min(found, key=lambda trial: trial[1]) if found else None
    return go.Scatter(
        mode="lines+markers",
        x=[rate for rate, _ in found],
        y=[loss for _, loss in found],
        hovertemplate="%{y:.3f} nats at %{x:g}<extra></extra>",
        line={"color": colour, "dash": dash, "width": 2},
        marker={"size": [11 if point == best else 6 for point in found], "symbol": "circle", "opacity": 1},
    )
