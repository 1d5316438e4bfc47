"""The page of a cost table and its figures: where parameters and FLOPs are, and where attention exceeds the rest."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from attnlab.cost.presentation.tables import (
    NotedTable,
    capacity_tables,
    describe,
    head_table,
    measured_table,
    part_table,
    sweep_tables,
    tensor_table,
)
from attnlab.cost.questions.sweep import AXIS_LABELS, Sweep
from attnlab.pages import GREY, PALETTE, Details, Figure, Note, Page, Part, Points, Section, Table, new_figure

if TYPE_CHECKING:
    from attnlab.cost.estimate import CostEstimate
    from attnlab.cost.presentation.cost_table import CostTable

_MARKERS = ("circle", "square", "diamond", "cross")
_PATTERNS = ("", "/", "x", ".", "|")
_COLOURS = PALETTE[:5]
_KINDS = ("attention", "projections", "mlp", "embedding and head", "rest")
_PLACES = {"attention": (0, "solid"), "projections": (1, "dash"), "mlp": (2, "dot"), "head": (3, "dashdot")}
_EXPLANATIONS = (
    "A FLOP is half a multiply–add of a matrix product, as PyTorch's own counter has it; work on single elements is "
    "not counted. Parameters and FLOPs are exact.",
    "To train is three times the forward products of visible pairs. Kernels recompute scores in the backward pass "
    "instead of keeping them, which is counted apart.",
    "Intensity is FLOPs per byte that the products of a pass read and write, each factor once. The prefill of a prompt "
    "uses each weight for all of its tokens; decoding one token uses it once.",
    "The peak of training is weights, gradients, the optimizer's memory, what autograd keeps, and the tensors of the "
    "moment that holds most.",
)


def cost_page(table: CostTable) -> Page:
    """Return the page: the models side by side and by part, the sweeps, and what was measured."""
    first = table.estimates[0]
    sections = [Section("Side by side", _side_by_side(table))]
    sections += [Section("The maps of a head", _shown(map(head_table, table.heads)))] if table.heads else []
    sections += [Section(f"Along the {sweep.axis}: {sweep.label}", _sweep(sweep)) for sweep in table.sweeps]
    fits = [one for of_size in table.capacities_by_size() for one in capacity_tables(of_size)]
    sections += [Section("What fits", _shown(fits))] if fits else []
    if table.measured:
        sections.append(Section("Measured here", _shown(map(measured_table, table.measured))))
    parts = [Details(describe(one), _shown([part_table(one)])) for one in table.estimates]
    sections.append(Section("By part", parts))
    if table.with_tensors:
        tensors = [Details(one.label, _shown([tensor_table(one)])) for one in table.estimates]
        sections.append(Section("Every named tensor", tensors))
    sections.append(Section("How it is counted", [Points(_EXPLANATIONS)]))
    names = ", ".join(dict.fromkeys(one.label for one in table.estimates))
    lead = f"Parameters, FLOPs, memory and cache of {names}: predicted without building a model."
    facts = {
        "context": f"{first.model.context_length:,} tokens",
        "batch": f"{first.question.batch_size:,}",
        "recipe": first.question.recipe,
        "vocabulary": f"{first.model.vocabulary_size:,}",
        "bytes a number": str(first.question.bytes_per_number),
    }
    if len({one.model.context_length for one in table.estimates}) > 1:
        facts.pop("context")
    return Page("What attention costs", lead, sections, facts)


def _side_by_side(table: CostTable) -> list[Part]:
    parts: list[Part] = [Note(note) for note in table.notes]
    parts.append(Figure(parts_figure(table, "parameters"), "Where the parameters are."))
    words = "Where the FLOPs of a training step are: visible pairs, and what is recomputed."
    parts.append(Figure(parts_figure(table, "FLOPs"), words))
    return [*parts, *_shown([table.side_by_side()])]


def _sweep(sweep: Sweep) -> list[Part]:
    caption = (
        "Forward FLOPs for each token, by what does them. Dashed lines: N = D, and where attention overtakes "
        "projections and MLP together."
    )
    return [Figure(sweep_figure(sweep), caption), *_shown(sweep_tables(sweep))]


def _shown(tables: Iterable[NotedTable]) -> list[str | Table | Points]:
    """Return tables, each with how to read it."""
    return [part for table in tables for part in (table, table.note) if part]


def sweep_figure(sweep: Sweep) -> go.Figure:
    """Plot FLOPs per token by group on two logarithmic axes, with a mark where attention overtakes."""
    figure = new_figure(x=AXIS_LABELS[sweep.axis], y="forward FLOPs per token", height=420)
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
    # Set explicitly: otherwise the axis of a narrow page is extended for the text next to the marks.
    figure.update_xaxes(type="log", dtick=1, exponentformat="power", range=[ends[0] - 0.1, ends[1] + 0.1])
    figure.update_yaxes(type="log", dtick=1, exponentformat="power")
    _mark(figure, sweep)
    return figure


def _mark(figure: go.Figure, sweep: Sweep) -> None:
    """Draw vertical lines at N = D, and where attention overtakes projections and MLP."""
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
    """Plot stacked bars, one for each model; `what` is "parameters" or "FLOPs"."""
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


def _by_kind(found: CostEstimate, what: str) -> dict[str, int]:
    sums = dict.fromkeys(_KINDS, 0)
    for part in found.parts():
        sums[_kind(part.name)] += part.parameters if what == "parameters" else part.training_flops
    return sums


def _kind(name: str) -> str:
    if name.endswith("projection"):
        return "projections"
    if name in ("scores", "weighted sum", "operator", "rest of attention"):
        return "attention"
    if name in ("embedding", "head", "positions"):
        return "embedding and head"
    return "mlp" if name == "mlp" else "rest"
