"""Every variant against fused softmax, against its own definition, and against a public implementation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import plotly.graph_objects as go

from attnlab.attention import AttentionSpec, Variant, kernel_for
from attnlab.bench.cases import PEER, CallSize, Case, SpecCases, fused_softmax, has_peer, learned, peer_is_installed
from attnlab.bench.findings import (
    BenchListener,
    Findings,
    NoteKeeper,
    name_rows,
    ratio_ticks,
    table_section,
    with_spread,
)
from attnlab.bench.processes import MEBIBYTE, peak_bytes
from attnlab.bench.timing import Ratio, check_rounds, take_turns
from attnlab.errors import SpecError
from attnlab.formats import NOTHING, byte_count, plural, significant
from attnlab.pages import BLUE, GREEN, GREY, ORANGE, Figure, Section, new_figure
from attnlab.processes.machine import Machine, describe_machine

BASELINE = "scaled_dot_product_attention, causal"

_MATRICES = 10  # score matrices that a reference may hold at once, including gradients
_COPIES = 6  # copies of the inputs that any call holds: gradients, output, and intermediate tensors


@dataclass(frozen=True)
class Times:
    """Durations of one kind of call, as ratios. The peer's are None if there is no peer, the reference's if it does not
    fit into memory."""

    baseline_seconds: float
    variant: Ratio  # × fused softmax, as for the next two
    reference: Ratio | None
    peer: Ratio | None
    reference_over_variant: Ratio | None  # time of the reference ÷ time of the variant
    peer_over_variant: Ratio | None


@dataclass(frozen=True)
class Peaks:
    """The peak memory of a forward and backward pass in addition to its inputs, in bytes."""

    baseline: int
    variant: int
    reference: int | None
    peer: int | None


@dataclass(frozen=True)
class Measured:
    """The measurements of one variant."""

    name: str
    kernel: str
    forward: Times
    forward_backward: Times
    peak_bytes: Peaks


@dataclass(frozen=True)
class AttentionBench(Findings):
    """All variants that one run measured, at one size."""

    benchmark: ClassVar[str] = "attention"
    title: ClassVar[str] = "Attention variants against fused softmax"
    lead: ClassVar[str] = (
        "How long each variant takes on this machine, as a ratio to PyTorch's fused softmax attention."
    )

    size: CallSize
    variants: tuple[Measured, ...]

    @property
    def conditions(self) -> str:
        return str(self.size)

    def to_dict(self) -> dict[str, object]:
        found = {**super().to_dict(), "baseline": BASELINE, "peer": PEER}
        return {name: value for name, value in found.items() if name not in ("all_met", "bars", "notes")}

    def sections(self) -> list[Section]:
        caption = (
            "Bars left of the line are faster than fused softmax. Whiskers run from the 10th to the 90th percentile of "
            "the rounds. Marks are forward+backward."
        )
        chart = Section("Time", [Figure(attention_chart(self.variants), caption)])
        headings = (
            "variant",
            "forward",
            "forward\n+backward",
            "reference\n÷ ours",
            f"{PEER}\n÷ ours",
            "peak MiB\n(ref.)",
        )
        return [
            chart,
            table_section("Times and memory", self._explanation(), headings, [_row(one) for one in self.variants]),
        ]

    def _explanation(self) -> str:
        first = self.variants[0]
        forward, both = first.forward.baseline_seconds * 1000, first.forward_backward.baseline_seconds * 1000
        kernels: dict[str, list[str]] = {}
        for one in self.variants:
            kernels.setdefault(one.kernel, []).append(one.name)
        served = "; ".join(f"{kernel} for {', '.join(names)}" for kernel, names in kernels.items())
        return (
            "Forward and forward+backward are times ÷ fused softmax "
            f"({significant(forward)} and {significant(both)} ms here): the median of {plural(self.rounds, 'round')}, "
            "then the 10th and 90th percentile; slow calls take part in fewer. “÷ ours” is how many times as long as "
            f"the variant its materialised reference, or the {PEER} package, takes forward+backward. Memory is the "
            f"peak of forward+backward beyond the inputs, and that of the reference. Kernels: {served}."
        )


def _row(one: Measured) -> tuple[str, ...]:
    both = one.forward_backward
    held = one.peak_bytes.variant, one.peak_bytes.reference
    peaks = (None if peak is None else peak / MEBIBYTE for peak in held)
    over = (
        NOTHING if it is None else significant(it.median)
        for it in (both.reference_over_variant, both.peer_over_variant)
    )
    ours, reference = map(significant, peaks)
    return one.name, with_spread(one.forward.variant), with_spread(both.variant), *over, f"{ours} ({reference})"


def bench_attention(
    variants: Sequence[Variant], size: CallSize, rounds: int = 15, listener: BenchListener | None = None
) -> AttentionBench:
    """Measure the variants with the threads that PyTorch has now.

    Parameters
    ----------
    variants
        The variants to measure.
    size
        The shape of one call.
    rounds
        How often each is timed.
    listener
        Called with the progress; None reports nothing.
    """
    listener = NoteKeeper(listener)
    check_rounds(rounds)
    machine = describe_machine()
    chosen = fitting(variants, size, machine, listener)
    materialised = _MATRICES * size.scores_bytes <= usable(machine)
    if not materialised:
        listener.note(f"the references are left out: {size.tokens} tokens make matrices that may not fit into memory")
    peer = materialised and check_peer([spec for _, spec in chosen], listener)
    measured = []
    for done, (variant, spec) in enumerate(chosen):
        listener.step(variant.name, done, len(chosen))
        measured.append(measure(variant.name, spec, size, rounds, reference=materialised, peer=peer))
    return AttentionBench(machine, rounds, tuple(listener.notes), (), size, tuple(measured))


def measure(
    name: str, spec: AttentionSpec, size: CallSize, rounds: int, *, reference: bool = True, peer: bool = True
) -> Measured:
    """Measure one variant, with its reference and its peer if they are wanted and there is one."""
    cases_of = SpecCases(spec, size)
    cases = {"baseline": fused_softmax(size), "variant": cases_of.variant()}
    if reference:
        cases["reference"] = cases_of.reference()
    if peer and has_peer(spec):
        cases["peer"] = cases_of.peer()
    peaks = {case: peak_bytes(call.forward_backward) for case, call in cases.items()}
    return Measured(
        name,
        kernel_for(spec),
        _times(cases, "forward", rounds),
        _times(cases, "forward_backward", rounds),
        Peaks(peaks["baseline"], peaks["variant"], peaks.get("reference"), peaks.get("peer")),
    )


def _times(cases: dict[str, Case], kind: str, rounds: int) -> Times:
    found = take_turns({name: getattr(case, kind) for name, case in cases.items()}, rounds)

    def ratio(name: str, to: str) -> Ratio | None:
        return found.ratio(name, to) if name in cases else None

    return Times(
        baseline_seconds=found.median("baseline"),
        variant=found.ratio("variant", "baseline"),
        reference=ratio("reference", "baseline"),
        peer=ratio("peer", "baseline"),
        reference_over_variant=ratio("reference", "variant"),
        peer_over_variant=ratio("peer", "variant"),
    )


def fitting(
    variants: Sequence[Variant], size: CallSize, machine: Machine, listener: BenchListener
) -> list[tuple[Variant, AttentionSpec]]:
    """Return the variants with their specs, without those whose tensors do not fit into memory."""
    specs = [(variant, size.spec_of(variant)) for variant in variants]  # raises if a variant is impossible at this size
    room = usable(machine)
    fit = [(variant, spec) for variant, spec in specs if _COPIES * input_bytes(spec, size) <= room]
    for variant, spec in specs:
        if (variant, spec) not in fit:
            needed = byte_count(_COPIES * input_bytes(spec, size))
            listener.note(f"{variant.name} is left out: at {size} it needs about {needed}")
    if not fit:
        raise SpecError(
            f"nothing can be measured at {size}: it does not fit into memory",
            hint="use fewer `tokens`, or a smaller `batch`",
        )
    return fit


def input_bytes(spec: AttentionSpec, size: CallSize) -> int:
    """Return the bytes of queries, keys, values and what the parts learn."""
    query = spec.num_heads * spec.key_width * spec.score.projects_query
    key = spec.num_key_value_heads * spec.key_width * spec.score.projects_key
    value = spec.num_key_value_heads * spec.value_width
    extras = sum(math.prod(one.stored_shape(spec.num_heads)) for one in learned(spec).values())
    tokens = sum(one.columns(spec.num_heads) for one in spec.projections.values())
    return 4 * (size.batch * size.tokens * (query + key + value + tokens) + extras)


def usable(machine: Machine) -> float:
    """Return the bytes that a measurement may take: half of the memory."""
    return math.inf if machine.memory_bytes is None else machine.memory_bytes / 2


def check_peer(specs: Sequence[AttentionSpec], listener: BenchListener) -> bool:
    """Return whether the peer can be measured; if one of the specs would be, and it is missing, say so."""
    if peer_is_installed():
        return True
    if any(has_peer(spec) for spec in specs):
        listener.note(f"the {PEER} package is not installed, so nothing is measured against it: pip install {PEER}")
    return False


def attention_chart(measured: Sequence[Measured]) -> go.Figure:
    """Draw horizontal bars from the line at 1×, the fastest on top; the ratio's axis is logarithmic."""
    ordered = sorted(measured, key=lambda row: row.forward_backward.variant.median, reverse=True)
    names = [row.name for row in ordered]
    both = [row.forward_backward for row in ordered]
    figure = new_figure(x="time ÷ fused softmax (×)", height=130 + 26 * len(names))
    figure.add_trace(_bars("forward", names, [row.forward.variant for row in ordered], ORANGE, hatched=True))
    figure.add_trace(_bars("forward+backward", names, [times.variant for times in both], BLUE))
    marks = (
        ("its reference", [times.reference for times in both], GREY, "diamond-open"),
        (f"the {PEER} package", [times.peer for times in both], GREEN, "x"),
    )
    for name, ratios, colour, symbol in marks:
        if any(ratios):
            figure.add_trace(_marks(name, names, ratios, colour, symbol))
    figure.add_vline(x=1, line_width=1.5)
    figure.update_layout(barmode="group", bargap=0.25)
    ticks = ratio_ticks(0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)
    figure.update_xaxes(type="log", range=_range(ordered), **ticks)
    figure.update_yaxes(**name_rows(names), showgrid=False, ticks="")
    return figure


