"""Charts of comparisons and studies while they run: losses by step, differences to the baseline, and forecasts.

Arms differ in colour, sizes in dashes, and all in their markers, so that no colour vision is needed to tell them apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Literal

from attnlab.experiments.numbers import percent, percent_text
from attnlab.formats import count
from attnlab.pages import GREY, PALETTE, new_figure
from attnlab.studio.work.pages import drawn_figure

_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down", "pentagon", "hexagram")
_OPEN = {"better": "circle", "worse": "square", "equivalent": "diamond"}  # markers of verdicts; any other is a ring
_ROW = 26  # pixels
_BAND = "rgba(125,133,144,0.22)"  # GREY
_BEYOND = 4.0  # times the largest mean or margin; intervals are cut off there

Run = Mapping[str, Any]
SizeName = Literal["parameters", "non_embedding"]


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
    """Draw the mean of each arm with a band from its lowest to its highest seed, or `every` run separately.

    The chart shows the validation loss if there is any yet, else the training loss.
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
    rows = found["intervals"][::-1]  # plotly draws from bottom to top
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


def sizes_figure(found: Mapping[str, Any], size: SizeName = "parameters") -> dict[str, Any]:
    """Draw the difference of every arm against the size of the model, as far as its rungs have ended."""
    figure = _sized_figure(found, size)
    for arm, style in _arm_styles(found).items():
        rows = _measured(found, arm, size)
        _add_intervals(
            figure,
            [row[size] for row in rows],
            rows,
            name=arm,
            mode="lines+markers",
            line={"color": style["color"], "width": 2},
            marker={"symbol": style["symbol"], "size": 8},
            text=[f"{arm} at {row['rung']} {percent_text(row['mean'])}" for row in rows],
        )
    return drawn_figure(figure)


def forecast_figure(found: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the measurements, forecasts one rung ahead as dashed, and extrapolations to the target as dotted lines.

    The axis covers all measurements; forecasts that are several times as large are cut off.
    """
    size: SizeName = "non_embedding"
    figure = _sized_figure(found, size)
    seen = [percent(row[end]) for row in found["intervals"] if row[size] for end in ("low", "high")]
    named = set()  # in the legend
    reach = _BEYOND * max(map(abs, seen), default=0.0)
    for arm, style in _arm_styles(found).items():
        rows, colour = _measured(found, arm, size), style["color"]
        marker = {"symbol": style["symbol"], "size": 8, "color": colour}
        text = [f"{arm} at {row['rung']} {percent_text(row['mean'])}" for row in rows]
        group = {"legendgroup": arm}
        line = {"color": colour, "width": 2}
        sizes = [row[size] for row in rows]
        _add_intervals(
            figure, sizes, rows, name=arm, mode="lines+markers", marker=marker, line=line, text=text, **group
        )
        for one in found["forecasts"].get(arm, ()) if rows else ():
            word = "extrapolation" if one["is_extrapolation"] else "forecast"
            words = f"{arm} {word} {percent_text(one['mean'])} at {count(one['size'])}, no measurement"
            last = {**rows[-1], "low": rows[-1]["mean"], "high": rows[-1]["mean"]}
            _add_intervals(
                figure,
                [last[size], one["size"]],
                [last, one],
                name=f"{arm}: {word}",
                mode="lines+markers",
                line={"color": colour, "width": 2, "dash": "dot" if one["is_extrapolation"] else "dash"},
                marker={"symbol": ["circle", f"{style['symbol']}-open"], "size": [1, 10], "color": colour},
                text=["", words],
                showlegend=(arm, word) not in named,
                **group,
            )
            named.add((arm, word))
            mean = percent(one["mean"])
            seen += [mean] if abs(mean) <= reach else []
    low, high = min([0.0, *seen]), max([0.0, *seen])
    room = 0.08 * (high - low or 1.0)
    figure.update_yaxes(range=[low - room, high + room])
    figure.update_xaxes(tickvals=None, ticktext=None, exponentformat="SI", nticks=6)
    return drawn_figure(figure)


def _sized_figure(found: Mapping[str, Any], size: SizeName) -> Any:
    """Return an empty chart of differences against sizes, with the margin as a grey band."""
    words = {"parameters": "parameters", "non_embedding": "non-embedding parameters"}[size]
    title = f"perplexity against {found['baseline']} (%)"
    figure = new_figure(x=words, y=title, height=340)
    margin = percent(found["margin"])
    figure.add_hrect(y0=-margin, y1=margin, fillcolor=_BAND, line_width=0, layer="below")
    figure.add_hline(y=0, line_width=1.5, line_color=GREY, layer="below")
    sizes = {row[size]: row["rung"] for row in found["intervals"] if row[size]}
    figure.update_xaxes(type="log", tickvals=list(sizes), ticktext=list(sizes.values()))
    figure.update_yaxes(ticksuffix=" %")
    return figure


def _arm_styles(found: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return a colour and a mark for every arm; the first colour is the baseline's."""
    arms = dict.fromkeys(row["arm"] for row in found["intervals"])
    return {
        arm: {"color": PALETTE[number % len(PALETTE)], "symbol": _SYMBOLS[number % len(_SYMBOLS)]}
        for number, arm in enumerate(arms, start=1)
    }


def _measured(found: Mapping[str, Any], arm: str, size: SizeName) -> list[Mapping[str, Any]]:
    """Return the intervals of an arm, ascending in size."""
    rows = (row for row in found["intervals"] if row["arm"] == arm and row[size])
    return sorted(rows, key=lambda row: float(row[size]))


def _add_intervals(figure: Any, sizes: Sequence[float], rows: Sequence[Mapping[str, Any]], **style: Any) -> None:
    """Add means with their intervals as error bars."""
    means = [percent(row["mean"]) for row in rows]
    above, below = (
        [abs(percent(row[end]) - mean) for row, mean in zip(rows, means, strict=True)] for end in ("high", "low")
    )
    bars = {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "color": style["line"]["color"]}
    figure.add_scatter(x=list(sizes), y=means, error_y=bars, hovertemplate="%{text}<extra></extra>", **style)
