"""What tracing found: tables for heat maps, intervals over facts, and the places that matter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from attnlab.errors import UnknownNameError
from attnlab.lens.facts.facts import GROUPS
from attnlab.statistics import Interval, holm, mean_interval, paired_t

PARTS = ("attention", "mlp", "residual")
What = Literal["restored", "ablated"]


@dataclass(frozen=True)
class Cell:
    """One part of one layer in one group of tokens."""

    part: str
    layer: int
    group: str
    effect: Interval  # on the answer's probability; not numbers where fewer than two facts have such tokens
    facts: int


@dataclass(frozen=True, eq=False)
class Tracing:
    """The probabilities of each fact's answer, and by how much each place changes them: `tracing.py` says how.

    Intervals take facts as independent, which those with a common name or answer are not wholly.
    """

    clean: Tensor  # (facts,)
    corrupted: Tensor  # (facts,)
    restored: Mapping[str, Tensor]  # by part: (layers, groups, facts), not a number for a fact without such tokens
    ablated: Mapping[str, Tensor]
    said: Mapping[str, Tensor]  # by part, as `attribute` names them: logits against the mean of all tokens, (facts,)
    told_apart: Mapping[str, Tensor]  # the same against the mean of the answers of all facts
    corruption: str
    level: float = 0.95

    @property
    def total(self) -> Interval:
        """clean − corrupted: what there is to restore."""
        return mean_interval((self.clean - self.corrupted).tolist(), self.level)

    def effects(self, part: str, what: What = "restored") -> Tensor:
        """(layers, groups, facts)."""
        kinds = {"restored": self.restored, "ablated": self.ablated}
        if what not in kinds:
            raise UnknownNameError("effect", what, kinds)
        if part not in kinds[what]:
            raise UnknownNameError("part", part, kinds[what])
        return kinds[what][part]

    def table(self, part: str, what: What = "restored") -> Tensor:
        """The mean effect over facts, (layers, groups), not a number where no fact has such tokens."""
        return self.effects(part, what).nanmean(-1)

    def cells(self, what: What = "restored") -> list[Cell]:
        """Every place, with its interval."""
        return [
            self._cell(part, layer, group, what)
            for part in PARTS
            for layer in range(len(self.effects(part, what)))
            for group in GROUPS
        ]

    def found(self, what: What = "restored", *, alpha: float = 0.05, least: float = 0.1) -> list[Cell]:
        """The places whose effect is above 0, and at least this share of what there is to restore.

        The p-values are corrected for the number of places (Holm), so that in a model that knows nothing the chance to
        find any place at all is at most about alpha.
        """
        cells = [cell for cell in self.cells(what) if cell.facts > 1]
        p_values = holm([paired_t(_numbers(self._values(cell, what))) for cell in cells])
        bound = max(0.0, least * self.total.mean)
        pairs = zip(cells, p_values, strict=True)
        return [cell for cell, p in pairs if p < alpha and cell.effect.mean > 0 and cell.effect.mean >= bound]

    def speakers(self, *, apart: bool = True) -> dict[str, Interval]:
        """What each layer and head says for the answer, in logits, the loudest first.

        `apart` is against the other answers: a part that says "some place" for everybody says nothing then.
        """
        said = self.told_apart if apart else self.said
        found = {name: mean_interval(values.tolist(), self.level) for name, values in said.items()}
        return dict(sorted(found.items(), key=lambda pair: -pair[1].mean))

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it: the cells are rows for a heat map."""
        return {
            "facts": len(self.clean),
            "corruption": self.corruption,
            "level": self.level,
            "clean": float(self.clean.mean()),
            "corrupted": float(self.corrupted.mean()),
            "total": _interval(self.total),
            "groups": list(GROUPS),
            **{what: [_plain(cell) for cell in self.cells(what)] for what in ("restored", "ablated")},
            "said": {name: _interval(one) for name, one in self.speakers(apart=False).items()},
            "told_apart": {name: _interval(one) for name, one in self.speakers().items()},
        }

    def _cell(self, part: str, layer: int, group: str, what: What) -> Cell:
        values = _numbers(self.effects(part, what)[layer, GROUPS.index(group)])
        nothing = Interval(math.nan, math.nan, math.nan)
        interval = mean_interval(values, self.level) if len(values) > 1 else nothing
        return Cell(part, layer, group, interval, len(values))

    def _values(self, cell: Cell, what: What) -> Tensor:
        return self.effects(cell.part, what)[cell.layer, GROUPS.index(cell.group)]


def _numbers(values: Tensor) -> list[float]:
    kept: list[float] = values[torch.isfinite(values)].tolist()
    return kept


def _interval(one: Interval) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in vars(one).items()}


def _plain(cell: Cell) -> dict[str, Any]:
    return {"part": cell.part, "layer": cell.layer, "group": cell.group, "facts": cell.facts, **_interval(cell.effect)}
