"""Training steps: the time of each variant's over softmax's, and the memory that training takes.

Times are measured in this process, two models at a time. Memory is the most that a fresh process holds until the end of
its second step, in which the optimizer has its moments; some make them only at the end of the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attnlab.attention import Variant
from attnlab.bench.races.contenders import make_engine
from attnlab.bench.races.entries import NANOGPT, NANOGPT_COMPILED, OURS, Peers, RaceEntry, Shape
from attnlab.bench.races.race import contestant
from attnlab.bench.results.findings import BenchListener, table_section, with_spread
from attnlab.bench.results.judging import Bar, JudgedBar
from attnlab.bench.results.memory import MEBIBYTE, TreePeak
from attnlab.bench.results.timing import Call, Ratio, take_turns
from attnlab.errors import SpecError
from attnlab.formats import NOTHING, fixed
from attnlab.pages import Section
from attnlab.processes.machine import using_threads
from attnlab.training.execution import Execution, keep_memory

_TIMED = "time of a training step ÷ softmax's"
PLAIN = Bar("variants", "every variant but the next", _TIMED, 1.2)
SPARSE = Bar("variants-sparse", "sparsemax and entmax", _TIMED, 1.6)
FULL = Bar("variants-full", "values that no head narrows", _TIMED, None)

_WEIGHED = "peak of resident memory ÷ the lower of nanoGPT eager and compiled"
ALONE = Bar("memory", "training GPT-2 small in one process, at the shape gpt2-memory", _WEIGHED, 0.6)
SEVERAL = Bar("memory-workers", "the same with a process for each core", _WEIGHED, None)


@dataclass(frozen=True)
class VariantStep:
    """One variant, and the bar that concerns it."""

    name: str
    claim: str
    over_softmax: Ratio


@dataclass(frozen=True)
class VariantSteps:
    """The training steps of all variants at one shape."""

    shape: Shape
    steps: tuple[VariantStep, ...]

    def judged(self) -> list[JudgedBar]:
        """Judge the bars that concern some of the variants."""
        outcomes = []
        for bar in (PLAIN, SPARSE, FULL):
            ratios = {step.name: step.over_softmax for step in self.steps if step.claim == bar.name}
            if ratios:
                outcomes.append(bar.judge(ratios))
        return outcomes

    def section(self) -> Section:
        ordered = sorted(self.steps, key=lambda step: step.over_softmax.median)
        rows = [(step.name, with_spread(step.over_softmax)) for step in ordered]
        words = f"{self.shape}. Times of one training step ÷ that of softmax, in one process."
        return table_section("Training steps of the variants", words, ("variant", "÷ softmax"), rows)


def race_variants(
    variants: Sequence[Variant], shape: Shape, threads: int, rounds: int, listener: BenchListener
) -> VariantSteps:
    """Time a step of all variants that a decoder can have, with one process of `threads` threads."""
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
            found.append(VariantStep(variant.name, bar_of(variant, shape).name, turns.ratio("variant", "softmax")))
    return VariantSteps(shape, tuple(found))


def bar_of(variant: Variant, shape: Shape) -> Bar:
    """Return the bar that concerns a variant."""
    spec = shape.model(variant.name).attention[0]
    if spec.value_map == "full":
        return FULL
    return SPARSE if spec.operator is None and spec.normaliser.order is not None else PLAIN


def _stepping(variant: str, shape: Shape, threads: int) -> Call:
    engine = make_engine(shape, Execution(threads=threads), variant=variant)
    numbers = iter(range(1_000_000))
    return lambda: engine.step(next(numbers))


@dataclass(frozen=True)
class StepPeak:
    """The most that one contestant held; of several processes together if there are any."""

    name: str
    processes: int
    bytes: int


@dataclass(frozen=True)
class StepMemory:
    """The memory of training at one shape."""

    shape: Shape
    peaks: tuple[StepPeak, ...]

    @property
    def _nanogpt(self) -> int | None:
        """The bytes of the lower of nanoGPT eager and compiled."""
        return min((one.bytes for one in self.peaks if one.name in (NANOGPT, NANOGPT_COMPILED)), default=None)

    def judged(self) -> list[JudgedBar]:
        outcomes, theirs = [], self._nanogpt
        for bar, several in ((ALONE, False), (SEVERAL, True)):
            ours = [one.bytes for one in self.peaks if one.name == OURS and (one.processes > 1) == several]
            if ours:
                outcomes.append(bar.judge({OURS: Ratio.exact(ours[0] / theirs)} if theirs else {}))
        return outcomes

    def section(self) -> Section:
        theirs = self._nanogpt
        rows = [
            (
                one.name,
                str(one.processes),
                fixed(one.bytes / MEBIBYTE, 0),
                fixed(one.bytes / theirs) if theirs else NOTHING,
            )
            for one in self.peaks
        ]
        words = f"{self.shape}. The most that a fresh process and all that it started held until its second step ended."
        return table_section("Memory of training", words, ("", "processes", "peak MiB", "÷ nanoGPT"), rows)


def weigh_steps(shape: Shape, peers: Peers, threads: int, listener: BenchListener) -> StepMemory:
    """Measure attnlab in one process and in several, and its peers."""
    alone = RaceEntry(kind="attnlab", shape=shape, threads=threads)
    several = RaceEntry(kind="attnlab", shape=shape, threads=1, workers=threads)
    entries = [alone, *([several] if threads > 1 else []), *peers.entries(shape, threads)]
    found = []
    for done, entry in enumerate(entries):
        processes = f" in {entry.workers} processes" if entry.workers > 1 else ""
        listener.step(f"memory: {entry.name}{processes}", done, len(entries))
        found.append(StepPeak(entry.name, entry.workers, _peak(entry)))
    return StepMemory(shape, tuple(found))


def _peak(entry: RaceEntry) -> int:
    with contestant(entry) as child:
        if entry.workers == 1:
            child.ask(do="train", count=2)
            return int(child.ask(do="peak")["bytes"])
        with TreePeak(child.pid) as peak:
            child.ask(do="train", count=2)
        return peak.bytes
