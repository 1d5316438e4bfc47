"""Several models side by side, each against softmax at the same size."""

from __future__ import annotations

import functools
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.cost.estimate import QUANTITIES, CostEstimate, Quantity, estimate
from attnlab.cost.heads import PerHead, per_head
from attnlab.cost.measured import MeasuredCost
from attnlab.cost.presentation.tables import (
    NotedTable,
    head_table,
    measured_table,
    part_table,
    sweep_tables,
    tensor_table,
)
from attnlab.cost.question import Question
from attnlab.cost.sweep import Sweep
from attnlab.errors import InputError
from attnlab.formats import NOTHING, byte_count, count, significant
from attnlab.pages import Page, render, write_page

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
class CostTable:
    """Estimates in the order asked for, and what else was asked about them. It prints, and shows itself."""

    estimates: tuple[CostEstimate, ...]
    heads: tuple[PerHead, ...] = ()
    sweeps: tuple[Sweep, ...] = ()
    measured: tuple[MeasuredCost, ...] = ()
    with_tensors: bool = False
    notes: tuple[str, ...] = ()

    def ratio(self, found: CostEstimate, key: str) -> float | None:
        """Return a quantity as a multiple of softmax's at the same size; None where either is nothing."""
        quantity = _quantity(key)
        own, usual = quantity.value(found), quantity.value(self._baseline(found))
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
                    row.append(self._times(found, quantity.key))
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
            *(table for sweep in self.sweeps for table in sweep_tables(sweep)),
            *map(measured_table, self.measured),
        ]

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
            "notes": list(self.notes),
        }

    def page(self) -> Page:
        """Return a page that works offline."""
        from attnlab.cost.presentation.page import cost_page  # which needs plotly, and takes a second to import

        return cost_page(self)

    def write(self, path: Path) -> None:
        write_page(self.page(), path)

    def __str__(self) -> str:
        tables = self.tables(wide=len(self.estimates) <= 4)
        return "\n\n".join([*map(str, tables), *(sweep.text() for sweep in self.sweeps)])

    def _repr_html_(self) -> str:
        frame = "width:100%;height:720px;border:1px solid #7d8590"
        page = html.escape(render(self.page()))
        return f'<iframe sandbox="allow-scripts" title="cost" style="{frame}" srcdoc="{page}"></iframe>'

    def _baseline(self, found: CostEstimate) -> CostEstimate:
        if found.question.variant == BASELINE:
            return found
        return _estimated(found.question.replace(variant=BASELINE))

    def _times(self, found: CostEstimate, key: str) -> str:
        return significant(self.ratio(found, key))

    def _cell(self, found: CostEstimate, key: str) -> str:
        if found.question.variant != BASELINE:
            return self._times(found, key)
        return quantity_text(_quantity(key).value(found), _quantity(key).unit)


def tabulate(
    sizes: Sequence[str] = ("gpt2",),
    variants: Sequence[str] = (),
    *,
    heads: bool = False,
    tensors: bool = False,
    sweep: str | None = None,
    **fields: Any,
) -> CostTable:
    """Return the costs of every size with every variant, softmax first; `fields` are those of a `Question`."""
    if isinstance(sizes, str) or isinstance(variants, str):
        raise InputError("sizes and variants are lists of names", hint='give ["gpt2"], not "gpt2"')
    names = dict.fromkeys([BASELINE, *variants])
    found = tuple(estimate(size, variant=name, **fields) for size in dict.fromkeys(sizes) for name in names)
    return CostTable(
        found,
        heads=tuple(per_head(one) for one in found) if heads else (),
        sweeps=() if sweep is None else tuple(Sweep.over(sweep, one.question) for one in found),
        with_tensors=tensors,
    )


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
