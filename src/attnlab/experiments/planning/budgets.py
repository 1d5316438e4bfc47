"""How much text a size is trained on and in which batches, and variants made equal to the baseline in cost.

The ladder, by which sizes can be compared:

    tokens        = tokens per parameter · N, or a least number that small rungs need before attention sets in;
                    N counts all parameters of the baseline
    batch         = 1024 √(N / 64 000) tokens, at least 512, in steps of 256
    warm-up       = a tenth of the steps
    learning rate = the searched one, or 0.0092 · (N / 30 000)^(−1/3); it decays to 0 at the last step (cosine schedule)
    initial weights ~ N(0, σ²) with σ = 0.02 √(768 / width): GPT-2's own at its width

Batches grow with the square root of the size, so steps do too. The context is the same on all rungs.

A variant is made equal to the baseline in one cost, by solving for one width:

    parameters, flops    for the width of the perceptron
    cache                for the width of keys and values, since the perceptron has no part in the cache

All three grow in a straight line with that width, so that the nearest whole number is found at once. What is left over
is said in the plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attnlab.corpora import Corpus
from attnlab.cost import model_cost
from attnlab.errors import SpecError
from attnlab.experiments.planning.plan import CostMatch
from attnlab.experiments.request import Match
from attnlab.models import ModelSpec
from attnlab.models.sizes import SIZES, Size, non_embedding, size
from attnlab.training import RunSpec

WARMUP = 0.1  # share of the steps
GPT2_STD = 0.02
MIN_RATE = 0.0  # learning rate at the last step, of the highest
MOST_EPOCHS = 8.0  # more repetitions of the same text change what is measured
_BATCH_TOKENS, _BATCH_AT = 1024, 64_000  # tokens in a batch, for so many parameters
_BATCH_STEP, _LEAST_BATCH = 256, 512
_RATE, _RATE_AT, _RATE_EXPONENT = 0.0092, 30_000, -1 / 3  # learning rate, at so many parameters
_FIELDS: dict[Match, str] = {"parameters": "mlp_width", "flops": "mlp_width", "cache": "head_width"}
_EVEN = 2  # widths that positions can rotate in pairs
_CLOSE = 0.005  # the share by which two may differ and be called equal


@dataclass(frozen=True)
class Budget:
    """How a model of some size is trained."""

    parameters: int  # of the baseline, embeddings included
    non_embedding: int
    batch_size: int  # rows
    steps: int
    warmup_steps: int
    context_length: int

    @property
    def tokens(self) -> int:
        return self.steps * self.batch_size * self.context_length


def budget(model: ModelSpec, tokens_per_parameter: float, least_tokens: int = 0, share: float = 1.0) -> Budget:
    """Return the batches and steps of the baseline `model`, which all arms at this size share.

    `share` is that of the tokens which are trained on.
    """
    count = model_cost(model).parameters
    wanted = _BATCH_TOKENS * math.sqrt(count / _BATCH_AT)
    batch = max(_LEAST_BATCH, _BATCH_STEP * round(wanted / _BATCH_STEP))
    rows = max(1, round(batch / model.context_length))
    tokens = share * max(tokens_per_parameter * count, least_tokens)
    steps = max(1, math.ceil(tokens / (rows * model.context_length)))
    return Budget(count, bare_parameters(model), rows, steps, math.ceil(WARMUP * steps), model.context_length)


def usual_rate(parameters: int) -> float:
    """Return a learning rate for AdamW at this size, embeddings included, where none was searched.

    The rates found for softmax from 9 k to 169 k parameters (docs/log.md) lie within a factor of two of it, but for one
    that a finer search corrected, and so do those of GPT-3 from 125 M to 175 B (arXiv 2005.14165, table 2.1).
    """
    return float(f"{_RATE * (parameters / _RATE_AT) ** _RATE_EXPONENT:.4g}")


def bare_parameters(model: ModelSpec) -> int:
    """Return the non-embedding parameters of a model as its size is counted: 12 · layers · width²."""
    return non_embedding(Size(model.num_layers, model.model_width, 1, model.context_length))


def on_rung(run: RunSpec, model: ModelSpec, budget: Budget) -> RunSpec:
    """Return the run with the batches, steps, schedule and initial weights of its rung; what the user set stays."""
    std = GPT2_STD * math.sqrt(SIZES["gpt2"].model_width / model.model_width)
    return run.replace(
        initial_std=run.initial_std or float(f"{std:.4g}"),
        steps=budget.steps,
        batch_size=run.batch_size or budget.batch_size,
        warmup_steps=budget.warmup_steps if run.warmup_steps is None else run.warmup_steps,
        min_learning_rate_ratio=MIN_RATE if run.min_learning_rate_ratio is None else run.min_learning_rate_ratio,
    )


def check_rungs(rungs: Sequence[str], largest: str) -> None:
    """Refuse rungs that are not in ascending order below the largest."""
    counts = [non_embedding(size(name)) for name in (*rungs, largest)]
    for lower, upper, names in zip(counts, counts[1:], zip(rungs, (*rungs[1:], largest), strict=True), strict=False):
        if lower >= upper:
            raise SpecError(
                f"rungs must ascend: {names[0]} has {lower:,} non-embedding parameters and {names[1]} {upper:,}",
                hint="give sizes in ascending order, about a factor of two apart",
            )


def check_text(budget: Budget, corpus: Corpus) -> None:
    """Refuse a budget that would repeat its text too often."""
    if budget.tokens > MOST_EPOCHS * corpus.training_tokens:
        raise SpecError(
            f"{budget.tokens:,} tokens are {budget.tokens / corpus.training_tokens:.1f} times the "
            f"{corpus.training_tokens:,} training tokens of {corpus.spec.name}; at most {MOST_EPOCHS:g} are allowed",
            hint="use a larger text such as the corpus `python`, fewer tokens per parameter or smaller rungs",
        )


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
