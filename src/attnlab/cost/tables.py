"""Tables of cost: of one model by part, tensor and head, along a sweep and as measured; and of models side by side."""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.cost.attention import PartCost
from attnlab.cost.capacity import Capacity, Fit, as_bytes, capacities_beside, capacity
from attnlab.cost.configs import is_config
from attnlab.cost.estimate import QUANTITIES, CostEstimate, MeasuredCost, Quantity, estimate
from attnlab.cost.question import Question
from attnlab.cost.sweep import GROUPS, Axis, Crossover, Sweep
from attnlab.cost.tensors import PerHead, grouped, per_head
from attnlab.errors import InputError
from attnlab.formats import NOTHING, byte_count, count, csv_text, percent, significant
from attnlab.pages import HasPage, Page, Table, Tone

_CROSSOVER_NOTES = {
    "context": "Forward FLOPs of visible pairs. Below the first, time grows with N; far beyond the last, with N².",
    "width": "Forward FLOPs of visible pairs; heads keep their width, so that there are more of them.",
}

_TIMED = {"reading the context": "prefill of the context", "writing one token": "decoding one token"}


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
    """Return the maps of a single head, and what they add up to."""
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
        rows.append(
            [_TIMED.get(what, what), _seconds_text(predicted), _seconds_text(taken), _quotient(taken, predicted)]
        )
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


# Models side by side


BASELINE = "softmax"
_SHORT = {  # of the quantities that fit on one line, what heads their column
    "parameters": "parameters",
    "training_flops": "training",
    "activation_bytes": "activations",
    "peak_bytes": "peak",
    "decoding_flops": "decoding",
    "cache_bytes": "cache",
}


@dataclass(frozen=True)
class CostTable(HasPage):
    """Estimates in the order asked for, and what else was asked about them. It prints, and shows itself."""

    estimates: tuple[CostEstimate, ...]
    heads: tuple[PerHead, ...] = ()
    sweeps: tuple[Sweep, ...] = ()
    measured: tuple[MeasuredCost, ...] = ()
    with_tensors: bool = False
    capacities: tuple[Capacity, ...] = ()
    notes: tuple[str, ...] = ()

    def ratio(self, found: CostEstimate, key: str) -> float | None:
        """Return a quantity as a multiple of softmax's at the same size; None where either is nothing."""
        quantity = _quantity(key)
        is_baseline = found.question.variant == BASELINE
        usual = quantity.value(found if is_baseline else _estimated(found.question.replace(variant=BASELINE)))
        own = quantity.value(found)
        return own / usual if own is not None and usual else None

    def side_by_side(self) -> NotedTable:
        """Return a row for each quantity, a column for each model, and its multiple of softmax's beside it."""
        headings, rows = [""], [[quantity.label] for quantity in QUANTITIES]
        for found in self.estimates:
            compared = found.question.variant != BASELINE
            headings += [self.name(found), *(["× softmax"] * compared)]
            for row, quantity in zip(rows, QUANTITIES, strict=True):
                row.append(quantity_text(quantity.value(found), quantity.unit))
                if compared:
                    row.append(significant(self.ratio(found, quantity.key)))
        note = (
            "A FLOP is half a multiply–add of a matrix product. Attention is counted by the pairs that the mask shows; "
            "“every pair” is what PyTorch's own counter finds. FLOPs per byte are those that products do for each byte "
            "they move."
        )
        return NotedTable(headings, rows, "What it costs", note=note)

    def one_by_one(self) -> NotedTable:
        """Return a row for each model, for more of them than fit side by side, as multiples of softmax's."""
        rows = [[self.name(found), *(self._cell(found, key) for key in _SHORT)] for found in self.estimates]
        note = (
            "Softmax's own numbers, and for the others how many times as much: FLOPs to train on one batch and to "
            "decode one token, bytes kept for the backward pass, held at the peak of training, and cached after the "
            "context."
        )
        return NotedTable(["", *_SHORT.values()], rows, "What it costs", note=note)

    def tables(self, *, wide: bool = True) -> list[NotedTable]:
        """Return all that there is to show, in the order of reading."""
        return [
            *(part_table(one) for one in self.estimates if len(self.estimates) == 1),
            self.side_by_side() if wide else self.one_by_one(),
            *map(head_table, self.heads),
            *(tensor_table(one) for one in self.estimates if self.with_tensors),
            *(table for of_size in self.capacities_by_size() for table in capacity_tables(of_size)),
            *(table for sweep in self.sweeps for table in sweep_tables(sweep)),
            *map(measured_table, self.measured),
        ]

    def capacities_by_size(self) -> list[list[Capacity]]:
        """Return the capacities of each size together."""
        sizes = dict.fromkeys(one.question.size for one in self.capacities)
        return [[one for one in self.capacities if one.question.size == size] for size in sizes]

    def csv(self) -> str:
        """Return the capacities where there are any, and else the totals: a line for each model, in plain numbers."""
        rows = [one.as_row() for one in self.capacities]
        for found in self.estimates if not rows else ():
            names = {"size": found.question.size, "variant": found.question.variant}
            rows.append({**names, **{one.key: one.value(found) for one in QUANTITIES}})
        return csv_text([list(rows[0]), *(list(row.values()) for row in rows)])

    def name(self, found: CostEstimate) -> str:
        """Return what tells it from the others."""
        several = len({one.question.size for one in self.estimates}) > 1
        return found.label if several or len(self.estimates) == 1 else found.question.variant

    def as_dict(self) -> dict[str, object]:
        """Return everything as plain data, for JSON."""
        estimates = []
        for found in self.estimates:
            ratios = {quantity.key: self.ratio(found, quantity.key) for quantity in QUANTITIES}
            estimates.append({**found.as_dict(tensors=self.with_tensors), "times_softmax": ratios})
        return {
            "estimates": estimates,
            "per_head": [heads.as_dict() for heads in self.heads],
            "sweeps": [sweep.as_dict() for sweep in self.sweeps],
            "measured": [one.as_dict() for one in self.measured],
            "capacities": [one.as_dict() for one in self.capacities],
            "notes": list(self.notes),
        }

    def page(self) -> Page:
        """Return a page that works offline."""
        from attnlab.cost.page import cost_page  # which needs plotly, and takes a second to import

        return cost_page(self)

    def __str__(self) -> str:
        tables = self.tables(wide=len(self.estimates) <= 4)
        return "\n\n".join([*map(str, tables), *(sweep.text() for sweep in self.sweeps)])

    def _cell(self, found: CostEstimate, key: str) -> str:
        if found.question.variant != BASELINE:
            return significant(self.ratio(found, key))
        return quantity_text(_quantity(key).value(found), _quantity(key).unit)


