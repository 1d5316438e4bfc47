"""Training against the peers: speed, share of the peak, variants, memory, and grids of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from attnlab.attention import Variant
from attnlab.bench.races.entries import Peers
from attnlab.bench.races.grid_race import GridPlan, GridRace, race_grid
from attnlab.bench.races.shapes import MEMORY_SHAPE, VARIANTS_SHAPE, Shape, tiny
from attnlab.bench.races.speed import SpeedRace, race_training
from attnlab.bench.races.step_memory import StepPeak, judge_memory, memory_table, weigh_steps
from attnlab.bench.races.variant_steps import VariantStep, judge_variants, race_variants, variants_table
from attnlab.bench.results.findings import Findings, FoundTable
from attnlab.bench.results.judging import Outcome
from attnlab.bench.results.progress import Listener, Noting
from attnlab.bench.results.timing import check_rounds
from attnlab.processes.machine import describe_machine

_GRID_ROUNDS = 3  # at most: a round takes minutes


@dataclass(frozen=True)
class TrainPlan:
    """What is measured: shapes, variants, memory at a shape, a grid; what is left empty is not."""

    shapes: tuple[Shape, ...] = ()
    variants: tuple[Variant, ...] = ()
    variants_shape: Shape = VARIANTS_SHAPE
    memory: Shape | None = None
    grid: GridPlan | None = None
    rounds: int = 9
    turn_seconds: float = 2.0
    against: Path | None = None  # the `src` folder of another attnlab that is raced, too

    @classmethod
    def make(
        cls,
        shapes: Sequence[Shape],
        variants: Sequence[Variant],
        *,
        memory: bool,
        grid: bool,
        rounds: int,
        against: Path | None = None,
    ) -> TrainPlan:
        return cls(
            tuple(shapes),
            tuple(variants),
            memory=MEMORY_SHAPE if memory else None,
            grid=GridPlan() if grid else None,
            rounds=rounds,
            against=against,
        )

    def smoke(self) -> TrainPlan:
        """The same, so small that it takes no time and means nothing."""
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
    variants: tuple[VariantStep, ...]
    variants_shape: Shape
    memory: tuple[StepPeak, ...]
    memory_shape: Shape | None
    grid: GridRace | None

    def tables(self) -> list[FoundTable]:
        found = [race.table() for race in self.races]
        if self.variants:
            found.append(variants_table(self.variants, self.variants_shape))
        if self.memory_shape is not None:
            found.append(memory_table(self.memory, self.memory_shape))
        if self.grid is not None:
            found.append(self.grid.table())
        return found


def bench_train(plan: TrainPlan, peers: Peers, threads: int, listener: Listener | None = None) -> TrainBench:
    """Measure what the plan says, with so many processes or threads for each who takes part."""
    check_rounds(plan.rounds)
    ears, machine = Noting(listener, peers.missing), replace(describe_machine(), threads=threads)
    races = tuple(
        race_training(shape, peers, threads, plan.rounds, ears, plan.turn_seconds, plan.against)
        for shape in plan.shapes
    )
    variants = race_variants(plan.variants, plan.variants_shape, threads, plan.rounds, ears) if plan.variants else ()
    memory = weigh_steps(plan.memory, peers, threads, ears) if plan.memory is not None else ()
    grid = race_grid(plan.grid, threads, min(plan.rounds, _GRID_ROUNDS), ears) if plan.grid is not None else None
    outcomes: list[Outcome] = [outcome for race in races for outcome in race.outcomes()]
    outcomes += judge_variants(variants)
    outcomes += judge_memory(memory)
    outcomes += [grid.outcome()] if grid is not None else []
    return TrainBench(
        machine,
        plan.rounds,
        tuple(ears.notes),
        tuple(outcomes),
        races,
        variants,
        plan.variants_shape,
        memory,
        plan.memory,
        grid,
    )
