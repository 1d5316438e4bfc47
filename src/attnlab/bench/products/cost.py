"""Predicted against measured cost: peak memory of training, and the growth of time with the context.

Growth is measured below N = D and far above it. The exponent b of seconds = a · Nᵇ is fitted to the medians of several
contexts, and likewise to the predicted FLOPs of the same step. The model has one layer and a tiny vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from attnlab.bench.findings import Bar, BenchListener, Findings, JudgedBar, NoteKeeper, table_section
from attnlab.bench.races.race import Shape, check_threads
from attnlab.bench.timing import check_rounds, take_turns
from attnlab.cost import CostEstimate, MachineRates, MeasuredCost, Question, model_cost
from attnlab.formats import byte_count, fixed, general
from attnlab.models import ModelSpec, build_model
from attnlab.pages import Section
from attnlab.processes.child import Child, ChildError
from attnlab.processes.machine import describe_machine, free_bytes, matmul_peak, using_threads
from attnlab.statistics import power_growth

MODULE = "attnlab.bench.products.cost_process"
_ROOM = 0.85  # share of the free memory that may be used
_PATIENCE = 120.0  # maximum predicted seconds of one step
_READ = 1 << 26  # numbers read to measure the memory bandwidth

MEMORY = Bar(
    "memory",
    "peak memory of a training step at {shapes} shapes",
    "the larger of measured and predicted ÷ the smaller",
    1.15,
)


GROWTH = Bar(
    "growth",
    "the time of a training step as the context grows, below N = D and far above it",
    "measured and predicted exponent of N, their distance",
    0.25,
)
_VOCABULARY = 17  # so small that the cost of the output layer is negligible


def measure_costs(
    estimates: Sequence[CostEstimate], threads: int | None = None, listener: BenchListener | None = None
) -> tuple[MeasuredCost, ...]:
    """Run each model here, in processes of its own; what would not fit is refused, with the reason."""
    listener, threads = listener or BenchListener(), check_threads(threads)
    listener.step("the machine's rates", 0, 2 * len(estimates) + 1)
    rates = machine_rates(threads)
    found = []
    for place, estimate in enumerate(estimates):
        blank = MeasuredCost(estimate, rates)
        refusal = why_not(blank)
        if refusal:
            found.append(replace(blank, refusal=refusal))
            continue
        listener.step(f"memory of {estimate.label}", 2 * place + 1, 2 * len(estimates) + 1)
        try:
            peak = _asked(estimate.question, threads, "memory")["bytes"]
            listener.step(f"times of {estimate.label}", 2 * place + 2, 2 * len(estimates) + 1)
            taken = _asked(estimate.question, threads, "times")
        except ChildError as error:
            found.append(replace(blank, refusal=f"it did not end: {error.message.splitlines()[0]}"))
            continue
        found.append(
            replace(
                blank,
                peak_bytes=peak,
                step_seconds=taken["step"],
                prefill_seconds=taken["prefill"],
                decoding_seconds=taken["decoding"],
            )
        )
    return tuple(found)


def why_not(wanted: MeasuredCost) -> str:
    """Return why a model cannot be run here; empty if it can."""
    question, peak = wanted.estimate.question, wanted.estimate.memory.peak
    if question.bytes_per_number != 4:
        return f"only float32 is measured, and {question.bytes_per_number} bytes a number were asked for"
    if question.checkpointing:
        return "activation checkpointing is counted, and attnlab does not train with it yet"
    free = free_bytes()
    if free is not None and peak > _ROOM * free:
        return f"training would take {byte_count(peak)}, and {byte_count(free)} are free here"
    seconds = wanted.predicted_step_seconds
    if seconds > _PATIENCE:
        return f"one training step would take at least {seconds:,.0f} s here, and {_PATIENCE:.0f} s are waited at most"
    return ""


def machine_rates(threads: int) -> MachineRates:
    """Measure the best rates of matrix products and of reading memory, for less than a second."""
    with using_threads(threads):
        numbers = torch.ones(_READ)
        numbers.sum()
        best, end = 0.0, time.perf_counter() + 0.3
        while (begin := time.perf_counter()) < end:
            numbers.sum()
            best = max(best, numbers.nbytes / (time.perf_counter() - begin))
    return MachineRates(matmul_peak(threads), best)


def _asked(question: Question, threads: int, what: str) -> Mapping[str, Any]:
    name = f"the process that measures {question.size} {question.variant}"
    with Child(MODULE, [question.model_dump_json(), str(threads)], name=name) as child:
        return child.ask(do=what)


@dataclass(frozen=True)
class Regime:
    """A width, a batch, and contexts on one side of N = D."""

    name: str
    width: int
    heads: int
    batch: int
    contexts: tuple[int, ...]

    def model(self, tokens: int) -> ModelSpec:
        return Shape(self.name, 1, self.width, self.heads, tokens, self.batch, _VOCABULARY).model()

    def flops(self, tokens: int) -> int:
        """Return the FLOPs of a training step, recomputation by kernels included."""
        return model_cost(self.model(tokens), batch=self.batch, visible_only=True).training_flops


@dataclass(frozen=True)
class MeasuredGrowth:
    """The predicted and measured exponents of one regime."""

    name: str
    width: int
    contexts: tuple[int, ...]
    seconds: tuple[float, ...]
    predicted: float
    measured: float

    @property
    def apart(self) -> float:
        return abs(self.measured - self.predicted)


def measure_growth(regimes: Sequence[Regime], rounds: int, listener: BenchListener) -> tuple[MeasuredGrowth, ...]:
    """Time the regimes with the threads that PyTorch has now."""
    check_rounds(rounds)
    found = []
    for place, regime in enumerate(regimes):
        listener.step(f"growth with N: {regime.name}", place, len(regimes))
        calls = {str(tokens): _step(regime, tokens) for tokens in regime.contexts}
        durations = take_turns(calls, rounds)
        seconds = tuple(durations.median(name) for name in calls)
        flops = [regime.flops(tokens) for tokens in regime.contexts]
        found.append(
            MeasuredGrowth(
                regime.name,
                regime.width,
                regime.contexts,
                seconds,
                power_growth(regime.contexts, flops).slope,
                power_growth(regime.contexts, seconds).slope,
            )
        )
    return tuple(found)


def _step(regime: Regime, tokens: int) -> Callable[[], object]:
    model = build_model(regime.model(tokens))
    inputs, targets = torch.randint(0, _VOCABULARY, (2, regime.batch, tokens))

    def step() -> None:
        model.zero_grad(set_to_none=True)
        model.loss(inputs, targets).backward()  # type: ignore[no-untyped-call]

    return step


def judge_growth(found: Sequence[MeasuredGrowth]) -> JudgedBar:
    return GROWTH.judge({one.name: one.apart for one in found})


def _growth_section(found: Sequence[MeasuredGrowth]) -> Section:
    rows = [
        (
            one.name,
            str(one.width),
            f"{one.contexts[0]:,}–{one.contexts[-1]:,}",
            f"{general(one.seconds[0], 2)}–{general(one.seconds[-1], 2)} s",
            fixed(one.predicted),
            fixed(one.measured),
        )
        for one in found
    ]
    words = "The exponent of N fitted to the predicted FLOPs, and to the measured time, of one layer's training step."
    headings = ("", "D", "N", "time", "predicted", "measured")
    return table_section("Growth with the context", words, headings, rows)


@dataclass(frozen=True)
class CostPlan:
    """The measurements to make: shapes for memory, and two ranges of contexts."""

    shapes: tuple[Question, ...] = (
        Question(size="nano", batch_size=16, context_length=512, vocabulary_size=65),
        Question(size="mini", batch_size=8, vocabulary_size=5000),
        Question(size="mini", batch_size=8, vocabulary_size=5000, variant="sigmoid"),
        Question(size="mini", batch_size=4, vocabulary_size=65, recipe="fast"),
        Question(size="gpt2", batch_size=1, context_length=256),
    )
    growth: tuple[Regime, ...] = (
        Regime("N < D", 512, 8, 8, (32, 64, 128, 256)),
        Regime("N > D", 64, 1, 1, (2048, 4096, 8192, 16384)),
    )

    @classmethod
    def smoke(cls) -> CostPlan:
        """Return a plan so small that it takes no time and means nothing."""
        tiny = Question(size="pico", vocabulary_size=17, batch_size=1, context_length=8, num_layers=1)
        return cls((tiny,), (Regime("N < D", 16, 2, 1, (2, 4)), Regime("N > D", 8, 1, 1, (16, 32))))


@dataclass(frozen=True)
class MeasuredPeak:
    """The peak memory of a training step: predicted, and measured in a fresh process as the increase over its start."""

    what: str
    predicted: int
    measured: int

    @property
    def apart(self) -> float:
        """The larger ÷ the smaller."""
        return max(self.predicted, self.measured) / min(self.predicted, self.measured)


@dataclass(frozen=True)
class CostBench(Findings):
    """Predicted and measured costs, side by side."""

    benchmark: ClassVar[str] = "cost"
    title: ClassVar[str] = "Predicted cost and reality"
    lead: ClassVar[str] = "What attnlab predicts of memory and of growth, beside what this machine measures."

    peaks: tuple[MeasuredPeak, ...]
    growth: tuple[MeasuredGrowth, ...]

    def sections(self) -> list[Section]:
        rows = [
            (one.what, byte_count(one.predicted), byte_count(one.measured), fixed(one.measured / one.predicted, 3))
            for one in self.peaks
        ]
        words = "The most that a fresh process holds in two training steps, beyond what it held before."
        headings = ("", "predicted", "measured", "measured ÷ predicted")
        return [table_section("Peak memory of training", words, headings, rows), _growth_section(self.growth)]


def bench_cost(
    plan: CostPlan | None = None, threads: int | None = None, rounds: int = 5, listener: BenchListener | None = None
) -> CostBench:
    """Measure all that the plan says."""
    plan, listener, threads = plan or CostPlan(), NoteKeeper(listener), check_threads(threads)
    peaks = []
    for place, question in enumerate(plan.shapes):
        listener.step(f"memory of {_words(question)}", place, len(plan.shapes))
        found = CostEstimate(question, question.model())
        peaks.append(
            MeasuredPeak(_words(question), found.memory.peak, int(_asked(question, threads, "memory")["bytes"]))
        )
    with using_threads(threads):
        growth = measure_growth(plan.growth, rounds, listener)
        machine = describe_machine()
    memory = MEMORY.judge({one.what: one.apart for one in peaks}, {"shapes": len(peaks)})
    return CostBench(machine, rounds, tuple(listener.notes), (memory, judge_growth(growth)), tuple(peaks), growth)


def _words(question: Question) -> str:
    recipe = "" if question.recipe == "gpt2" else f" {question.recipe}"
    return (
        f"{question.size} {question.variant}{recipe}, {question.batch_size} × {question.shape.context_length}, "
        f"vocabulary {question.model().vocabulary_size}"
    )
