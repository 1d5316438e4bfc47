"""What a model costs, as the studio's sliders ask it."""

from __future__ import annotations

from typing import Any

from attnlab.attention import variants
from attnlab.cost import CostEstimate, CostTable, Question, Sweep
from attnlab.models.sizes import SIZES
from attnlab.studio.work.parts import page_data

_BASELINE = "softmax"


def choices() -> dict[str, Any]:
    """The sizes to begin with, and the variants."""
    return {
        "sizes": {name: size.dimensions() for name, size in SIZES.items()},
        "variants": [one.name for one in variants()],
    }


def cost(question: dict[str, Any]) -> dict[str, Any]:
    """The page of the model that a question names, beside softmax at the same size."""
    asked = Question(**question)
    names = dict.fromkeys((_BASELINE, asked.variant))
    estimates = tuple(CostEstimate(one, one.model()) for one in (asked.replace(variant=name) for name in names))
    sweeps = tuple(Sweep.over(axis, asked) for axis in ("context", "width"))
    return {"page": page_data(CostTable(estimates, sweeps=sweeps).page())}
