"""Training against the peers: speed, share of the peak, the variants' steps, memory, and grids of runs.

steps      the time of each variant's step ÷ softmax's, in this process, two models at a time
memory     the peak of a fresh process until the end of its second step, when the optimizer has its moments; some
           allocate them only at the end of the first
grid       many small runs side by side, one single-threaded process per core, against the same runs one after the other
           with all threads
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from attnlab.attention import Variant
from attnlab.bench.findings import Bar, BenchListener, Findings, JudgedBar, NoteKeeper, table_section, with_spread
from attnlab.bench.processes import MEBIBYTE, TreePeak
from attnlab.bench.races.contenders import make_engine
from attnlab.bench.races.race import (
    NANOGPT,
    NANOGPT_COMPILED,
    OURS,
    VARIANTS_SHAPE,
    Peers,
    RaceEntry,
    Shape,
    contestant,
    tiny,
)
from attnlab.bench.races.speed import SpeedRace, race_training
from attnlab.bench.timing import Call, Durations, Ratio, check_rounds, take_turns, turn_order
from attnlab.corpora import CorpusSpec, open_corpus
from attnlab.errors import AttnlabError, SpecError
from attnlab.experiments.launching.jobs import Job
from attnlab.experiments.launching.launcher import launcher
from attnlab.formats import NOTHING, fixed, significant
from attnlab.pages import Section
from attnlab.processes.machine import describe_machine, using_threads
from attnlab.processes.memory import keep_memory
from attnlab.storage.records import to_plain
from attnlab.training import RunSpec
from attnlab.training.execution import Execution

_TIMED = "time of a training step ÷ softmax's"
PLAIN = Bar("variants", "every variant but the next", _TIMED, 1.2)
SPARSE = Bar("variants-sparse", "sparsemax and entmax", _TIMED, 1.6)
FULL = Bar("variants-full", "values of the full model width", _TIMED, None)

_WEIGHED = "peak of resident memory ÷ the lower of nanoGPT eager and compiled"
ALONE = Bar("memory", "training GPT-2 small in one process, at the shape gpt2-memory", _WEIGHED, 0.6)
SEVERAL = Bar("memory-workers", "the same with a process for each core", _WEIGHED, None)

_GRID_ROUNDS = 3  # at most: a round takes minutes
SIDE, TURN = "side by side", "one after the other"
GRID = Bar(
    "grid",
    "runs of the size nano in processes of one thread, a process for each core",
    "time of the same runs one after the other with all threads ÷ side by side",
    1.25,
    at_least=True,
)


@dataclass(frozen=True)
class VariantStep:
    """One variant, and the bar that applies to it."""

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
    """The peak memory of one contestant, summed over its processes."""

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
                outcomes.append(bar.judge({OURS: ours[0] / theirs} if theirs else {}))
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


@dataclass(frozen=True)
class GridPlan:
    """The number of runs, and their steps."""

    runs: int = 8
    steps: int = 300
    corpus: CorpusSpec = field(default_factory=CorpusSpec)
    changes: Mapping[str, int] = field(default_factory=dict)  # to the size nano

    @classmethod
    def smoke(cls) -> GridPlan:
        """Return a plan so small that a measurement takes no time and means nothing."""
        tiny = {"num_layers": 1, "model_width": 16, "num_heads": 2, "context_length": 32, "validation_rows": 4}
        return cls(2, 2, CorpusSpec(name="mqar", vocabulary_size=32), tiny)

    def specs(self) -> list[RunSpec]:
        nano = RunSpec(size="nano", corpus=self.corpus, steps=self.steps)
        return [nano.replace(seed=seed, **self.changes) for seed in range(self.runs)]


@dataclass(frozen=True)
class GridRace:
    """Seconds of all runs together, including the start of their processes."""

    runs: int
    steps: int
    processes: int
    side_by_side_seconds: float
    in_turn_seconds: float
    gain: Ratio

    def judged(self) -> list[JudgedBar]:
        return [GRID.judge({f"{self.runs} runs": self.gain})]

    def section(self) -> Section:
        rows = [
            (SIDE, str(self.processes), "1", significant(self.side_by_side_seconds), with_spread(self.gain)),
            (TURN, "1", str(self.processes), significant(self.in_turn_seconds), ""),
        ]
        words = f"{self.runs} runs of the size nano, {self.steps} steps each, from the start of the first process."
        return table_section("A grid of runs", words, ("", "processes", "threads", "seconds", "× as fast"), rows)


def race_grid(plan: GridPlan, threads: int, rounds: int, listener: BenchListener) -> GridRace:
    """Time all runs in both ways in each round."""
    open_corpus(plan.corpus)  # so that only training is timed
    seconds: dict[str, list[float]] = {SIDE: [], TURN: []}
    ways = {SIDE: (threads, 1), TURN: (1, threads)}
    with tempfile.TemporaryDirectory(prefix="attnlab-grid-") as folder:
        for round_number in range(rounds):
            for name in turn_order(list(ways), round_number):
                listener.step(f"grid: {name}", round_number, rounds)
                seconds[name].append(_seconds(plan, Path(folder) / f"{round_number} {name}", *ways[name]))
    durations = Durations({name: tuple(values) for name, values in seconds.items()})
    return GridRace(
        plan.runs,
        plan.steps,
        threads,
        durations.median(SIDE),
        durations.median(TURN),
        durations.ratio(TURN, SIDE),
    )


def _seconds(plan: GridPlan, out: Path, processes: int, threads: int) -> float:
    jobs = [Job(number, spec, out) for number, spec in enumerate(plan.specs())]
    begin = time.perf_counter()
    results = launcher("local", processes, threads).run(jobs)
    seconds = time.perf_counter() - begin
    for one in results:
        if one.result is None or one.result.outcome != "finished":
            problem = one.problem or (one.result and one.result.message)
            raise AttnlabError(f"a run of the grid failed, so nothing can be said of its speed: {problem}")
    return seconds


@dataclass(frozen=True)
class TrainPlan:
    """The shapes and variants to train, the shape whose memory is measured, and the grid; empty ones are skipped."""

    shapes: tuple[Shape, ...] = ()
    variants: tuple[Variant, ...] = ()
    variants_shape: Shape = VARIANTS_SHAPE
    memory: Shape | None = None
    grid: GridPlan | None = None
    rounds: int = 9
    turn_seconds: float = 2.0
    against: Path | None = None  # the `src` folder of another attnlab that also races

    def smoke(self) -> TrainPlan:
        """Return the same plan, so small that it takes no time and means nothing."""
        return replace(
            self,
            shapes=tuple(tiny(shape) for shape in self.shapes),
            variants_shape=tiny(self.variants_shape),
            memory=None if self.memory is None else tiny(self.memory),
            grid=None if self.grid is None else GridPlan.smoke(),
            turn_seconds=0.01,
        )


@dataclass(frozen=True)
class TrainBench(Findings):
    """All results of one run."""

    benchmark: ClassVar[str] = "train"
    title: ClassVar[str] = "Training against the peers"
    lead: ClassVar[str] = "How fast attnlab trains GPT-2's architecture on this machine, beside others in the same run."

    races: tuple[SpeedRace, ...]
    variants: VariantSteps | None
    memory: StepMemory | None
    grid: GridRace | None

    def sections(self) -> list[Section]:
        parts = (*self.races, self.variants, self.memory, self.grid)
        return [part.section() for part in parts if part is not None]

    def to_dict(self) -> dict[str, object]:
        variants, memory = self.variants, self.memory
        return {
            **super().to_dict(),
            "variants": [] if variants is None else to_plain(variants.steps),
            "variants_shape": None if variants is None else to_plain(variants.shape),
            "memory": [] if memory is None else to_plain(memory.peaks),
            "memory_shape": None if memory is None else to_plain(memory.shape),
        }


def bench_train(plan: TrainPlan, peers: Peers, threads: int, listener: BenchListener | None = None) -> TrainBench:
    """Run the measurements of the plan, with `threads` processes or threads for each contestant.

    Parameters
    ----------
    plan
        What to measure, and how often.
    peers
        The implementations to measure against, of `find_peers`.
    threads
        Processes of attnlab, and threads of each peer.
    listener
        Called with the progress; None reports nothing.
    """
    check_rounds(plan.rounds)
    keeper, machine = NoteKeeper(listener, peers.missing), replace(describe_machine(), threads=threads)
    races = tuple(
        race_training(shape, peers, threads, plan.rounds, keeper, plan.turn_seconds, plan.against)
        for shape in plan.shapes
    )
    variants = memory = grid = None
    if plan.variants:
        variants = race_variants(plan.variants, plan.variants_shape, threads, plan.rounds, keeper)
    if plan.memory is not None:
        memory = weigh_steps(plan.memory, peers, threads, keeper)
    if plan.grid is not None:
        grid = race_grid(plan.grid, threads, min(plan.rounds, _GRID_ROUNDS), keeper)
    bars = tuple(bar for part in (*races, variants, memory, grid) if part is not None for bar in part.judged())
    return TrainBench(machine, plan.rounds, tuple(keeper.notes), bars, races, variants, memory, grid)
