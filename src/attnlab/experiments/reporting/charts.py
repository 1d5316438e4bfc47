"""The figures of differences: of all seeds, against the size of the model, and against the cost.

Many variants are told apart by their place, never by colour alone: a row each, or a label beside each line.

The axis of differences is linear, or asinh(d / 2m) for a difference d and a margin m where some go far beyond the
margin: linear near zero and logarithmic far from it, so that small differences show too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import plotly.graph_objects as go

from attnlab.experiments.judging.judgement import Judgement
from attnlab.experiments.judging.trends import ArmTrend, RungDifference
from attnlab.experiments.numbers import nats_text, percent_text
from attnlab.experiments.results import ArmResult, Comparison
from attnlab.formats import count, signed
from attnlab.pages import BLUE, GREY, ORANGE, PALETTE, new_figure
from attnlab.statistics import Interval

_ROW, _HEIGHT, _LABEL, _LETTER = 56, 450, 17, 7  # pixels
_FRAME = 70  # pixels of a figure's height that its axis does not have
_BAND = "rgba(125,133,144,0.22)"  # GREY
_SYMBOLS = ("circle", "square", "diamond", "triangle-up")
_PLACES = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000)  # per cent of perplexity, for ticks
_WIDE = 12  # margins beyond which an axis is not linear
_TICKS = 6  # at most, or they run into each other on a telephone
_HOVER = "%{text}<extra></extra>"


@dataclass(frozen=True)
class DifferenceAxis:
    """From `low` to `high` in nats."""

    low: float
    high: float
    margin: float

    @classmethod
    def of(cls, judgements: Iterable[Judgement], margin: float) -> DifferenceAxis:
        """Return an axis on which everything about these judgements, and the margin, has its place."""
        found = [value for one in judgements for value in (*one.differences, one.low, one.high) if value is not None]
        values = [value for value in found if math.isfinite(value)]
        return cls(min([-2 * margin, *values]), max([2 * margin, *values]), margin)

    @property
    def bent(self) -> bool:
        return max(-self.low, self.high) > _WIDE * self.margin

    def place(self, difference: float) -> float:
        return math.asinh(difference / (2 * self.margin)) if self.bent else difference

    def range(self) -> list[float]:
        """Return where the axis begins and ends, with some room."""
        low, high = self.place(self.low), self.place(self.high)
        return [low - 0.05 * (high - low), high + 0.05 * (high - low)]

    def ticks(self) -> list[tuple[float, str]]:
        """Return places with what is written there, in per cent of perplexity."""
        begin, end = self.range()
        kept: dict[float, float] = {}
        for percent in (0.0, *(sign * place for place in self._candidates() for sign in (-1, 1))):
            if percent <= -100:
                continue
            place = self.place(math.log1p(percent / 100))
            if begin <= place <= end and all(abs(place - other) >= (end - begin) / _TICKS for other in kept):
                kept[place] = percent
        return [
            (place, "0" if percent == 0 else f"{signed(percent, 0 if float(percent).is_integer() else 1)} %")
            for place, percent in sorted(kept.items())
        ]

    def drawn(self) -> dict[str, object]:
        """Return the axis as plotly draws it."""
        ticks = self.ticks()
        return {
            "range": self.range(),
            "tickvals": [place for place, _ in ticks],
            "ticktext": [text for _, text in ticks],
            "tickangle": 0,
        }

    def _candidates(self) -> list[float]:
        """Return powers of ten first; where the axis is linear, multiples of a step that leaves room between them."""
        if self.bent:
            return sorted(_PLACES, key=lambda place: (not math.log10(place).is_integer(), place))
        width = 100 * (self.high - self.low)
        step = next(place for place in _PLACES if place * _TICKS > 1.2 * width)
        return [step * number for number in range(1, _TICKS + 1)]


def scatter(points: Sequence[tuple[float, float] | tuple[float, float, str]], **style: object) -> go.Scatter:
    """Return points (x, y), as markers unless said otherwise; a third member is shown where one points at it."""
    words = [point[2] for point in points if len(point) > 2]
    told = {"text": words, "hovertemplate": _HOVER} if words else {}
    return go.Scatter(
        **{"mode": "markers", "x": [point[0] for point in points], "y": [point[1] for point in points], **told, **style}
    )


def error_bars(
    intervals: Sequence[Interval], place: Callable[[float], float] = float, **style: object
) -> dict[str, object]:
    """Return the error bars of means, on an axis where values have the given places."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [place(one.high) - place(one.mean) for one in intervals],
        "arrayminus": [place(one.mean) - place(one.low) for one in intervals],
        **style,
    }


