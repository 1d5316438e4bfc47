"""Predicted cost beside the measured: peak memory of training, and how time grows with the context."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from attnlab.bench.products.growth import GrowthPlan, MeasuredGrowth, growth_table, judge_growth, measure_growth
from attnlab.bench.races.entries import check_threads
from attnlab.bench.results.findings import Findings, FoundTable
from attnlab.bench.results.judging import Claim, Outcome, judge_claim
from attnlab.bench.results.progress import Listener, Noting
from attnlab.bench.results.timing import Ratio
from attnlab.cost import CostEstimate, MachineRates, MeasuredCost, Question
from attnlab.formats import byte_count
from attnlab.processes.child import Child, ChildError
from attnlab.processes.machine import describe_machine, matmul_peak, using_threads

MODULE = "attnlab.bench.products.cost_process"
_ROOM = 0.85  # of the memory that is free now
_PATIENCE = 120.0  # seconds that one step may be predicted to take
_READ = 1 << 26  # numbers that are read to measure the memory's rate

MEMORY = Claim(
    "memory",
    "peak memory of a training step at {shapes} shapes",
    "the larger of measured and predicted ÷ the smaller",
    1.15,
)


def measure_costs(
    estimates: Sequence[CostEstimate], threads: int | None = None, listener: Listener | None = None
) -> tuple[MeasuredCost, ...]:
    """Run each model here, in processes of its own; what would not fit is refused, with the reason."""
    listener, threads = listener or Listener(), check_threads(threads)
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
    """Why a model cannot be run here; empty if it can."""
    question, peak = wanted.estimate.question, wanted.estimate.memory.peak
    if question.bytes_per_number != 4:
        return f"only float32 is measured, and {question.bytes_per_number} bytes a number were asked for"
    free = free_bytes()
    if free is not None and peak > _ROOM * free:
        return f"training would take {byte_count(peak)}, and {byte_count(free)} are free here"
    seconds = wanted.predicted_step_seconds
    if seconds > _PATIENCE:
        return f"one training step would take at least {seconds:,.0f} s here, and {_PATIENCE:.0f} s are waited at most"
    return ""


def free_bytes() -> int | None:
    """The memory that a new process may take now; None where the system does not say."""
    listing = Path("/proc/meminfo")
    if not listing.is_file():
        return describe_machine().memory_bytes
    told = re.search(r"^MemAvailable:\s+(\d+) kB$", listing.read_text(encoding="utf-8"), re.MULTILINE)
    limit = describe_machine().memory_bytes
    if told is None:
        return limit
    return int(told[1]) * 1024 if limit is None else min(limit, int(told[1]) * 1024)


def machine_rates(threads: int) -> MachineRates:
    """The best rates of matrix products and of reading memory, measured for less than a second."""
    with using_threads(threads):
        numbers = torch.ones(_READ)
        numbers.sum()
        best, end = 0.0, time.perf_counter() + 0.3
        while (begin := time.perf_counter()) < end:
            numbers.sum()
            best = max(best, numbers.nbytes / (time.perf_counter() - begin))
    return MachineRates(matmul_peak(threads), best)


def _asked(question: Question, threads: int, what: str) -> dict[str, Any]:
    name = f"the process that measures {question.size} {question.variant}"
    with Child(MODULE, [question.model_dump_json(), str(threads)], name=name) as child:
        return child.ask(do=what)


@dataclass(frozen=True)
class CostPlan:
    """What is measured: shapes for memory, and two ranges of contexts."""

    shapes: tuple[Question, ...] = (
        Question(size="nano", batch_size=16, context_length=512, vocabulary_size=65),
        Question(size="mini", batch_size=8, vocabulary_size=5000),
        Question(size="mini", batch_size=8, vocabulary_size=5000, variant="sigmoid"),
        Question(size="mini", batch_size=4, vocabulary_size=65, recipe="fast"),
        Question(size="gpt2", batch_size=1, context_length=256),
    )
    growth: GrowthPlan = field(default_factory=GrowthPlan)

    def smoke(self) -> CostPlan:
        """The same, so small that it takes no time and means nothing."""
        tiny = Question(size="pico", vocabulary_size=17, batch_size=1, context_length=8, num_layers=1)
        return CostPlan((tiny,), self.growth.smoke())


@dataclass(frozen=True)
class MeasuredPeak:
    """The peak of a training step: predicted, and held by a fresh process beyond what it held before."""

    what: str
    predicted: int
    measured: int

    @property
    def apart(self) -> float:
        """The larger ÷ the smaller."""
        return max(self.predicted, self.measured) / min(self.predicted, self.measured)


@dataclass(frozen=True)
class CostBench(Findings):
    """Predicted and measured, side by side."""

    benchmark: ClassVar[str] = "cost"
    title: ClassVar[str] = "Predicted cost and reality"
    lead: ClassVar[str] = "What attnlab predicts of memory and of growth, beside what this machine measures."

    peaks: tuple[MeasuredPeak, ...]
    growth: tuple[MeasuredGrowth, ...]

    def tables(self) -> list[FoundTable]:
        rows = [
            (one.what, byte_count(one.predicted), byte_count(one.measured), f"{one.measured / one.predicted:.3f}")
            for one in self.peaks
        ]
        words = "The most that a fresh process holds in two training steps, beyond what it held before."
        headings = ("", "predicted", "measured", "measured ÷ predicted")
        return [FoundTable("Peak memory of training", words, headings, rows), growth_table(self.growth)]

    def to_dict(self) -> dict[str, Any]:
        return {"benchmark": self.benchmark, "all_met": self.all_met, **asdict(self)}


def bench_cost(
    plan: CostPlan | None = None, threads: int | None = None, rounds: int = 5, listener: Listener | None = None
) -> CostBench:
    """Measure all that the plan says."""
    plan, listener, threads = plan or CostPlan(), Noting(listener), check_threads(threads)
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
    bars: list[Outcome] = [
        judge_claim(MEMORY, {one.what: Ratio.exact(one.apart) for one in peaks}, {"shapes": len(peaks)}),
        judge_growth(growth),
    ]
    return CostBench(machine, rounds, tuple(listener.notes), tuple(bars), tuple(peaks), growth)


def _words(question: Question) -> str:
    recipe = "" if question.recipe == "gpt2" else f" {question.recipe}"
    return (
        f"{question.size} {question.variant}{recipe}, {question.batch_size} × {question.shape.context_length}, "
        f"vocabulary {question.vocabulary_size}"
    )
