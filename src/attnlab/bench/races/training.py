"""Training against the peers: speed, share of the peak, variants, memory, and grids of runs.

A grid is many small runs side by side, a process with one thread for each core, against one after the other with all
threads.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from attnlab.attention import Variant
from attnlab.bench.races.entries import VARIANTS_SHAPE, Peers, Shape, tiny
from attnlab.bench.races.speed import SpeedRace, race_training
from attnlab.bench.races.steps import StepMemory, VariantSteps, race_variants, weigh_steps
from attnlab.bench.results.findings import BenchListener, Findings, NoteKeeper, table_section, with_spread
from attnlab.bench.results.judging import Bar, JudgedBar
from attnlab.bench.results.timing import Durations, Ratio, check_rounds, turn_order
from attnlab.corpora import CorpusSpec, open_corpus
from attnlab.errors import AttnlabError
from attnlab.experiments.launching.jobs import Job
from attnlab.experiments.launching.launcher import launcher
from attnlab.formats import significant
from attnlab.pages import Section
from attnlab.processes.machine import describe_machine
from attnlab.storage.records import to_plain
from attnlab.training import RunSpec

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
class GridPlan:
    """How many runs, of how many steps."""

    runs: int = 8
    steps: int = 300
    corpus: CorpusSpec = field(default_factory=CorpusSpec)
    changes: Mapping[str, int] = field(default_factory=dict)  # of the size nano

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
    """Seconds of all runs together, the start of their processes included."""

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
    """The shapes and variants to train, the shape whose memory is measured, and the grid; what is empty is left out."""

    shapes: tuple[Shape, ...] = ()
    variants: tuple[Variant, ...] = ()
    variants_shape: Shape = VARIANTS_SHAPE
    memory: Shape | None = None
    grid: GridPlan | None = None
    rounds: int = 9
    turn_seconds: float = 2.0
    against: Path | None = None  # the `src` folder of another attnlab that is raced, too

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
    """All that one run measured."""

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
    """Measure what the plan says, with so many processes or threads for each contestant."""
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
