"""The status of a comparison, read from its folder: the same wherever it runs, and also after its process was killed.

    following = Following(Path("runs/compare-tied-kv-pico-…"))
    following.look().status        "planning", "running", "stopped", "finished" or "failed"

Each reading takes in only what was added since the last one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from attnlab.experiments.judging.collecting import jobs_of
from attnlab.experiments.launching.jobs import GridState, Place, Watch, thinned
from attnlab.experiments.planning.plan import Plan
from attnlab.experiments.reporting.answer import ANSWER
from attnlab.experiments.request import Request
from attnlab.experiments.results import AnalysisLog
from attnlab.runs.directory import METRICS, RESULT
from attnlab.runs.metrics import MetricsFollower
from attnlab.storage.locks import Holder, find_holder, stop_holder
from attnlab.storage.plans import PLAN

Status = Literal["planning", "running", "stopped", "finished", "failed"]
Curve = tuple[tuple[int, float], ...]

_POINTS = 120  # of a curve


@dataclass(frozen=True)
class RunState:
    """One run: its arm and seed, how far it is, and its curves so far."""

    arm: str
    seed: int
    ended: bool
    step: int
    training: Curve
    validation: Curve


@dataclass(frozen=True)
class ComparisonState:
    """A comparison at one moment. `grid` is None before there is a plan."""

    status: Status
    request: Request | None
    plan: Plan | None
    runs: tuple[RunState, ...]
    grid: GridState | None


def is_comparison(folder: Path) -> bool:
    """Return whether a comparison was planned in a folder."""
    return (folder / PLAN).is_file()


def status_of(folder: Path) -> Status:
    """Return how far a comparison is as a whole."""
    if find_holder(folder) is not None:
        return "running" if is_comparison(folder) else "planning"
    if not is_comparison(folder):
        return "failed"
    return "finished" if (folder / ANSWER).is_file() and AnalysisLog.peek(folder).is_done else "stopped"


def stop(folder: Path) -> Holder:
    """Ask the process that carries the comparison out to save every run and end."""
    return stop_holder(folder, "comparison")


def looks_taken(folder: Path) -> int:
    """Return how many of the planned interim analyses are done."""
    return sum(one.verdicts is not None for one in AnalysisLog.peek(folder).analyses)


class Following:
    """Reads the state of one comparison again and again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._plan: Plan | None = None
        self._seeds: tuple[int, ...] = ()
        self._watch = Watch([])
        self._readers: list[_MetricsReader] = []

    def look(self) -> ComparisonState:
        """Return the state as it is now."""
        status = status_of(self._folder)
        if not is_comparison(self._folder):
            return ComparisonState(status, None, None, (), None)
        plan = self._plan = self._plan or Plan.load(self._folder)
        seeds = AnalysisLog.peek(self._folder).seeds or plan.seeds
        if seeds != self._seeds:
            self._begin(plan, seeds)
        for number, reader in enumerate(self._readers):
            if not reader.ended and (reader.path / RESULT).exists():
                reader.ended = True
                self._watch.end(number)
            reader.read()
        runs = tuple(reader.state() for reader in self._readers)
        return ComparisonState(status, plan.request, plan, runs, self._watch.look())

    def _begin(self, plan: Plan, seeds: tuple[int, ...]) -> None:
        self._seeds, self._readers = seeds, []
        places = []
        for job, (rung, _, _) in zip(jobs_of(plan, self._folder, seeds), plan.runs(seeds), strict=True):
            path = plan.run_path(self._folder, job.spec)
            self._readers.append(_MetricsReader(path, job.label, job.spec.seed))
            places.append(Place(str(job), path, job.spec.steps or plan.steps, rung.tokens_per_step))
        self._watch = Watch(places)


@dataclass
class _MetricsReader:
    """The metrics of one run, of which only what is new is read."""

    path: Path
    arm: str
    seed: int
    ended: bool = False
    _training: _Stretches = field(default_factory=lambda: _Stretches())
    _validation: list[tuple[int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._metrics = MetricsFollower(self.path / METRICS)

    def read(self) -> None:
        if self._metrics.was_rewound():  # resumed from a checkpoint
            self._training, self._validation = _Stretches(), []
        for entry in self._metrics.read():
            for name, points in (("loss", self._training), ("validation_loss", self._validation)):
                value = entry.get(name)
                if isinstance(value, int | float) and math.isfinite(value):
                    points.append((entry["step"], float(value)))

    def state(self) -> RunState:
        training = self._training.curve()
        steps = [points[-1][0] for points in (training, self._validation) if points]
        return RunState(self.arm, self.seed, self.ended, max(steps, default=0), training, tuple(self._validation))


class _Stretches:
    """A curve as means over stretches of equal length, which grow with it: its memory does not."""

    def __init__(self) -> None:
        self._length = 1
        self._means: list[tuple[int, float]] = []  # fewer than 2 * _POINTS
        self._last: list[tuple[int, float]] = []  # of the stretch that is not whole yet

    def append(self, point: tuple[int, float]) -> None:
        self._last.append(point)
        if len(self._last) < self._length:
            return
        self._means += thinned(self._last, 1)
        self._last = []
        if len(self._means) == 2 * _POINTS:
            self._means = list(thinned(self._means, _POINTS))
            self._length *= 2

    def curve(self) -> Curve:
        """Return at most `_POINTS` means, and that of the last stretch."""
        return (*thinned(self._means, _POINTS), *thinned(self._last, 1))
