"""The result of a retrofit: costs layer by layer, losses during healing, and gains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attnlab.formats import csv_text
from attnlab.pages import HasPage, Page
from attnlab.retrofit.costs import LayerCost, Subset
from attnlab.retrofit.gains import Gains
from attnlab.retrofit.healing.curves import Healing
from attnlab.retrofit.healing.plan import Method
from attnlab.retrofit.request import RetrofitRequest
from attnlab.statistics import Interval
from attnlab.storage.records import to_plain

_DIGITS = 6


@dataclass(frozen=True)
class VariantResult:
    """One variant: its cost in each layer and in all layers, the converted layers, and the result of healing."""

    name: str
    meaning: str
    costs: tuple[LayerCost, ...]
    all_layers: Interval  # the cost of all layers of `costs` at once
    subset: Subset | None
    layers: tuple[int, ...]  # the converted layers
    converted_loss: float
    converted: Path
    gains: Gains
    healing: tuple[Healing, ...] = ()

    @property
    def healed(self) -> Path:
        """Return the run of the retrofitted model: the first seed of the method that ends best, or the conversion."""
        ends = [(math.inf if one.final is None else one.final.mean, one.runs[0].path) for one in self.healing]
        return min(ends)[1] if ends else self.converted


@dataclass(frozen=True)
class ArmVerdict:
    """The verdict on one variant and method against the original finetuned on the same tokens, with its reason."""

    variant: str
    method: Method
    verdict: str
    reason: str


@dataclass(frozen=True)
class RetrofitResult(HasPage):
    """A retrofit of one model to one or several variants."""

    title: str
    folder: Path
    request: RetrofitRequest
    num_layers: int
    length: int
    texts: int
    text: str
    original_loss: float
    variants: tuple[VariantResult, ...]
    control: Healing | None = None  # the original, finetuned on the same tokens
    verdicts: tuple[ArmVerdict, ...] = ()  # of `attnlab.experiments`, if there are any

    @property
    def limit(self) -> float:
        """Return the loss at which perplexity is near enough to the original's."""
        return self.original_loss + math.log1p(self.request.healing.within)

    def page(self) -> Page:
        from attnlab.retrofit.page import retrofit_page

        return retrofit_page(self)

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain data."""
        plain = {
            "title": self.title,
            "folder": self.folder,
            "request": self.request.model_dump(mode="json"),
            "layers": self.num_layers,
            "texts": self.texts,
            "tokens_per_text": self.length,
            "text": self.text,
            "original_loss": self.original_loss,
            "limit": self.limit,
            "variants": [self._variant(one) for one in self.variants],
            "control": None if self.control is None else _healing(self.control, self),
            "verdicts": self.verdicts,
        }
        found: dict[str, object] = to_plain(plain, nulls=True, digits=_DIGITS)
        return found

    def _variant(self, one: VariantResult) -> dict[str, object]:
        return {
            "name": one.name,
            "meaning": one.meaning,
            "costs": one.costs,
            "all_layers": one.all_layers,
            "subset": one.subset,
            "layers": one.layers,
            "converted_loss": one.converted_loss,
            "converted": one.converted,
            "healed": one.healed,
            "gains": one.gains,
            "healing": [_healing(healing, self) for healing in one.healing],
        }

    def to_csv(self) -> str:
        """Return the cost of each layer, and the loss of each seed along healing, as rows."""
        rows: list[Sequence[object]] = [("variant", "kind", "layer", "seed", "tokens", "value", "low", "high")]
        for one in self.variants:
            for cost in one.costs:
                found = cost.cost
                rows.append((one.name, "cost", cost.layer, "", "", found.mean, found.low, found.high))
            whole = one.all_layers
            rows.append((one.name, "cost of all", "", "", "", whole.mean, whole.low, whole.high))
        groups = [(one.name, healing) for one in self.variants for healing in one.healing]
        groups += [] if self.control is None else [("original", self.control)]
        for name, healing in groups:
            for run in healing.runs:
                rows += [(name, healing.method, "", run.seed, tokens, loss, "", "") for tokens, loss in run.curve]
        return csv_text(rows)


def _healing(healing: Healing, result: RetrofitResult) -> dict[str, object]:
    reached, until = healing.until(result.limit)
    return {
        "method": healing.method,
        "final": healing.final,
        "seeds_within": len(reached),
        "tokens_until_within": until,
        "difference_to_control": None if result.control is None else healing.difference(result.control),
        "runs": healing.runs,
    }
