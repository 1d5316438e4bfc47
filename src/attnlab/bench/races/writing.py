"""Writing against the peers: one text, one token after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from attnlab.bench.races.entries import OURS, TRANSFORMERS, Entry, Peers
from attnlab.bench.races.race import Race, race
from attnlab.bench.races.shapes import WRITING_SHAPE, Shape, tiny
from attnlab.bench.results.findings import Findings, FoundTable
from attnlab.bench.results.judging import Claim, judge_claim
from attnlab.bench.results.progress import Listener, Noting
from attnlab.bench.results.report import NOTHING, number, with_spread
from attnlab.bench.results.timing import Ratio, check_rounds
from attnlab.processes.machine import describe_machine

CLAIM = Claim(
    "generate",
    "writing one text at the shape mini",
    "tokens per second ÷ Transformers with its cache",
    2.5,
    at_least=True,
)


@dataclass(frozen=True)
class WritePlan:
    """How much is written in a text, behind one token that is given."""

    shape: Shape = WRITING_SHAPE
    tokens: int = 200
    rounds: int = 15
    turn_seconds: float = 1.0

    def smoke(self) -> WritePlan:
        """The same, so small that it takes no time and means nothing."""
        return replace(self, shape=replace(tiny(self.shape), batch_size=1), tokens=12, turn_seconds=0.01)


@dataclass(frozen=True)
class Writer:
    """How one who took part did."""

    name: str
    tokens_per_second: float
    ours_over_it: Ratio  # how many times as fast attnlab is


@dataclass(frozen=True)
class GenerateBench(Findings):
    """All that one run measured."""

    benchmark: ClassVar[str] = "generate"
    title: ClassVar[str] = "Writing against the peers"
    lead: ClassVar[str] = "How fast attnlab writes with GPT-2's architecture on this machine, beside others."

    shape: Shape
    tokens: int
    writers: tuple[Writer, ...]

    def tables(self) -> list[FoundTable]:
        rows = [
            (one.name, number(one.tokens_per_second), NOTHING if one.name == OURS else with_spread(one.ours_over_it))
            for one in self.writers
        ]
        words = (
            f"{self.shape}. {self.tokens} tokens drawn one by one behind a single one. Transformers keeps keys and "
            "values as attnlab does; nanoGPT has no cache."
        )
        return [FoundTable("Writing", words, ("", "tokens/s", "attnlab is\n× as fast"), rows)]


def bench_generate(plan: WritePlan, peers: Peers, threads: int, listener: Listener | None = None) -> GenerateBench:
    """Everybody with one process of `threads` threads."""
    check_rounds(plan.rounds)
    ears, machine = Noting(listener, peers.missing), replace(describe_machine(), threads=threads)
    shape = plan.shape
    entries = [Entry(kind="attnlab", shape=shape, threads=threads), *peers.entries(shape, threads, compile=False)]
    found = race(
        entries,
        "write",
        plan.rounds,
        ears,
        turn_seconds=plan.turn_seconds,
        tokens=plan.tokens,
        what="writing",
    )
    writers = read_writers([entry.name for entry in entries], found, plan.tokens)
    ratios = {one.name: one.ours_over_it for one in writers if one.name == TRANSFORMERS}
    outcome = judge_claim(CLAIM, ratios)
    return GenerateBench(machine, plan.rounds, tuple(ears.notes), (outcome,), shape, plan.tokens, writers)


def read_writers(names: list[str], found: Race, tokens: int) -> tuple[Writer, ...]:
    """The figures that durations of a whole text make."""
    durations = found.durations
    return tuple(Writer(name, tokens / durations.median(name), durations.ratio(name, OURS)) for name in names)
