"""The figures of a comparison.

Many variants are told apart by their place, never by colour: a row each, or a small figure each in which the variant is
drawn as a line and the baseline as dashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import plotly.graph_objects as go

from attnlab.experiments.judging.judgement import Judgement
from attnlab.experiments.judging.ranking import in_order, others
from attnlab.experiments.reporting.axis import DifferenceAxis
from attnlab.experiments.reporting.formats import count_text, measure_text, nats_text, percent_text
from attnlab.experiments.results import ArmResult, Comparison
from attnlab.pages import BLUE, GREY, ORANGE, Figure, new_figure

_ROW = 56  # pixels
_COST_HEIGHT, _COST_LABEL = 460, 16  # pixels
_MARGIN_BAND = "rgba(125,133,144,0.22)"  # GREY


def differences_chart(comparison: Comparison) -> go.Figure:
    """Paired differences: every seed, the mean with its interval, and the margin; the best on top."""
    ordered = in_order(comparison.judgements)[::-1]
    margin = comparison.plan.procedure.margin
    axis = DifferenceAxis.of(ordered, margin)
    begin, end = axis.range()
    figure = new_figure(x=f"perplexity against {comparison.baseline.name}", height=100 + _ROW * len(ordered))
    figure.add_vrect(x0=axis.place(-margin), x1=axis.place(margin), fillcolor=_MARGIN_BAND, line_width=0, layer="below")
    figure.add_vline(x=0, line_width=1.5, layer="below")
    figure.add_trace(_seed_dots(ordered, axis))
    figure.add_trace(_means(ordered, axis))
    if any(one.diverged for one in ordered):
        end += 0.05 * (end - begin)
        figure.add_trace(_diverged(ordered, end))
    ticks = axis.ticks()
    figure.update_xaxes(
        range=[begin, end], tickvals=[place for place, _ in ticks], ticktext=[text for _, text in ticks], tickangle=0
    )
    figure.update_yaxes(range=[-0.5, len(ordered) - 0.5], showgrid=False, showticklabels=False, ticks="")
    for row, one in enumerate(ordered):
        figure.add_annotation(_label(row, one))
    return figure


def _label(row: int, one: Judgement) -> go.layout.Annotation:
    """The name and the verdict above the row, which leaves the whole width to the row, also on a telephone."""
    words = f"<b>{one.arm}</b> {one.verdict}"
    place = {"xref": "paper", "x": 0, "xanchor": "left", "y": row + 0.3, "yanchor": "middle"}
    return go.layout.Annotation(text=words, showarrow=False, font={"size": 12}, **place)


def _seed_dots(ordered: Sequence[Judgement], axis: DifferenceAxis) -> go.Scatter:
    dots = [
        (axis.place(difference), row - 0.26, f"{one.arm}, seed {seed}: {_both(difference)}")
        for row, one in enumerate(ordered)
        for seed, difference in zip(one.seeds, one.differences, strict=True)
    ]
    return go.Scatter(
        name="one seed",
        mode="markers",
        x=[x for x, _, _ in dots],
        y=[y for _, y, _ in dots],
        text=[text for _, _, text in dots],
        hovertemplate="%{text}<extra></extra>",
        marker={"symbol": "circle-open", "color": GREY, "size": 7, "line": {"width": 1.5}},
    )


def _means(ordered: Sequence[Judgement], axis: DifferenceAxis) -> go.Scatter:
    found = [(row, one, one.mean) for row, one in enumerate(ordered) if one.mean is not None]
    ends = [
        (one.low if one.low is not None else mean, one.high if one.high is not None else mean) for _, one, mean in found
    ]
    places = [axis.place(mean) for _, _, mean in found]
    return go.Scatter(
        name="mean and interval",
        mode="markers",
        x=places,
        y=[row - 0.02 for row, _, _ in found],
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [axis.place(high) - place for (_, high), place in zip(ends, places, strict=True)],
            "arrayminus": [place - axis.place(low) for (low, _), place in zip(ends, places, strict=True)],
            "thickness": 2,
            "width": 5,
            "color": BLUE,
        },
        text=[
            f"{one.arm}: {_both(mean)}<br>from {_both(low)}<br>to {_both(high)}"
            for (_, one, mean), (low, high) in zip(found, ends, strict=True)
        ],
        hovertemplate="%{text}<extra></extra>",
        marker={"symbol": "diamond", "color": BLUE, "size": 11},
    )


def _diverged(ordered: Sequence[Judgement], edge: float) -> go.Scatter:
    found = [(row, one) for row, one in enumerate(ordered) if one.diverged]
    return go.Scatter(
        name="diverged",
        mode="markers+text",
        x=[edge] * len(found),
        y=[row for row, _ in found],
        text=[f"{len(one.diverged)} " for _, one in found],
        textposition="middle left",
        hovertext=[f"{one.arm}: diverged at seeds {', '.join(map(str, one.diverged))}" for _, one in found],
        hovertemplate="%{hovertext}<extra></extra>",
        marker={"symbol": "x", "color": ORANGE, "size": 11},
        cliponaxis=False,
    )


def _both(difference: float) -> str:
    return f"{percent_text(difference)} ({nats_text(difference)} nats)"


def cost_chart(comparison: Comparison) -> go.Figure | None:
    """The difference against the seconds of training, and a line through what nothing else beats in both."""
    found = _costs(comparison)
    if not found:
        return None
    axis = DifferenceAxis.of(comparison.judgements, comparison.plan.procedure.margin)
    begin, end = axis.range()
    points = [(arm.name, seconds, axis.place(difference)) for arm, seconds, difference in found]
    figure = new_figure(x="seconds of training (mean of the runs)", y="perplexity", height=_COST_HEIGHT)
    front = _front([(x, y) for _, x, y in points])
    line = {"color": GREY, "dash": "dot", "width": 1.5}
    figure.add_trace(
        go.Scatter(mode="lines", x=[x for x, _ in front], y=[y for _, y in front], line=line, hoverinfo="skip")
    )
    figure.add_trace(
        go.Scatter(
            mode="markers",
            x=[x for _, x, _ in points],
            y=[y for _, _, y in points],
            text=[_cost_words(arm, seconds) for arm, seconds, _ in found],
            hovertemplate="%{text}<extra></extra>",
            marker={"symbol": ["square", *["circle"] * (len(found) - 1)], "size": 10, "color": BLUE},
        )
    )
    for annotation in _cost_labels(points, (begin, end)):
        figure.add_annotation(annotation)
    ticks = axis.ticks()
    figure.update_yaxes(
        range=[begin, end], tickvals=[place for place, _ in ticks], ticktext=[text for _, text in ticks]
    )
    figure.update_layout(showlegend=False)
    return figure


def _costs(comparison: Comparison) -> list[tuple[ArmResult, float, float]]:
    """Arms with their mean seconds and mean difference, of the seeds that finished; the baseline first."""
    means = {one.arm: fmean(one.differences) for one in comparison.judgements if one.differences}
    arms = [comparison.baseline, *others(comparison)] if means else []
    means[comparison.baseline.name] = 0.0
    return [
        (arm, seconds, means[arm.name])
        for arm in arms
        if arm.name in means and (seconds := arm.mean_of("seconds")) is not None
    ]


def _cost_words(arm: ArmResult, seconds: float) -> str:
    loss = "" if arm.loss is None else f"{arm.loss:.4f} nats, "
    return f"{arm.name}<br>{loss}{seconds:.1f} s<br>{count_text(arm.arm.training_flops)}FLOPs a step"


def _cost_labels(points: Sequence[tuple[str, float, float]], ends: tuple[float, float]) -> list[go.layout.Annotation]:
    """A name beside each point, towards the middle of the figure, pushed up where it would hide another."""
    middle = (min(x for _, x, _ in points) + max(x for _, x, _ in points)) / 2
    line = {"arrowhead": 0, "arrowwidth": 1, "arrowcolor": GREY, "standoff": 5}
    labels = []
    last = -float(_COST_LABEL)
    for name, x, y in sorted(points, key=lambda point: point[2]):
        height = (y - ends[0]) / (ends[1] - ends[0]) * (_COST_HEIGHT - 60)  # pixels above the lower end
        last = max(height, last + _COST_LABEL)
        left = x <= middle
        offset = {"ax": 22 if left else -22, "ay": height - last, "xanchor": "left" if left else "right"}
        labels.append(go.layout.Annotation(text=name, x=x, y=y, font={"size": 12}, **offset, **line))
    return labels


def _front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Those that no other point beats in both."""
    front: list[tuple[float, float]] = []
    for seconds, place in sorted(points):
        if not front or place < front[-1][1]:
            front.append((seconds, place))
    return front


def measure_figures(comparison: Comparison, names: Sequence[str]) -> list[Figure]:
    """A measure each: its mean and interval for every arm that has it, and the baseline's as a line."""
    arms = [comparison.baseline, *others(comparison)][::-1]
    figures = []
    for name in names:
        figure = new_figure(x="", height=70 + 22 * len(arms))
        found = [(row, interval) for row, arm in enumerate(arms) if (interval := arm.measure(name)) is not None]
        theirs = comparison.baseline.measure(name)
        if theirs is not None:
            figure.add_vline(x=theirs.mean, line_width=1, line_dash="dash", layer="below")
        figure.add_trace(
            go.Scatter(
                mode="markers",
                x=[interval.mean for _, interval in found],
                y=[row for row, _ in found],
                error_x={
                    "symmetric": False,
                    "array": [interval.high - interval.mean for _, interval in found],
                    "arrayminus": [interval.mean - interval.low for _, interval in found],
                    "thickness": 1.5,
                    "width": 3,
                },
                text=[f"{measure_text(i.mean)} ({measure_text(i.low)} … {measure_text(i.high)})" for _, i in found],
                hovertemplate="%{text}<extra></extra>",
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
