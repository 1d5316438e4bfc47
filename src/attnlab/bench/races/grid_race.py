"""Small runs side by side, a process with one thread for each core, against one after the other with all threads."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from attnlab.bench.results.findings import FoundTable
from attnlab.bench.results.judging import Claim, Outcome, judge_claim
from attnlab.bench.results.progress import Listener
from attnlab.bench.results.report import number, with_spread
from attnlab.bench.results.timing import Durations, Ratio, turn_order
from attnlab.corpora import CorpusSpec, open_corpus
from attnlab.errors import AttnlabError
from attnlab.experiments.launching.jobs import Job
from attnlab.experiments.launching.launcher import launcher
from attnlab.training import RunSpec

SIDE, TURN = "side by side", "one after the other"
CLAIM = Claim(
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
        """So small that a measurement takes no time and means nothing."""
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

    def outcome(self) -> Outcome:
        return judge_claim(CLAIM, {f"{self.runs} runs": self.gain})

    def table(self) -> FoundTable:
        rows = [
            (SIDE, str(self.processes), "1", number(self.side_by_side_seconds), with_spread(self.gain)),
            (TURN, "1", str(self.processes), number(self.in_turn_seconds), ""),
        ]
        words = f"{self.runs} runs of the size nano, {self.steps} steps each, from the start of the first process."
        return FoundTable("A grid of runs", words, ("", "processes", "threads", "seconds", "× as fast"), rows)


def race_grid(plan: GridPlan, threads: int, rounds: int, listener: Listener) -> GridRace:
    """All runs, in both ways, in each round."""
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