def _bars(name: str, names: list[str], ratios: list[Ratio], colour: str, *, hatched: bool = False) -> go.Bar:
    return go.Bar(
        name=name,
        orientation="h",
        y=names,
        base=1,
        x=[ratio.median - 1 for ratio in ratios],
        error_x={
            "array": [ratio.high - ratio.median for ratio in ratios],
            "arrayminus": [ratio.median - ratio.low for ratio in ratios],
            "symmetric": False,
            "color": GREY,
            "thickness": 1.2,
            "width": 3,
        },
        marker={
            "color": colour,
            "line": {"color": colour, "width": 1},
            "pattern": {"shape": "/" if hatched else "", "fillmode": "replace", "size": 5, "solidity": 0.4},
        },
        legendrank=2 if hatched else 1,  # a chart draws its first bar at the bottom, but the legend lists it first
        text=[with_spread(ratio) for ratio in ratios],
        textposition="none",
        hovertemplate="%{text} ×<extra>%{y}, " + name + "</extra>",
    )


def _marks(name: str, names: list[str], ratios: list[Ratio | None], colour: str, symbol: str) -> go.Scatter:
    found = [(which, ratio) for which, ratio in zip(names, ratios, strict=True) if ratio is not None]
    return go.Scatter(
        name=name,
        mode="markers",
        x=[ratio.median for _, ratio in found],
        y=[which for which, _ in found],
        text=[with_spread(ratio) for _, ratio in found],
        hovertemplate="%{text} ×<extra>%{y}, " + name + "</extra>",
        marker={"symbol": symbol, "color": colour, "size": 9, "line": {"color": colour, "width": 2}},
        showlegend=True,
        legendrank=3,
    )


def _range(measured: Sequence[Measured]) -> list[float]:
    """Return the ends of the logarithmic axis: all that is drawn, and some room."""
    bars = [times.variant for row in measured for times in (row.forward, row.forward_backward)]
    both = [row.forward_backward for row in measured]
    marks = [ratio.median for times in both for ratio in (times.reference, times.peer) if ratio is not None]
    low = min([0.5, *(bar.low for bar in bars), *marks])
    high = max([2.0, *(bar.high for bar in bars), *marks])
    return [math.log10(low) - 0.05, math.log10(high) + 0.05]
