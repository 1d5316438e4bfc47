"""What a training step of each variant takes, over that of softmax: in this process, two models at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attnlab.attention import Variant
from attnlab.bench.races.contenders import make_engine
from attnlab.bench.races.shapes import Shape
from attnlab.bench.results.findings import FoundTable
from attnlab.bench.results.judging import Claim, Outcome, judge_claim
from attnlab.bench.results.progress import Listener
from attnlab.bench.results.report import with_spread
from attnlab.bench.results.timing import Call, Ratio, take_turns
from attnlab.errors import SpecError
from attnlab.processes.machine import using_threads
from attnlab.training.execution import Execution, keep_memory

_HOW = "time of a training step ÷ softmax's"
PLAIN = Claim("variants", "every variant but the next", _HOW, 1.2)
SPARSE = Claim("variants-sparse", "sparsemax and entmax", _HOW, 1.6)
FULL = Claim("variants-full", "values that no head narrows", _HOW, None)


@dataclass(frozen=True)
class VariantStep:
    """One variant, and the claim that is made of it."""

    name: str
    claim: str
    over_softmax: Ratio


def race_variants(
    variants: Sequence[Variant], shape: Shape, threads: int, rounds: int, listener: Listener
) -> tuple[VariantStep, ...]:
    """All variants that a decoder can have, with one process of `threads` threads."""
    keep_memory()
    found = []
    with using_threads(threads):
        for done, variant in enumerate(variants):
            listener.step(f"a step of {variant.name}", done, len(variants))
            try:
                call = _stepping(variant.name, shape, threads)
            except SpecError as error:
                listener.note(f"{variant.name} is left out: {error.message}")
                continue
            turns = take_turns({"softmax": _stepping("softmax", shape, threads), "variant": call}, rounds)
            found.append(VariantStep(variant.name, claim_of(variant, shape).name, turns.ratio("variant", "softmax")))
    return tuple(found)


def claim_of(variant: Variant, shape: Shape) -> Claim:
    spec = shape.model(variant.name).attention[0]
    if spec.value_map == "full":
        return FULL
    return SPARSE if spec.operator is None and spec.normaliser.order is not None else PLAIN


def judge_variants(steps: Sequence[VariantStep]) -> list[Outcome]:
    """A claim that none of them concerns is left out."""
    outcomes = []
    for claim in (PLAIN, SPARSE, FULL):
        ratios = {step.name: step.over_softmax for step in steps if step.claim == claim.name}
        if ratios:
            outcomes.append(judge_claim(claim, ratios))
    return outcomes


def variants_table(steps: Sequence[VariantStep], shape: Shape) -> FoundTable:
    ordered = sorted(steps, key=lambda step: step.over_softmax.median)
    rows = [(step.name, with_spread(step.over_softmax)) for step in ordered]
    words = f"{shape}. Times of one training step ÷ that of softmax, in one process."
    return FoundTable("Training steps of the variants", words, ("variant", "÷ softmax"), rows)


def _stepping(variant: str, shape: Shape, threads: int) -> Call:
    engine = make_engine(shape, Execution(threads=threads), variant=variant)
    numbers = iter(range(1_000_000))
    return lambda: engine.step(next(numbers))
