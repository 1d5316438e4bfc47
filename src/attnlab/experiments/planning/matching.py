"""Variants made equal to the baseline in what they cost, by solving for one width.

    parameters, flops    for the width of the perceptron
    cache                for the width of keys and values, since the perceptron has no part in the cache

All three grow in a straight line with that width, so that the nearest whole number is found at once. What is left over
is said in the plan.
"""

from __future__ import annotations

from collections.abc import Callable

from attnlab.corpora import Corpus
from attnlab.cost import model_cost
from attnlab.errors import SpecError
from attnlab.experiments.planning.plan import CostMatch
from attnlab.experiments.request import Match
from attnlab.models import ModelSpec
from attnlab.training import RunSpec

_FIELDS: dict[Match, str] = {"parameters": "mlp_width", "flops": "mlp_width", "cache": "head_width"}
_EVEN = 2  # widths that positions can rotate in pairs
_CLOSE = 0.005  # the share by which two may differ and be called equal


def match(run: RunSpec, baseline: RunSpec, what: Match, corpus: Corpus) -> tuple[RunSpec, CostMatch] | None:
    """Return the run made equal to the baseline, or None if it is so already."""
    count = _quantity(what)
    target = count(baseline.model(corpus))
    if abs(count(run.model(corpus)) / target - 1) <= _CLOSE:
        return None
    field = _FIELDS[what]

    def at(width: int) -> tuple[RunSpec, float]:
        changed = run.replace(**{field: width})
        return changed, count(changed.model(corpus))

    first = _width_of(run.model(corpus), field)
    slope = (at(first + _EVEN)[1] - at(first)[1]) / _EVEN
    if slope <= 0:
        raise SpecError(
            f"{run.variant} has no {what} that its {field} could change", hint="leave it out, or match something else"
        )
    width = first + (target - at(first)[1]) / slope
    whole = _EVEN * round(width / _EVEN)
    if whole < _EVEN:
        raise SpecError(
            f"{run.variant} has more {what} than the baseline, whatever its {field}",
            hint="leave it out, or compare at a larger size",
        )
    changed, reached = at(whole)
    return changed, CostMatch(what=what, field=field, value=whole, target=target, reached=reached)


def _quantity(what: Match) -> Callable[[ModelSpec], float]:
    if what == "parameters":
        return lambda spec: model_cost(spec).parameters
    if what == "flops":
        return lambda spec: model_cost(spec).useful_training_flops
    return lambda spec: model_cost(spec).cache_bytes(spec.context_length)


def _width_of(spec: ModelSpec, field: str) -> int:
    return spec.mlp_width if field == "mlp_width" else spec.attention[0].key_width
