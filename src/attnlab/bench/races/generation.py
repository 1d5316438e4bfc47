"""Generation against the peers: one text, one token after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from attnlab.bench.races.entries import GENERATION_SHAPE, OURS, TRANSFORMERS, Peers, RaceEntry, Shape, tiny
from attnlab.bench.races.race import Race, race
from attnlab.bench.results.findings import BenchListener, Findings, NoteKeeper, table_section, with_spread
from attnlab.bench.results.judging import Bar
from attnlab.bench.results.timing import Ratio, check_rounds
from attnlab.formats import NOTHING, significant
from attnlab.pages import Section
from attnlab.processes.machine import describe_machine

GENERATION = Bar(
    "generate",
    "generating one text at the shape mini",
    "tokens per second ÷ Transformers with its cache",
    2.5,
    at_least=True,
)


@dataclass(frozen=True)
class GenerationPlan:
    """The tokens that are generated after one that is given."""

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
    """All that one run measured."""

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
    """Measure every contestant with one process of `threads` threads."""
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


def read_speeds(names: list[str], found: Race, tokens: int) -> tuple[GenerationSpeed, ...]:
    """Return the figures from durations of a whole text."""
    durations = found.durations
    return tuple(GenerationSpeed(name, tokens / durations.median(name), durations.ratio(name, OURS)) for name in names)