def _labels(
    points: Sequence[tuple[str, float, float]],
    axis: DifferenceAxis,
    beside: Callable[[str, float], Mapping[str, object]],
) -> list[go.layout.Annotation]:
    """Return a name beside each point, pushed up where it would hide the name below it.

    `points` are names with x and y; `beside` says where the text begins, given the name and x.
    """
    begin, end = axis.range()
    per_pixel = (end - begin) / (_HEIGHT - _FRAME)
    labels, height = [], -math.inf
    for name, x, y in sorted(points, key=lambda point: point[2]):
        height = max(y, height + _LABEL * per_pixel)
        style = {"arrowhead": 0, "arrowwidth": 1, "arrowcolor": GREY, "standoff": 6, "font": {"size": 12}}
        place = {"x": x, "y": y, "ay": (y - height) / per_pixel, **beside(name, x)}
        labels.append(go.layout.Annotation(text=name, **place, **style))
    return labels


def differences_chart(comparison: Comparison) -> go.Figure:
    """Draw paired differences: every seed, the mean with its interval, and the margin; the best on top."""
    ordered = comparison.ranking[::-1]
    margin = comparison.plan.procedure.margin
    axis = DifferenceAxis.of(ordered, margin)
    begin, end = axis.range()
    figure = new_figure(x=f"perplexity against {comparison.baseline.name}", height=100 + _ROW * len(ordered))
    figure.add_vrect(x0=axis.place(-margin), x1=axis.place(margin), fillcolor=_BAND, line_width=0, layer="below")
    figure.add_vline(x=0, line_width=1.5, layer="below")
    figure.add_trace(_seed_dots(ordered, axis))
    figure.add_trace(_means(ordered, axis))
    if any(one.diverged for one in ordered):
        end += 0.05 * (end - begin)
        figure.add_trace(_diverged(ordered, end))
    figure.update_xaxes(**{**axis.drawn(), "range": [begin, end]})
    figure.update_yaxes(range=[-0.5, len(ordered) - 0.5], showgrid=False, showticklabels=False, ticks="")
    for row, one in enumerate(ordered):  # above the row, which leaves it the whole width, also on a telephone
        figure.add_annotation(
            text=f"<b>{one.arm}</b> {one.verdict}",
            showarrow=False,
            font={"size": 12},
            xref="paper",
            x=0,
            xanchor="left",
            y=row + 0.3,
            yanchor="middle",
        )
    return figure


def _seed_dots(ordered: Sequence[Judgement], axis: DifferenceAxis) -> go.Scatter:
    dots = [
        (axis.place(difference), row - 0.26, f"{one.arm}, seed {seed}: {_both(difference)}")
        for row, one in enumerate(ordered)
        for seed, difference in zip(one.seeds, one.differences, strict=True)
    ]
    marker = {"symbol": "circle-open", "color": GREY, "size": 7, "line": {"width": 1.5}}
    return scatter(dots, name="one seed", marker=marker)


def _means(ordered: Sequence[Judgement], axis: DifferenceAxis) -> go.Scatter:
    found = [(row, one.arm, interval) for row, one in enumerate(ordered) if (interval := _interval(one)) is not None]
    words = [f"{arm}: {_both(one.mean)}<br>from {_both(one.low)}<br>to {_both(one.high)}" for _, arm, one in found]
    return scatter(
        [(axis.place(one.mean), row - 0.02, text) for (row, _, one), text in zip(found, words, strict=True)],
        name="mean and interval",
        error_x=error_bars([one for _, _, one in found], axis.place, thickness=2, width=5, color=BLUE),
        marker={"symbol": "diamond", "color": BLUE, "size": 11},
    )


def _interval(one: Judgement) -> Interval | None:
    """Return the mean of a judgement with its interval in nats."""
    if one.mean is None:
        return None
    return Interval(one.mean, one.mean if one.low is None else one.low, one.mean if one.high is None else one.high)


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


def size_chart(trends: Sequence[ArmTrend], baseline: str, margin: float) -> go.Figure:
    """Draw every arm's paired difference with its interval over the sizes, and the margin as a band."""
    axis = DifferenceAxis.of([one.judgement for arm in trends for one in arm.whole], margin)
    figure = new_figure(x="parameters, embeddings included", y=f"perplexity against {baseline}", height=_HEIGHT)
    figure.add_hrect(y0=axis.place(-margin), y1=axis.place(margin), fillcolor=_BAND, line_width=0, layer="below")
    figure.add_hline(y=0, line_width=1.5, layer="below")
    sizes = sorted({one.rung.parameters for arm in trends for one in arm.whole})
    room = math.log10(sizes[-1] / sizes[0]) if len(sizes) > 1 else 1.0
    # Beside each other, so that the intervals of different arms do not cover each other; in powers of ten.
    shifts = {arm.arm: 0.005 * (number - (len(trends) - 1) / 2) for number, arm in enumerate(trends)}
    for number, arm in enumerate(trends):
        drawn = [one for one in arm.whole if one.judgement.mean is not None]
        if drawn:
            figure.add_trace(_size_line(arm.arm, number, drawn, axis, 10 ** shifts[arm.arm]))
    ends = [
        (arm.arm, math.log10(last.rung.parameters) + shifts[arm.arm], axis.place(last.judgement.mean))
        for arm in trends
        if (last := arm.largest).judgement.mean is not None
    ]

    edge = math.log10(sizes[-1]) + max(shifts.values()) + 0.06 * room

    def right_of_all_bars(_name: str, _x: float) -> Mapping[str, object]:
        return {"xanchor": "left", "axref": "x", "ax": edge}

    # Names stand in the margin, which has room for the longest of them on any page.
    margin_right = _LETTER * max(len(arm.arm) for arm in trends) + 12
    figure.update_layout(annotations=_labels(ends, axis, right_of_all_bars), showlegend=False, margin_r=margin_right)
    figure.update_yaxes(**axis.drawn())
    figure.update_xaxes(
        type="log",
        range=[math.log10(sizes[0]) + min(shifts.values()) - 0.06 * room, edge],
        tickvals=sizes,
        ticktext=[count(size) for size in sizes],
        tickangle=0,
    )
    return figure