def tabulate(
    sizes: Sequence[str] = ("gpt2",),
    variants: Sequence[str] = (),
    *,
    heads: bool = False,
    tensors: bool = False,
    sweep: str | None = None,
    memory: int | str | None = None,
    **fields: Any,
) -> CostTable:
    """Return the costs of every size with every variant, softmax first; `fields` are those of a `Question`.

    memory      in bytes or as in "80GB": which models fit, and how large they may be; without `variants`, of the whole
                catalogue
    """
    if isinstance(sizes, str) or isinstance(variants, str):
        raise InputError("sizes and variants are lists of names", hint='give ["gpt2"], not "gpt2"')
    names = dict.fromkeys([BASELINE, *variants])
    found = tuple(estimate(size, variant=name, **fields) for size in dict.fromkeys(sizes) for name in names)
    return CostTable(
        found,
        heads=tuple(per_head(one) for one in found) if heads else (),
        capacities=() if memory is None else _capacities(found, as_bytes(memory), catalogue=not variants),
        sweeps=() if sweep is None else tuple(Sweep.over(sweep, one.question) for one in found),
        with_tensors=tensors,
    )


def _capacities(found: Sequence[CostEstimate], memory: int, *, catalogue: bool) -> tuple[Capacity, ...]:
    asked = [one.question for one in found]
    others = (one for question in asked if catalogue for one in capacities_beside(question, memory))
    return (*(capacity(question, memory) for question in asked), *others)


def quantity_text(number: float | int | None, unit: str) -> str:
    """Return a number in its unit."""
    if number is None:
        return NOTHING
    if unit == "B":
        return byte_count(number)
    if unit == "FLOPs":
        return f"{count(number)}FLOPs" if number >= 1000 else f"{count(number)} FLOPs"
    return significant(number) if unit == "FLOPs/B" else f"{number:,}"


@functools.lru_cache(maxsize=64)
def _estimated(question: Question) -> CostEstimate:
    return CostEstimate(question, question.model())


def _quantity(key: str) -> Quantity:
    return next(one for one in QUANTITIES if one.key == key)
