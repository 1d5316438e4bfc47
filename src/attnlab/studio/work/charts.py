"""Charts of a comparison while it runs: the loss of every arm by step, and the differences to the baseline.

Arms differ in colour, sizes in dashes, and all in their marks, so that they can be told apart without colour vision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from attnlab.experiments.numbers import percent, percent_text
from attnlab.pages import GREY, PALETTE, new_figure
from attnlab.studio.work.pages import drawn_figure

_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down", "pentagon", "hexagram")
_OPEN = {"better": "circle", "worse": "square", "equivalent": "diamond"}  # marks of verdicts; any other is a ring
_ROW = 26  # pixels
_BAND = "rgba(125,133,144,0.22)"  # GREY
_BEYOND = 4.0  # times the largest mean or margin that an interval may reach before it is cut off

Run = Mapping[str, Any]


def _split(label: str) -> tuple[str, str]:
    """Return the arm and the size that the label of a run names; the largest size is not named."""
    arm, _, size = label.partition(" at ")
    return arm, size


def _lines(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return a line and a mark for each label: colours by arm, dashes by size."""
    arms, sizes = (list(dict.fromkeys(part)) for part in zip(*map(_split, labels), strict=True))
    found = {}
    for label in labels:
        place, turn = arms.index(_split(label)[0]) % len(PALETTE), sizes.index(_split(label)[1]) % len(_DASHES)
        line = {"color": PALETTE[place], "dash": _DASHES[turn], "width": 2 if turn == 0 else 1.5}
        found[label] = {"line": line, "marker": {"symbol": _SYMBOLS[place], "size": 6, "color": PALETTE[place]}}
    return found


def loss_figure(curves: Sequence[Run], *, every: bool = False) -> dict[str, Any]:
    """Draw the mean of each arm with a band from its lowest to its highest seed, or `every` run by itself.

    The loss is that of validation once there is any, and of training before.
    """
    kind = "validation" if any(run["validation"] for run in curves) else "training"
    figure = new_figure(x="step", y=f"{kind} loss (nats)", height=360)
    labels = list(dict.fromkeys(run["arm"] for run in curves))
    for label, style in _lines(labels).items():
        runs = [run for run in curves if run["arm"] == label and run[kind]]
        group = {"name": label, "legendgroup": label}
        if every:
            for number, run in enumerate(runs):
                steps, losses = zip(*run[kind], strict=True)
                hover = f"{label} seed {run['seed']} %{{x}}: %{{y:.3f}}<extra></extra>"
                drawn = {**style, **group, "mode": "lines", "opacity": 0.75, "showlegend": number == 0}
                figure.add_scatter(x=steps, y=losses, hovertemplate=hover, **drawn)
        elif runs:
            _add_mean(figure, _by_step(runs, kind), style, group, len(runs))
    return drawn_figure(figure)


def _by_step(runs: Sequence[Run], kind: str) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for run in runs:
        for step, loss in run[kind]:
            found.setdefault(step, []).append(loss)
    return dict(sorted(found.items()))


def _add_mean(
    figure: Any, points: Mapping[int, list[float]], style: Mapping[str, Any], group: Mapping[str, Any], seeds: int
) -> None:
    steps = list(points)
    if seeds > 1:
        low, high = [min(losses) for losses in points.values()], [max(losses) for losses in points.values()]
        band = {"fill": "toself", "fillcolor": style["line"]["color"], "opacity": 0.18, "line": {"width": 0}}
        hidden = {**group, "showlegend": False, "hoverinfo": "skip", "mode": "lines"}
        figure.add_scatter(x=[*steps, *steps[::-1]], y=[*high, *low[::-1]], **band, **hidden)
    means = [fmean(losses) for losses in points.values()]
    few = len(steps) <= 40
    figure.add_scatter(
        x=steps,
        y=means,
        customdata=[len(losses) for losses in points.values()],
        hovertemplate=f"{group['name']} %{{x}}: %{{y:.3f}} (mean of %{{customdata}})<extra></extra>",
        mode="lines+markers" if few else "lines",
        **style,
        **group,
    )


