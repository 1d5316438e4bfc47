"""Tables of the cost of one model: by part, tensor and head, along a sweep, as measured, and what fits."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from attnlab.cost.attention import PartCost
from attnlab.cost.estimate import CostEstimate, MeasuredCost
from attnlab.cost.questions.capacity import Capacity, Fit
from attnlab.cost.questions.configs import is_config
from attnlab.cost.questions.sweep import GROUPS, Axis, Crossover, Sweep
from attnlab.cost.tensors import PerHead, grouped
from attnlab.formats import NOTHING, byte_count, count, percent, significant
from attnlab.pages import Table, Tone

_CROSSOVER_NOTES = {
    "context": "Forward FLOPs of visible pairs. Below the first, time grows with N; far beyond the last, with N².",
    "width": "Forward FLOPs of visible pairs; heads keep their width, so that there are more of them.",
}


@dataclass(frozen=True)
class NotedTable(Table):
    """A table whose caption is its title, with a note on how to read it."""

    wrap_columns: Sequence[int] = (0,)
    note: str = ""

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=io.StringIO(), width=1000, color_system=None)
        console.print(self.to_terminal(padding=2))
        assert isinstance(console.file, io.StringIO)
        lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
        return "\n".join([self.caption, "", *lines, *(["", self.note] if self.note else [])])


def part_table(found: CostEstimate) -> NotedTable:
    """Return where the parameters and the FLOPs are."""
    parts = found.parts()
    total = found.training.total("all")
    rows = [_part_row(part, total) for part in (*parts, total)]
    headings = ("", "parameters", "share", "to train", "share", "forward", "kept")
    note = "FLOPs of visible pairs, of one batch; to train is forward, backward, and what is recomputed."
    return NotedTable(headings, rows, f"{describe(found)}, by part", note=note)


def _part_row(part: PartCost, total: PartCost) -> list[str]:
    parameters, training = (
        [f"{part.parameters:,}", percent(part.parameters / total.parameters, 1)],
        [count(part.training_flops), percent(part.training_flops / total.training_flops, 1)],
    )
    if part is total:
        parameters[1] = training[1] = ""
    return [
        part.name,
        *(parameters if part.parameters else (NOTHING, "")),
        *(training if part.training_flops else (NOTHING, "")),
        count(part.forward_flops) if part.forward_flops else NOTHING,
        byte_count(part.activation_bytes) if part.activation_bytes else NOTHING,
    ]


def tensor_table(found: CostEstimate) -> NotedTable:
    """Return every named tensor; layers that are alike are on one line."""
    rows = [
        [one.name, " × ".join(f"{n:,}" for n in one.shape) or "1", str(one.count), f"{one.parameters:,}"]
        for one in grouped(found.tensors)
    ]
    rows.append(["all", "", f"{len(found.tensors):,}", f"{found.parameters:,}"])
    headings = ("name", "shape", "tensors", "parameters")
    return NotedTable(headings, rows, f"{found.label}: every named tensor")


def head_table(heads: PerHead) -> NotedTable:
    """Return the matrices of a single head, and their sums."""
    found, width, rounded = heads.estimate, heads.width, heads.rounded_width
    rows = [[one.label, _shape(one.rows, one.columns), f"{one.parameters:,}"] for one in heads.maps]
    rows.append(["the maps of a head", "", f"{heads.head:,}"])
    if width != rounded:
        rows.append([f"a full W_V, with {rounded:,}", _shape(rounded, rounded), f"{rounded**2:,}"])
    rows += [
        ["a full W_V, not factored", _shape(width, width), f"{heads.full_value:,}"],
        [f"all {found.model.attention[0].num_heads} heads of a layer", "", f"{heads.layer:,}"],
        [f"attention of all {found.model.num_layers} layers, with biases", "", f"{heads.attention:,}"],
        ["the whole model", "", f"{found.parameters:,}"],
        ["attention's share", "", percent(heads.attention / found.parameters, 1)],
    ]
    return NotedTable(("", "shape", "parameters"), rows, f"{found.label}: the parameters of a head")


def sweep_tables(sweep: Sweep) -> list[NotedTable]:
    """Return the crossovers and, along the context, what does the work below and above N = D."""
    rows = [_crossover_row(one, sweep.axis) for one in sweep.crossovers]
    headings = ("", "at N =" if sweep.axis == "context" else "up to D =", "N ÷ D there")
    title = f"{sweep.label}: where attention overtakes, as the {sweep.axis} grows"
    crossovers = NotedTable(headings, rows, title, note=_CROSSOVER_NOTES[sweep.axis])
    return [crossovers, _regime_table(sweep)] if sweep.axis == "context" else [crossovers]


def _regime_table(sweep: Sweep) -> NotedTable:
    rows = []
    for regime in sweep.regimes():
        point = regime.point
        shares = [percent(point.flops[group] / point.total, 1) for group in GROUPS]
        rows.append([regime.name, f"{point.tokens:,}", *shares, count(point.total), f"N^{regime.growth:.2f}"])
    headings = ("N", "tokens", *GROUPS, "forward", "grows as")
    note = f"D = {sweep.width:,}; FLOPs of one whole sequence, and their growth from N to 2 N."
    return NotedTable(headings, rows, f"{sweep.label}: below and above N = D", note=note)


def _crossover_row(one: Crossover, axis: Axis) -> list[str]:
    if one.value is None:
        return [one.name, "never" if axis == "context" else NOTHING, NOTHING]
    return [one.name, f"{one.value:,}", NOTHING if one.times_width is None else significant(one.times_width)]


def measured_table(measured: MeasuredCost) -> NotedTable:
    """Return predicted and measured times and memory, or why nothing was measured."""
    title = f"{measured.estimate.label}: predicted and measured here"
    if measured.refusal:
        return NotedTable(("", "reason"), [["not measured", measured.refusal]], title, text_columns=(0, 1))
    times, peak = measured.measured_seconds(), measured.estimate.memory.peak
    rows = []
    for what, predicted in measured.predicted_seconds().items():
        taken = times[what]
        rows.append([what, _seconds_text(predicted), _seconds_text(taken), _quotient(taken, predicted)])
    held = measured.peak_bytes
    rows.append(["peak memory of training", byte_count(peak), byte_count(held), _quotient(held, peak)])
    rates = measured.rates
    note = (
        f"Predicted times are the least that products take at this machine's {rates.flops_per_second / 1e9:.0f} "
        f"GFLOPS and {rates.bytes_per_second / 1e9:.1f} GB/s, both measured just before: elementwise work and waiting "
        f"come on top. What has fewer than {rates.balance:.0f} FLOPs per byte is bound by memory here. Memory is "
        f"highest when {measured.estimate.memory.moment}."
    )
    return NotedTable(("", "predicted", "measured", "measured ÷ predicted"), rows, title, note=note)


def capacity_tables(capacities: Sequence[Capacity]) -> list[NotedTable]:
    """Return how much of a memory models take and how large they may be; then, of the catalogue, what fits."""
    asked = [one for one in capacities if one.training is not None and one.training.largest_context is not None]
    tables = [_capacity_table(asked)] if asked else []
    return tables + ([_catalogue_table(capacities)] if len(asked) < len(capacities) else [])


def _capacity_table(capacities: Sequence[Capacity]) -> NotedTable:
    rows = []
    for one in capacities:
        for use, fit in (("training", one.training), ("serving", one.serving)):
            if fit is not None:
                largest = (_largest(fit.largest_batch), _largest(fit.largest_context))
                rows.append([f"{use} {one.question.label}", byte_count(fit.needed), _yes(fit), *largest])
    first = capacities[0].question
    note = (
        f"For a batch of {first.batch_size:,} × {first.shape.context_length:,} tokens. The largest batch is that at "
        "this context, the largest context that at this batch."
    )
    headings = ("", "needs", "fits", "largest batch", "largest context")
    return NotedTable(headings, rows, f"Does it fit in {_memory(capacities)}?", note=note, tones=_TONES)


def _catalogue_table(capacities: Sequence[Capacity]) -> NotedTable:
    rows, refused = [], []
    for one in capacities:
        if one.training is None or one.serving is None:
            refused.append(one.question.variant)
            continue
        row = [one.question.variant]
        for fit in (one.training, one.serving):
            row += [byte_count(fit.needed), _yes(fit), _largest(fit.largest_batch)]
        rows.append(row)
    note = f"Not possible in this model: {', '.join(refused)}." if refused else ""
    headings = ("", "training", "fits", "largest batch", "serving", "fits", "largest batch")
    title = f"{capacities[0].question.name}: which variants fit in {_memory(capacities)}"
    return NotedTable(headings, rows, title, note=note, tones=_TONES)


_TONES: dict[str, Tone] = {"yes": "good", "no": "bad"}


def _yes(fit: Fit) -> str:
    return "yes" if fit.fits else "no"


def _largest(number: int | None) -> str:
    return NOTHING if number is None else f"{number:,}"


def _memory(capacities: Sequence[Capacity]) -> str:
    memory = capacities[0].memory
    return f"{count(memory)}B ({byte_count(memory)})"


def describe(found: CostEstimate) -> str:
    """Return the model and the batch in words."""
    spec, asked = found.model, found.question
    heads = spec.attention[0]
    changed = ", changed" if asked.is_changed else ""
    number = "mixed precision" if asked.mixed_precision else f"{asked.bytes_per_number} bytes a number"
    number += ", activation checkpointing" if asked.checkpointing else ""
    trained = f"optimizer {asked.optimizer}" if is_config(asked.size) else f"recipe {asked.recipe}"
    return (
        f"{found.label}{changed}: {spec.num_layers} layers of width {spec.model_width:,}, {heads.num_heads} heads of "
        f"width {heads.key_width:,}, {asked.batch_size:,} × {spec.context_length:,} tokens, vocabulary "
        f"{spec.vocabulary_size:,}, {number}, {trained}"
    )


def _shape(rows: int, columns: int) -> str:
    return f"{rows:,} × {columns:,}"


def _seconds_text(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def _quotient(measured: float | None, predicted: float | None) -> str:
    return NOTHING if measured is None or not predicted else significant(measured / predicted)


def quantity_text(number: float | int | None, unit: str) -> str:
    """Return a number in its unit."""
    if number is None:
        return NOTHING
    if unit == "B":
        return byte_count(number)
    if unit == "FLOPs":
        return f"{count(number)}FLOPs" if number >= 1000 else f"{count(number)} FLOPs"
    return significant(number) if unit == "FLOPs/B" else f"{number:,}"
