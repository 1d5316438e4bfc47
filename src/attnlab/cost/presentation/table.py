"""Several models side by side, each against softmax at the same size."""

from __future__ import annotations

import functools
import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab.cost.estimate import QUANTITIES, Estimate, estimate
from attnlab.cost.heads import PerHead, per_head
from attnlab.cost.measured import MeasuredCost
from attnlab.cost.presentation.grids import (
    NOTHING,
    Grid,
    bytes_text,
    count_text,
    flops_text,
    quantity_text,
    ratio_text,
    share_text,
)
from attnlab.cost.question import Question
from attnlab.cost.sweep import Sweep
from attnlab.cost.tensors import grouped
from attnlab.errors import InputError
from attnlab.pages import Page, render, write_page

BASELINE = "softmax"


@dataclass(frozen=True)
class CostTable:
    """Estimates in the order asked for, and whatever else was asked about them. It prints, and shows itself."""

    estimates: tuple[Estimate, ...]
    heads: tuple[PerHead, ...] = ()
    sweeps: tuple[Sweep, ...] = ()
    measured: tuple[MeasuredCost, ...] = ()
    with_tensors: bool = False
    notes: tuple[str, ...] = field(default=())

    def ratio(self, found: Estimate, key: str) -> float | None:
        """A quantity as a multiple of softmax's at the same size; None where either is nothing."""
        quantity = next(one for one in QUANTITIES if one.key == key)
        own, usual = quantity.value(found), quantity.value(self._baseline(found))
        return own / usual if own is not None and usual else None

    def side_by_side(self) -> Grid:
        """A row for each quantity, a column for each model, and its multiple of softmax's beside it."""
        compared = any(found.question.variant != BASELINE for found in self.estimates)
        headings, rows = [""], [[quantity.label] for quantity in QUANTITIES]
        for found in self.estimates:
            own = compared and found.question.variant != BASELINE
            headings += [self.name(found), *(["× softmax"] * own)]
            for row, quantity in zip(rows, QUANTITIES, strict=True):
                row.append(quantity_text(quantity.value(found), quantity.unit))
                if own:
                    row.append(self._times(found, quantity.key))
        return Grid("What it costs", headings, rows, _COUNTED)

    def one_by_one(self) -> Grid:
        """A row for each model, for more of them than fit side by side; numbers are multiples of softmax's."""
        keys = ("parameters", "training_flops", "activation_bytes", "peak_bytes", "decoding_flops", "cache_bytes")
        headings = ["", "parameters", "training", "activations", "peak", "decoding", "cache"]
        rows = [[self.name(found), *(self._cell(found, key) for key in keys)] for found in self.estimates]
        words = (
            "Softmax's own numbers, and for the others how many times as much: FLOPs to train on one batch and to "
            "write one token, bytes kept for the backward pass, held at the peak of training, and cached after the "
            "context."
        )
        return Grid("What it costs", headings, rows, words)

    def by_part(self, found: Estimate) -> Grid:
        """Where the parameters and the FLOPs are."""
        parts = found.parts()
        sums = [sum(numbers) for numbers in zip(*(_numbers(part) for part in parts), strict=True)]
        rows = []
        for part in parts:
            parameters, training, reading, kept = _numbers(part)
            rows.append(
                [
                    part.name,
                    count_text(parameters) if parameters else NOTHING,
                    share_text(parameters, sums[0]) if parameters else "",
                    flops_text(training) if training else NOTHING,
                    share_text(training, sums[1]) if training else "",
                    flops_text(reading) if reading else NOTHING,
                    bytes_text(kept) if kept else NOTHING,
                ]
            )
        total = [count_text(sums[0]), "", flops_text(sums[1]), "", flops_text(sums[2]), bytes_text(sums[3])]
        headings = ("", "parameters", "share", "to train", "share", "forward", "kept")
        words = "FLOPs of visible pairs, of one batch; to train is forward, backward, and what kernels do again."
        return Grid(f"{describe(found)}, by part", headings, [*rows, ["all", *total]], words)

    def tensors(self, found: Estimate) -> Grid:
        """Every named tensor; layers that are alike are on one line."""
        rows = [
            [one.name, " × ".join(f"{n:,}" for n in one.shape) or "1", str(one.count), count_text(one.parameters)]
            for one in grouped(found.tensors)
        ]
        rows.append(["all", "", count_text(len(found.tensors)), count_text(found.parameters)])
        return Grid(f"{found.label}: every named tensor", ("name", "shape", "tensors", "parameters"), rows)

    def grids(self, *, wide: bool = True) -> list[Grid]:
        """All that there is to show, in the order of reading."""
        found = [self.side_by_side() if wide else self.one_by_one()]
        if len(self.estimates) == 1:
            found.insert(0, self.by_part(self.estimates[0]))
        found += [heads.grid() for heads in self.heads]
        found += [self.tensors(one) for one in self.estimates if self.with_tensors]
        found += [grid for sweep in self.sweeps for grid in sweep.grids()]
        return found + [grid for one in self.measured for grid in one.grids()]

    def name(self, found: Estimate) -> str:
        """What tells it from the others."""
        several = len({one.question.size for one in self.estimates}) > 1
        return found.label if several or len(self.estimates) == 1 else found.question.variant

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        estimates = []
        for found in self.estimates:
            ratios = {quantity.key: self.ratio(found, quantity.key) for quantity in QUANTITIES}
            estimates.append({**found.as_dict(tensors=self.with_tensors), "times_softmax": ratios})
        return {
            "estimates": estimates,
            "per_head": [heads.as_dict() for heads in self.heads],
            "sweeps": [sweep.as_dict() for sweep in self.sweeps],
            "measured": [one.as_dict() for one in self.measured],
            "notes": list(self.notes),
        }

    def page(self) -> Page:
        """As a page that works offline."""
        from attnlab.cost.presentation.page import cost_page  # which needs plotly, and takes a second to import

        return cost_page(self)

    def write(self, path: Path) -> None:
        write_page(self.page(), path)

    def __str__(self) -> str:
        grids = self.grids(wide=len(self.estimates) <= 4)
        return "\n\n".join([*map(str, grids), *(sweep.text() for sweep in self.sweeps)])

    def _repr_html_(self) -> str:
        frame = "width:100%;height:720px;border:1px solid #7d8590"
        page = html.escape(render(self.page()))
        return f'<iframe sandbox="allow-scripts" title="cost" style="{frame}" srcdoc="{page}"></iframe>'

    def _baseline(self, found: Estimate) -> Estimate:
        if found.question.variant == BASELINE:
            return found
        return _estimated(found.question.replace(variant=BASELINE).model_dump_json())

    def _times(self, found: Estimate, key: str) -> str:
        ratio = self.ratio(found, key)
        return NOTHING if ratio is None else ratio_text(ratio)

    def _cell(self, found: Estimate, key: str) -> str:
        if found.question.variant != BASELINE:
            return self._times(found, key)
        quantity = next(one for one in QUANTITIES if one.key == key)
        return quantity_text(quantity.value(found), quantity.unit)


