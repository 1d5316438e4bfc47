"""The memory that training takes: the most that a fresh process holds until the end of its second step.

In the second step the optimizer has its moments, which some make only at the end of the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attnlab.bench.kernels.memory import MEBIBYTE
from attnlab.bench.races.entries import NANOGPT, NANOGPT_COMPILED, OURS, Entry, Peers
from attnlab.bench.races.race import contestant
from attnlab.bench.races.shapes import Shape
from attnlab.bench.results.findings import FoundTable
from attnlab.bench.results.judging import Claim, Outcome, judge_claim
from attnlab.bench.results.progress import Listener
from attnlab.bench.results.report import NOTHING
from attnlab.bench.results.resident import TreePeak
from attnlab.bench.results.timing import Ratio

_HOW = "peak of resident memory ÷ the lower of nanoGPT eager and compiled"
ALONE = Claim("memory", "training GPT-2 small in one process, at the shape gpt2-memory", _HOW, 0.6)
TEAM = Claim("memory-workers", "the same with a process for each core", _HOW, None)


@dataclass(frozen=True)
class StepPeak:
    """The most that one who took part held; of several processes together if there are any."""

    name: str
    processes: int
    bytes: int


def weigh_steps(shape: Shape, peers: Peers, threads: int, listener: Listener) -> tuple[StepPeak, ...]:
    """attnlab in one process and in several, and its peers."""
    alone = Entry(kind="attnlab", shape=shape, threads=threads)
    team = Entry(kind="attnlab", shape=shape, threads=1, workers=threads)
    entries = [alone, *([team] if threads > 1 else []), *peers.entries(shape, threads)]
    found = []
    for done, entry in enumerate(entries):
        several = f" in {entry.workers} processes" if entry.workers > 1 else ""
        listener.step(f"memory: {entry.name}{several}", done, len(entries))
        found.append(StepPeak(entry.name, entry.workers, _peak(entry)))
    return tuple(found)


def _peak(entry: Entry) -> int:
    with contestant(entry) as child:
        if entry.workers == 1:
            child.ask(do="train", count=2)
            return int(child.ask(do="peak")["bytes"])
        with TreePeak(child.pid) as peak:
            child.ask(do="train", count=2)
        return peak.bytes


def judge_memory(peaks: Sequence[StepPeak]) -> list[Outcome]:
    nanogpt = [peak.bytes for peak in peaks if peak.name in (NANOGPT, NANOGPT_COMPILED)]
    outcomes = []
    for claim, several in ((ALONE, False), (TEAM, True)):
        ours = [peak.bytes for peak in peaks if peak.name == OURS and (peak.processes > 1) == several]
        if ours:
            ratios = {OURS: Ratio.exact(ours[0] / min(nanogpt))} if nanogpt else {}
            outcomes.append(judge_claim(claim, ratios))
    return outcomes


def memory_table(peaks: Sequence[StepPeak], shape: Shape) -> FoundTable:
    nanogpt = [peak.bytes for peak in peaks if peak.name in (NANOGPT, NANOGPT_COMPILED)]
    rows = [
        (
            peak.name,
            str(peak.processes),
            f"{peak.bytes / MEBIBYTE:.0f}",
            f"{peak.bytes / min(nanogpt):.2f}" if nanogpt else NOTHING,
        )
        for peak in peaks
    ]
    words = f"{shape}. The most that a fresh process and all that it started held until the end of its second step."
    return FoundTable("Memory of training", words, ("", "processes", "peak MiB", "÷ nanoGPT"), rows)
