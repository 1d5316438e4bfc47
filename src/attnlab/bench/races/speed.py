"""The speed of training and generation: attnlab and its peers side by side, and its share of the machine's peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from attnlab.bench.findings import Bar, BenchListener, Findings, JudgedBar, NoteKeeper, table_section, with_spread
from attnlab.bench.races.race import (
    GENERATION_SHAPE,
    MATMUL,
    NANOGPT,
    NANOGPT_COMPILED,
    ONE_EACH,
    OTHER,
    OURS,
    TRANSFORMERS,
    Peers,
    Race,
    RaceEntry,
    Shape,
    race,
    tiny,
)
from attnlab.bench.timing import Ratio, check_rounds
from attnlab.cost import model_cost
from attnlab.formats import NOTHING, count, fixed, significant
from attnlab.pages import Section
from attnlab.processes.machine import describe_machine

_HOW = "tokens per second ÷ the better of nanoGPT eager and compiled"
SPEED = {
    name: Bar(f"speed-{name}", f"training at the shape {name}", _HOW, limit, at_least=True)
    for name, limit in (("small", 1.2), ("mini", 1.1), ("gpt2", 1.3))
}
VERSION = Bar(
    "speed-rung",
    "training at the shape rung, one model on each core",
    "tokens per second ÷ those of the version before",
    1.1,
    at_least=True,
)
SHARE = Bar(
    "peak-share",
    "training at the shape mini",
    "multiply–adds per second that causal attention needs ÷ the best rate of float32 matrix products",
    0.8,
    at_least=True,
)
SHARE_SHAPE = "mini"
GENERATION = Bar(
    "generate",
    "generating one text at the shape mini",
    "tokens per second ÷ Transformers with its cache",
    2.5,
    at_least=True,
)


@dataclass(frozen=True)
class Runner:
    """The speed of one contestant."""

    name: str
    step_seconds: float
    tokens_per_second: float
    beginning_seconds: float  # including the first step and everything that is done once, such as compiling
    ours_over_it: Ratio  # how many times as fast attnlab is


@dataclass(frozen=True)
class SpeedRace:
    """The results at one shape. `better_nanogpt` is the faster of its two forms, if nanoGPT took part.

    `cores` is the number that attnlab used, `models` the number that it trained on them at the same time.
    """

    shape: Shape
    cores: int
    models: int
    useful_flops: int  # of a step
    runners: tuple[Runner, ...]
    better_nanogpt: str | None
    share_of_peak: Ratio

    @property
    def gflops_per_core(self) -> float:
        """Return the rate at which attnlab does the multiply–adds that training needs, in GFLOP/s of one core."""
        ours = next(one for one in self.runners if one.name == OURS)
        return self.useful_flops * ours.tokens_per_second / self.shape.tokens / self.cores / 1e9

    def judged(self) -> list[JudgedBar]:
        if self.shape.name in ONE_EACH:
            return [VERSION.judge({one.name: one.ours_over_it for one in self.runners if one.name == OTHER})]
        better = {one.name: one.ours_over_it for one in self.runners if one.name == self.better_nanogpt}
        found = [SPEED[self.shape.name].judge(better)]
        if self.shape.name == SHARE_SHAPE:
            found.append(SHARE.judge({OURS: self.share_of_peak}))
        return found

    def section(self) -> Section:
        rows = [
            (
                one.name,
                count(one.tokens_per_second),
                significant(one.step_seconds * 1000),
                NOTHING if one.name == OURS else with_spread(one.ours_over_it),
                significant(one.beginning_seconds),
            )
            for one in self.runners
        ]
        at_once = f", {self.models} models at once with one thread each" if self.models > 1 else ""
        words = (
            f"{self.shape}{at_once}. attnlab reaches {with_spread(self.share_of_peak)} of the best rate of "
            f"float32 matrix products, {fixed(self.gflops_per_core, 1)} GFLOP/s a core, counting only the "
            "multiply–adds that causal attention needs. The beginning has everything up to the end of the first "
            "step, compilation too."
        )
        headings = ("", "tokens/s", "ms a step", "attnlab is\n× as fast", "beginning\ns")
        return table_section(f"Training, {self.shape.name}", words, headings, rows)


def race_training(
    shape: Shape,
    peers: Peers,
    threads: int,
    rounds: int,
    listener: BenchListener,
    turn_seconds: float,
    against: Path | None = None,
) -> SpeedRace:
    """Race attnlab with `threads` processes of one thread against peers with one process of `threads` threads.

    The processes of attnlab train one model together, or one each for the shapes of `ONE_EACH`. `against` is the `src`
    folder of another attnlab that takes part in the same way.
    """
    models = threads if shape.name in ONE_EACH else 1
    ours = RaceEntry(kind="attnlab", shape=shape, threads=1, workers=threads // models, copies=models)
    others = [] if against is None else [ours.model_copy(update={"folder": str(against)})]
    matmul = RaceEntry(kind="matmul", shape=shape, threads=threads)
    entries = [ours, *others, *peers.entries(shape, threads), matmul]
    found = race(entries, "train", rounds, listener, turn_seconds=turn_seconds, what=shape.name)
    return read_race(shape, [entry.name for entry in entries if entry is not matmul], found, threads, models)


def read_race(shape: Shape, names: Sequence[str], found: Race, cores: int = 1, models: int = 1) -> SpeedRace:
    """Return the figures that durations make: those of one step by all models that are trained at the same time."""
    durations = found.durations
    runners = tuple(
        Runner(
            name,
            durations.median(name) * (models if name in (OURS, OTHER) else 1),
            shape.tokens / durations.median(name),
            found.beginnings[name],
            durations.ratio(name, OURS),
        )
        for name in names
    )
    nanogpt = [one for one in runners if one.name in (NANOGPT, NANOGPT_COMPILED)]
    better = min(nanogpt, key=lambda one: one.step_seconds).name if nanogpt else None
    flops = model_cost(shape.model(), batch=shape.batch_size).useful_training_flops
    return SpeedRace(shape, cores, models, flops, runners, better, durations.ratio(MATMUL, OURS))


@dataclass(frozen=True)
class GenerationPlan:
    """The number of tokens to generate after one given token, and the rounds."""

    shape: Shape = GENERATION_SHAPE
    tokens: int = 200
    rounds: int = 15
    turn_seconds: float = 1.0

    def smoke(self) -> GenerationPlan:
        """Return the same plan, so small that it takes no time and means nothing."""
        return replace(self, shape=replace(tiny(self.shape), batch_size=1), tokens=12, turn_seconds=0.01)


@dataclass(frozen=True)
class GenerationSpeed:
    """The speed of one contestant."""

    name: str
    tokens_per_second: float
    ours_over_it: Ratio  # how many times as fast attnlab is


@dataclass(frozen=True)
class GenerateBench(Findings):
    """All results of one run."""

    benchmark: ClassVar[str] = "generate"
    title: ClassVar[str] = "Generation against the peers"
    lead: ClassVar[str] = "How fast attnlab generates with GPT-2's architecture on this machine, beside others."

    shape: Shape
    tokens: int
    writers: tuple[GenerationSpeed, ...]

    def sections(self) -> list[Section]:
        rows = [
            (
                one.name,
                significant(one.tokens_per_second),
                NOTHING if one.name == OURS else with_spread(one.ours_over_it),
            )
            for one in self.writers
        ]
        words = (
            f"{self.shape}. {self.tokens} tokens drawn one by one after a single one. Transformers keeps keys and "
            "values as attnlab does; nanoGPT has no cache."
        )
        return [table_section("Generation", words, ("", "tokens/s", "attnlab is\n× as fast"), rows)]


def bench_generate(
    plan: GenerationPlan, peers: Peers, threads: int, listener: BenchListener | None = None
) -> GenerateBench:
    """Measure every contestant with one process of `threads` threads.

    Parameters
    ----------
    plan
        What to measure, and how often.
    peers
        The implementations to measure against, of `find_peers`.
    threads
        Threads of each process.
    listener
        Called with the progress; None reports nothing.
    """
    check_rounds(plan.rounds)
    keeper, machine = NoteKeeper(listener, peers.missing), replace(describe_machine(), threads=threads)
    shape = plan.shape
    entries = [RaceEntry(kind="attnlab", shape=shape, threads=threads), *peers.entries(shape, threads, compile=False)]
    found = race(
        entries,
        "write",
        plan.rounds,
        keeper,
        turn_seconds=plan.turn_seconds,
        tokens=plan.tokens,
        what="generation",
    )
    writers = read_speeds([entry.name for entry in entries], found, plan.tokens)
    ratios = {one.name: one.ours_over_it for one in writers if one.name == TRANSFORMERS}
    return GenerateBench(
        machine, plan.rounds, tuple(keeper.notes), (GENERATION.judge(ratios),), shape, plan.tokens, writers
    )


def read_speeds(names: Sequence[str], found: Race, tokens: int) -> tuple[GenerationSpeed, ...]:
    """Return the figures from durations of a whole text."""
    durations = found.durations
    return tuple(GenerationSpeed(name, tokens / durations.median(name), durations.ratio(name, OURS)) for name in names)
