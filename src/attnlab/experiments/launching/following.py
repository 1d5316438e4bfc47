"""How far a comparison is, read from its folder: the same whoever carries it out, and also after that was killed.

    following = Following(Path("runs/compare-tied-kv-pico-…"))
    following.look().status        "planning", "running", "stopped", "finished" or "failed"

A look reads only what was added since the last one.
"""

from __future__ import annotations

import json
import math
import os
import signal
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from attnlab.errors import AttnlabError, FileError
from attnlab.experiments.comparing import LOOKS
from attnlab.experiments.judging.collecting import jobs_of
from attnlab.experiments.launching.jobs import Job
from attnlab.experiments.launching.watching import GridState, Place, Watch
from attnlab.experiments.planning.plan import Plan
from attnlab.experiments.reporting.answer import ANSWER
from attnlab.experiments.request import PLAN, Request
from attnlab.runs.directory import METRICS, RESULT, RUN
from attnlab.runs.metrics import MetricsFollower
from attnlab.storage.locks import Holder, find_holder
from attnlab.storage.records import read_json

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
    """Whether a comparison was planned in a folder."""
    return (folder / PLAN).is_file()


def status_of(folder: Path) -> Status:
    """How far a comparison is as a whole."""
    if find_holder(folder) is not None:
        return "running" if is_comparison(folder) else "planning"
    if not is_comparison(folder):
        return "failed"
    return "finished" if (folder / ANSWER).is_file() and _all_ended(folder) else "stopped"


def stop(folder: Path) -> Holder:
    """Ask whoever carries the comparison out to save every run and end."""
    holder = find_holder(folder)
    if holder is None:
        raise AttnlabError("nobody carries this comparison out", hint="it can be gone on with")
    if holder.pid is None or holder.host != socket.gethostname():
        raise AttnlabError(f"this comparison is held by {holder}", hint="stop it where it runs")
    os.kill(holder.pid, signal.SIGTERM)
    return holder


class Following:
    """Looks at one comparison again and again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._plan: Plan | None = None
        self._seeds: tuple[int, ...] = ()
        self._watch: Watch | None = None
        self._readers: list[_Reader] = []
        self._tokens: int | None = None  # of a step; known once some run has begun

    def look(self) -> ComparisonState:
        status = status_of(self._folder)
        if not is_comparison(self._folder):
            return ComparisonState(status, None, None, (), None)
        plan = self._plan = self._plan or Plan.load(self._folder)
        seeds = seeds_of(self._folder, plan)
        if self._watch is None or seeds != self._seeds or (self._tokens is None and self._find_tokens()):
            self._begin(plan, seeds)
        assert self._watch is not None
        for number, reader in enumerate(self._readers):
            if not reader.ended and (reader.path / RESULT).exists():
                reader.ended = True
                self._watch.end(number)
            reader.read()
        runs = tuple(reader.state() for reader in self._readers)
        return ComparisonState(status, plan.request, plan, runs, self._watch.look())

    def _find_tokens(self) -> bool:
        self._tokens = next(filter(None, (_tokens_per_step(reader.path / RUN) for reader in self._readers)), None)
        return self._tokens is not None

    def _begin(self, plan: Plan, seeds: tuple[int, ...]) -> None:
        self._seeds = seeds
        text: Any = _Text(plan.corpus_hash)  # a run is named after the hash of its text, and after nothing else of it
        jobs = [(job, job.out / job.spec.name(text)) for job in jobs_of(plan, self._folder, seeds)]
        self._readers = [_Reader(path, job.label, job.spec.seed) for job, path in jobs]
        self._find_tokens()
        self._watch = Watch([self._place(plan, job, path) for job, path in jobs])

    def _place(self, plan: Plan, job: Job, path: Path) -> Place:
        """Return where a job is; jobs of other sizes have other steps and batches."""
        steps, rows = job.spec.steps or plan.steps, job.spec.batch_size
        tokens = self._tokens or 1 if rows is None else rows * max(1, plan.context_length)
        return Place(str(job), path, steps, tokens)


def seeds_of(folder: Path, plan: Plan) -> tuple[int, ...]:
    """The seeds of the look that is being taken, or was taken last."""
    try:
        return tuple(read_json(folder / LOOKS)["looks"][-1]["seeds"])
    except (FileError, LookupError, TypeError):
        return plan.seeds


def looks_taken(folder: Path) -> int:
    """How many of the planned looks were taken."""
    try:
        return sum(look["verdicts"] is not None for look in read_json(folder / LOOKS)["looks"])
    except (FileError, LookupError, TypeError):
        return 0


@dataclass(frozen=True)
class _Text:
    hash: str


@dataclass
class _Reader:
    """The metrics of one run, of which only what is new is read."""

    path: Path
    arm: str
    seed: int
    ended: bool = False
    _training: list[tuple[int, float]] = field(default_factory=list)
    _validation: list[tuple[int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._metrics = MetricsFollower(self.path / METRICS)

    def read(self) -> None:
        entries, rewound = self._metrics.read()
        if rewound:  # resumed from a checkpoint
            self._training, self._validation = [], []
        for entry in entries:
            for name, points in (("loss", self._training), ("validation_loss", self._validation)):
                value = entry.get(name)
                if isinstance(value, int | float) and math.isfinite(value):
                    points.append((entry["step"], float(value)))

    def state(self) -> RunState:
        steps = [points[-1][0] for points in (self._training, self._validation) if points]
        return RunState(
            self.arm,
            self.seed,
            self.ended,
            max(steps, default=0),
            _thinned(self._training),
            tuple(self._validation),
        )


def _thinned(points: list[tuple[int, float]]) -> Curve:
    """A curve as means over stretches of it."""
    width = -(-len(points) // _POINTS) or 1
    stretches = (points[start : start + width] for start in range(0, len(points), width))
    return tuple((part[-1][0], sum(loss for _, loss in part) / len(part)) for part in stretches)


def _all_ended(folder: Path) -> bool:
    """Whether the last look that was begun has also been taken."""
    try:
        return read_json(folder / LOOKS)["looks"][-1]["verdicts"] is not None
    except (FileError, LookupError, TypeError):
        return False


def _tokens_per_step(path: Path) -> int | None:
    try:
        resolved = json.loads(path.read_bytes())["resolved"]
        return int(resolved["batch_size"]) * int(resolved["model"]["context_length"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