def forest_figure(found: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the interval of every difference to the baseline in a row of its own; the margin is the grey band."""
    rows = found["intervals"][::-1]  # plotly draws from below
    several = len({row["rung"] for row in rows}) > 1
    names = [f"{row['arm']} at {row['rung']}" if several else row["arm"] for row in rows]
    title = f"perplexity against {found['baseline']} (%), {found['confidence']} intervals"
    figure = new_figure(x=title, height=80 + _ROW * len(rows))
    margin = percent(found["margin"])
    figure.add_vrect(x0=-margin, x1=margin, fillcolor=_BAND, line_width=0, layer="below")
    figure.add_vline(x=0, line_width=1.5, line_color=GREY, layer="below")
    means = [percent(row["mean"]) for row in rows]
    reach = _BEYOND * max([margin, *map(abs, means)])
    lows, highs = ([max(-reach, min(reach, percent(row[end]))) for row in rows] for end in ("low", "high"))
    arms = list(dict.fromkeys(row["arm"] for row in found["intervals"]))
    colours = [PALETTE[(arms.index(row["arm"]) + 1) % len(PALETTE)] for row in rows]  # the first is the baseline's
    for place, (row, name) in enumerate(zip(rows, names, strict=True)):
        words = f"{percent_text(row['low'])} … {percent_text(row['high'])}, {row['seeds']} seeds"
        line = {"color": colours[place], "width": 3}
        ends = [lows[place], highs[place]]
        figure.add_scatter(x=ends, y=[name] * 2, mode="lines", line=line, showlegend=False, hoverinfo="skip")
        figure.add_scatter(
            x=[means[place]],
            y=[name],
            mode="markers",
            marker={"color": colours[place], "size": 11, "symbol": _OPEN.get(row["verdict"], "circle-open")},
            showlegend=False,
            hovertemplate=f"{name} {percent_text(row['mean'])} ({words}) {row['verdict']}<extra></extra>",
        )
    edges = [*lows, *highs, -1.3 * margin, 1.3 * margin]
    room = 0.05 * (max(edges) - min(edges))
    figure.update_xaxes(range=[min(edges) - room, max(edges) + room], ticksuffix=" %")
    return drawn_figure(figure)


def sizes_figure(found: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the difference of every arm against the size of the model, as far as its rungs have ended."""
    title = f"perplexity against {found['baseline']} (%)"
    figure = new_figure(x="size (parameters, logarithmic)", y=title, height=340)
    margin = percent(found["margin"])
    figure.add_hrect(y0=-margin, y1=margin, fillcolor=_BAND, line_width=0, layer="below")
    figure.add_hline(y=0, line_width=1.5, line_color=GREY, layer="below")
    arms = list(dict.fromkeys(row["arm"] for row in found["intervals"]))
    for number, arm in enumerate(arms, start=1):  # the first colour is the baseline's
        rows = sorted(
            (row for row in found["intervals"] if row["arm"] == arm and row["parameters"]),
            key=lambda row: row["parameters"],
        )
        means = [percent(row["mean"]) for row in rows]
        above, below = ([abs(percent(row[end]) - percent(row["mean"])) for row in rows] for end in ("high", "low"))
        colour = PALETTE[number % len(PALETTE)]
        figure.add_scatter(
            x=[row["parameters"] for row in rows],
            y=means,
            error_y={"type": "data", "symmetric": False, "array": above, "arrayminus": below, "color": colour},
            mode="lines+markers",
            name=arm,
            line={"color": colour, "width": 2},
            marker={"symbol": _SYMBOLS[number % len(_SYMBOLS)], "size": 8},
            text=[f"{arm} at {row['rung']} {percent_text(row['mean'])}" for row in rows],
            hovertemplate="%{text}<extra></extra>",
        )
    sizes = {row["parameters"]: row["rung"] for row in found["intervals"] if row["parameters"]}
    figure.update_xaxes(type="log", tickvals=list(sizes), ticktext=list(sizes.values()))
    figure.update_yaxes(ticksuffix=" %")
    return drawn_figure(figure)