def _size_line(
    name: str, number: int, found: Sequence[RungDifference], axis: DifferenceAxis, shift: float
) -> go.Scatter:
    colour, symbol, dash = series_style(number)
    intervals = [interval for one in found if (interval := _interval(one.judgement)) is not None]
    return go.Scatter(
        name=name,
        mode="lines+markers",
        x=[one.rung.parameters * shift for one in found],
        y=[axis.place(one.mean) for one in intervals],
        error_y=error_bars(intervals, axis.place, thickness=1.5, width=4, color=colour),
        text=[
            f"{name} at {count(one.rung.parameters)} parameters, {count(one.rung.tokens)} tokens: "
            f"{percent_text(at.mean)} ({percent_text(at.low)} … {percent_text(at.high)}), {one.judgement.verdict}"
            for one, at in zip(found, intervals, strict=True)
        ],
        hovertemplate=_HOVER,
        line={"color": colour, "width": 2, "dash": dash},
        marker={"color": colour, "symbol": symbol, "size": 9},
    )


def series_style(number: int) -> tuple[str, str, str]:
    """Return the colour, the symbol and the dash pattern of a series; no two of the first twenty look alike."""
    dash = "solid" if number < len(_SYMBOLS) else "dot"
    return PALETTE[number % len(PALETTE)], _SYMBOLS[number % len(_SYMBOLS)], dash


def cost_chart(comparison: Comparison) -> go.Figure | None:
    """Draw the difference against the seconds of training, and a line through what nothing else beats in both."""
    found = _costs(comparison)
    if not found:
        return None
    axis = DifferenceAxis.of(comparison.judgements, comparison.plan.procedure.margin)
    points = [(arm.name, seconds, axis.place(difference)) for arm, seconds, difference in found]
    figure = new_figure(x="seconds of training (mean of the runs)", y="perplexity", height=_HEIGHT)
    front = _front([(x, y) for _, x, y in points])
    line = {"color": GREY, "dash": "dot", "width": 1.5}
    figure.add_trace(scatter(front, mode="lines", line=line, hoverinfo="skip"))
    marker = {"symbol": ["square", *["circle"] * (len(found) - 1)], "size": 10, "color": BLUE}
    told = [(seconds, axis.place(difference), _cost_words(arm, seconds)) for arm, seconds, difference in found]
    figure.add_trace(scatter(told, marker=marker))
    middle = (min(x for _, x, _ in points) + max(x for _, x, _ in points)) / 2

    def towards_the_middle(_name: str, x: float) -> Mapping[str, object]:
        return {"xanchor": "left", "ax": 22} if x <= middle else {"xanchor": "right", "ax": -22}

    figure.update_layout(annotations=_labels(points, axis, towards_the_middle), showlegend=False)
    figure.update_yaxes(**axis.drawn())
    return figure


def _costs(comparison: Comparison) -> list[tuple[ArmResult, float, float]]:
    """Return arms with their mean seconds and mean difference, of the seeds that finished; the baseline first."""
    means = {one.arm: fmean(one.differences) for one in comparison.judgements if one.differences}
    arms = [comparison.baseline, *comparison.variants] if means else []
    means[comparison.baseline.name] = 0.0
    return [
        (arm, seconds, means[arm.name])
        for arm in arms
        if arm.name in means and (seconds := arm.mean_of("seconds")) is not None
    ]


def _cost_words(arm: ArmResult, seconds: float) -> str:
    loss = "" if arm.loss is None else f"{arm.loss:.4f} nats, "
    return f"{arm.name}<br>{loss}{seconds:.1f} s<br>{count(arm.arm.training_flops)}FLOPs a step"


def _front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return those that no other point beats in both."""
    front: list[tuple[float, float]] = []
    for seconds, place in sorted(points):
        if not front or place < front[-1][1]:
            front.append((seconds, place))
    return front
