"""Models side by side: their costs in one table, which prints and renders in a notebook."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.cost.estimate import QUANTITIES, CostEstimate, MeasuredCost, Quantity, estimate
from attnlab.cost.presentation.tables import (
    NotedTable,
    capacity_tables,
    head_table,
    measured_table,
    part_table,
    quantity_text,
    sweep_tables,
    tensor_table,
)
from attnlab.cost.questions.capacity import Capacity, as_bytes, capacities_beside, capacity
from attnlab.cost.questions.question import Question
from attnlab.cost.questions.sweep import Sweep
from attnlab.cost.tensors import PerHead, per_head
from attnlab.errors import InputError
from attnlab.formats import and_list, csv_text, significant
from attnlab.pages import HasPage, Page

BASELINE = "softmax"
_SHORT = {  # column headings of the quantities that fit on one line
    "parameters": "parameters",
    "training_flops": "training",
    "activation_bytes": "activations",
    "peak_bytes": "peak",
    "decoding_flops": "decoding",
    "cache_bytes": "cache",
}


@dataclass(frozen=True)
class CostTable(HasPage):
    """Estimates in the requested order, with the other requested results. It prints, and renders in a notebook."""

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
        return NotedTable(headings, rows, "What it costs", note=note + self._counted())

    def one_by_one(self) -> NotedTable:
        """Return a row for each model, for more of them than fit side by side, as multiples of softmax's."""
        rows = [[self.name(found), *(self._cell(found, key) for key in _SHORT)] for found in self.estimates]
        note = (
            "Softmax's own numbers, and for the others how many times as much: FLOPs to train on one batch and to "
            "decode one token, bytes kept for the backward pass, held at the peak of training, and cached after the "
            "context."
        )
        return NotedTable(["", *_SHORT.values()], rows, "What it costs", note=note + self._counted())

    def _counted(self) -> str:
        """Say which layers are counted by running them."""
        layers = {str(one.layer): one.layer for found in self.estimates for one in found.model.attention if one.layer}
        if not layers:
            return ""
        again = [name for name, one in layers.items() if "cache" not in one.takes]
        text = f" The FLOPs of {and_list([*layers])} are counted by running the module; its memory is estimated."
        return text + (f" Decoding computes all tokens again in {and_list(again)}." if again else "")

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
        from attnlab.cost.presentation.page import cost_page  # needs plotly, which takes a second to import

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
    """Return the costs of every size with every variant, softmax first.

    Parameters
    ----------
    sizes
        Sizes, as `estimate` takes them.
    variants
        Variants in addition to softmax.
    heads
        Whether to show the matrices of a single head.
    tensors
        Whether to list every parameter.
    sweep
        "context" or "width": the cost along this axis.
    memory
        Bytes, or a string such as "80GB": which models fit, and how large they may be; without `variants`, for the
        whole catalogue.
    fields
        The fields of a `Question`.
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


@functools.lru_cache(maxsize=64)
def _estimated(question: Question) -> CostEstimate:
    return CostEstimate(question, question.model())


def _quantity(key: str) -> Quantity:
    return next(one for one in QUANTITIES if one.key == key)