_COUNTED = (
    "A FLOP is half a multiply–add of a matrix product. Attention is counted by the pairs that the mask shows; “every "
    "pair” is what PyTorch's own counter finds. FLOPs per byte are those that products do for each byte they move."
)


@functools.lru_cache(maxsize=64)
def _estimated(question: str) -> Estimate:
    asked = Question.model_validate_json(question)
    return Estimate(asked, asked.model())


def tabulate(
    sizes: Sequence[str] = ("gpt2",),
    variants: Sequence[str] = (),
    *,
    heads: bool = False,
    tensors: bool = False,
    sweep: str | None = None,
    **fields: Any,
) -> CostTable:
    """The costs of every size with every variant, softmax first; `fields` are those of a `Question`."""
    if isinstance(sizes, str) or isinstance(variants, str):
        raise InputError("sizes and variants are lists of names", hint='give ["gpt2"], not "gpt2"')
    names = dict.fromkeys([BASELINE, *variants] if variants else [BASELINE])
    found = tuple(estimate(size, variant=name, **fields) for size in dict.fromkeys(sizes) for name in names)
    return CostTable(
        found,
        heads=tuple(per_head(one) for one in found) if heads else (),
        sweeps=() if sweep is None else tuple(Sweep.over(sweep, one.question) for one in found),
        with_tensors=tensors,
    )


def describe(found: Estimate) -> str:
    """The model and the batch in words."""
    spec, asked = found.model, found.question
    heads = spec.attention[0]
    changed = ", changed" if asked.is_changed else ""
    return (
        f"{found.label}{changed}: {spec.num_layers} layers of width {spec.model_width:,}, {heads.num_heads} heads of "
        f"width {heads.key_width:,}, {asked.batch_size:,} × {spec.context_length:,} tokens, vocabulary "
        f"{spec.vocabulary_size:,}, {asked.bytes_per_number} bytes a number, recipe {asked.recipe}"
    )


def _numbers(part: Any) -> tuple[int, int, int, int]:
    training = part.forward_flops + part.backward_flops + part.recomputed_flops
    return part.parameters, training, part.forward_flops, part.activation_bytes
