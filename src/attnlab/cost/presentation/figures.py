"""The figures of cost: where the parameters and the FLOPs are, and where attention overtakes the rest."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from attnlab.pages import GREY, PALETTE, new_figure

if TYPE_CHECKING:
    from attnlab.cost.estimate import Estimate
    from attnlab.cost.presentation.table import CostTable
    from attnlab.cost.sweep import Sweep

_MARKERS = ("circle", "square", "diamond", "cross")
_PATTERNS = ("", "/", "x", ".", "|")
_COLOURS = (*PALETTE, "#b0628f")
_KINDS = ("attention", "projections", "mlp", "embedding and head", "rest")
_PLACES = {"attention": (0, "solid"), "projections": (1, "dash"), "mlp": (2, "dot"), "head": (3, "dashdot")}


def sweep_figure(sweep: Sweep) -> go.Figure:
    """FLOPs per token by group on two logarithmic axes, with a mark where attention overtakes."""
    title = "context N, tokens" if sweep.axis == "context" else "width D"
    figure = new_figure(x=title, y="forward FLOPs per token", height=420)
    for name, (place, dash) in _PLACES.items():
        points = [point for point in sweep.points if point.flops[name]]
        figure.add_scatter(
            x=[point.value for point in points],
            y=[point.per_token(name) for point in points],
            name=name,
            mode="lines+markers",
            line={"color": PALETTE[place], "dash": dash, "width": 2},
            marker={"symbol": _MARKERS[place], "size": 6},
            hovertemplate=f"{name}<br>%{{x:,}}: %{{y:.3s}} FLOPs<extra></extra>",
        )
    ends = [math.log10(sweep.points[place].value) for place in (0, -1)]
    # Stated, for otherwise there would be room for the words beside the marks on a narrow page.
    figure.update_xaxes(type="log", dtick=1, exponentformat="power", range=[ends[0] - 0.1, ends[1] + 0.1])
    figure.update_yaxes(type="log", dtick=1, exponentformat="power")
    _mark(figure, sweep)
    return figure


def _mark(figure: go.Figure, sweep: Sweep) -> None:
    """Vertical lines at N = D, and where attention overtakes projections and MLP."""
    positions = ("top left", "bottom right") if sweep.axis == "context" else ("top right", "bottom right")
    low, high = sweep.points[0].value, sweep.points[-1].value
    for place, (value, position) in enumerate(zip(sweep.marks().values(), positions, strict=True)):
        if value is not None and low <= value <= high:
            lead = "overtakes at" if sweep.axis == "context" else "leads up to"
            words = "N = D" if place == 0 else f"{lead} {value:,}"
            figure.add_vline(
                value,
                line={"color": GREY, "dash": "dash", "width": 1},
                annotation={"text": words, "font": {"size": 12}, "x": math.log10(value)},  # on a logarithmic axis
                annotation_position=position,
            )


def parts_figure(table: CostTable, what: str) -> go.Figure:
    """Stacked bars, one for each model: `what` is "parameters" or "FLOPs"."""
    unit = "parameters" if what == "parameters" else "FLOPs to train on one batch"
    figure = new_figure(x=unit, height=110 + 44 * len(table.estimates))
    names = [table.name(found) for found in table.estimates]
    sums = [_by_kind(found, what) for found in table.estimates]
    kinds = [kind for kind in _KINDS if any(one[kind] for one in sums)]
    for kind in kinds:
        place = _KINDS.index(kind)
        figure.add_bar(
            y=names,
            x=[one[kind] for one in sums],
            name=kind,
            orientation="h",
            marker={"color": _COLOURS[place], "pattern": {"shape": _PATTERNS[place]}},
            hovertemplate=f"{kind}<br>%{{x:,}}<extra>%{{y}}</extra>",
        )
    figure.update_layout(barmode="stack", legend_traceorder="normal")
    figure.update_xaxes(exponentformat="SI")
    figure.update_yaxes(autorange="reversed")
    return figure


def _by_kind(found: Estimate, what: str) -> dict[str, int]:
    sums = dict.fromkeys(_KINDS, 0)
    for part in found.parts():
        number = part.parameters
        if what != "parameters":
            number = part.forward_flops + part.backward_flops + part.recomputed_flops
        sums[_kind(part.name)] += number
    return sums


def _kind(name: str) -> str:
    if name.endswith("projection"):
        return "projections"
    if name in ("scores", "weighted sum", "operator", "rest of attention"):
        return "attention"
    if name in ("embedding", "head", "positions"):
        return "embedding and head"
    return "mlp" if name == "mlp" else "rest"
