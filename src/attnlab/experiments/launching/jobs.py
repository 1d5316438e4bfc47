"""A grid of runs as values: what is to be trained, how, how far it is, and what became of it.

A run is idempotent: its directory is named by its spec and its text, one that has ended is not trained again, and one
that was interrupted resumes. So a job can be given to any process, any number of times.

How far runs are is read from their directories, so it is the same wherever they run. Only the last line of a run's
metrics is read, and only when the file has grown.
"""

from __future__ import annotations

import functools
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from attnlab.attention.names.files import read_source
from attnlab.errors import AttnlabError, FileError, SpecError
from attnlab.runs.directory import METRICS, RUN
from attnlab.runs.metrics import Metrics
from attnlab.storage.records import read_json
from attnlab.training import RunResult, RunSpec, Saving
from attnlab.training.execution import check_counts

_WINDOW = 60.0  # seconds that the speed is measured over


@dataclass(frozen=True)
class Job:
    """One run of a grid. Its directory lies in the folder `out`."""

    number: int
    spec: RunSpec
    out: Path
    label: str = ""  # what it is called, if not by its variant
    measured: bool = True  # whether what `Work.after` names is called for it

    def __str__(self) -> str:
        return f"{self.label or self.spec.variant} seed {self.spec.seed}"


@dataclass(frozen=True)
class JobEnd:
    """What became of a job. There may be both a result and a problem: that of what came after the run."""

    job: Job
    result: RunResult | None
    problem: str | None
    peak_bytes: int | None  # of the process while it trained; None where the system does not tell

    def loss(self, what: str) -> float | None:
        """Return the final validation loss, None if the run diverged; `what` names a run that failed."""
        if self.result is None:
            raise AttnlabError(f"{what} failed: {self.problem}", hint="call it again to resume")
        return self.result.validation_loss if self.result.outcome == "finished" else None


class LaunchListener:
    """Is told how a grid progresses, always in the thread that called `run`. This one keeps silent."""

    def planned(self, jobs: Sequence[Job]) -> None:
        """Note which jobs are to be done."""

    def progressed(self, state: GridState) -> None:
        """Note, once a second or so, how far all of them are."""

    def ended(self, end: JobEnd) -> None:
        """Note that a job has ended, now or before."""

    def note(self, text: str) -> None:
        """Note something worth a line of its own."""


class Launcher(Protocol):
    """Whatever can have jobs done."""

    @property
    def processes(self) -> int:
        """Return how many jobs are worked on at a time, as far as that is known."""

    @property
    def threads(self) -> int:
        """Return the threads of each job."""

    def run(self, jobs: Sequence[Job], *, listener: LaunchListener | None = None) -> list[JobEnd]:
        """Have all jobs done; their ends are in their order. Interrupted, it saves all runs and can be called again."""


@dataclass(frozen=True)
class Work:
    """How every job of a grid is done, alike for all: the same numbers come only of the same execution."""

    threads: int = 1
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    after: str | None = None  # "module:function", called in the worker with the path of a run that has ended
    cache: Path | None = None  # of texts
    saving: Saving | None = None
    variants_from: Path | None = None  # a Python file that adds variants

    def __post_init__(self) -> None:
        check_counts(threads=self.threads)
        if self.after is not None and not all(self.after.partition(":")):
            raise SpecError(
                f"{self.after!r} names no function to call after a run", hint="write module:function, as in a.b:measure"
            )

        assert self._variants is None or self._variants["text"]  # read now: it may change while jobs are done

    @functools.cached_property
    def _variants(self) -> dict[str, str] | None:
        """The file that adds variants, as workers on other machines need it."""
        if self.variants_from is None:
            return None
        return {"name": str(self.variants_from), "text": read_source(self.variants_from)}

    def order(self, job: Job, name: str) -> Mapping[str, Any]:
        """Return what a worker anywhere is told, as JSON: the job, and the name that its directory should have."""
        return {
            "spec": job.spec.model_dump(mode="json"),
            "out": str(job.out.resolve()),
            "name": name,
            "here": os.getcwd(),  # noqa: PTH109 (where relative paths begin)
            "execution": {
                "threads": self.threads,
                "workers": 1,
                "precision": self.precision,
                "compile": self.compile,
            },
            "after": self.after if job.measured else None,
            "cache": None if self.cache is None else str(self.cache.resolve()),
            "saving": None if self.saving is None else asdict(self.saving),
            "variants": self._variants,
        }


@dataclass(frozen=True)
class Place:
    """Where a job's run is and how long it will be; `steps` is None where minutes were asked for."""

    label: str
    path: Path
    steps: int | None
    tokens_per_step: int


@dataclass(frozen=True)
class JobState:
    """How far one job is. `word` is what the system that runs it calls its state, where it has a word."""

    label: str
    status: Literal["waiting", "running", "ended"]
    step: int = 0
    steps: int | None = None
    loss: float | None = None
    word: str | None = None


@dataclass(frozen=True)
class GridState:
    """How far all jobs are."""

    jobs: tuple[JobState, ...]
    share: float  # of all tokens
    tokens_per_second: float
    seconds_left: float | None  # None as long as nothing can be said

    @property
    def ended(self) -> int:
        return sum(job.status == "ended" for job in self.jobs)

    @property
    def running(self) -> tuple[JobState, ...]:
        return tuple(job for job in self.jobs if job.status == "running")


class Watch:
    """The states of the runs of a grid, read again now and then."""

    def __init__(self, places: Sequence[Place], clock: Callable[[], float] = time.monotonic) -> None:
        self._places, self._clock = places, clock
        self._states = [JobState(place.label, "waiting", steps=place.steps) for place in places]
        self._seen: list[tuple[int, int] | None] = [_stamp(place.path / METRICS) for place in places]
        for number, place in enumerate(places):
            self._read(number, place)
        self._history: deque[tuple[float, int]] = deque([(clock(), self._tokens())])

    def end(self, number: int) -> None:
        """Note that a job has ended, whatever became of it."""
        self._read(number, self._places[number])
        self._states[number] = replace(self._states[number], status="ended", word=None)

    def look(self, words: Mapping[int, str] | None = None) -> GridState:
        """Return how far all are now; `words` are what others call the states of some."""
        for number, place in enumerate(self._places):
            if self._states[number].status == "ended":
                continue
            stamp = _stamp(place.path / METRICS)
            if stamp is not None and stamp != self._seen[number]:
                self._seen[number] = stamp
                self._read(number, place)
                self._states[number] = replace(self._states[number], status="running")
            self._states[number] = replace(self._states[number], word=(words or {}).get(number))
        return self._sum_up()

    def _read(self, number: int, place: Place) -> None:
        state = self._states[number]
        if state.steps is None:
            state = replace(state, steps=_steps(place.path / RUN))
        step, loss = _last(place.path / METRICS) or (state.step, state.loss)
        self._states[number] = replace(state, step=step, loss=loss)

    def _tokens(self) -> int:
        return sum(state.step * place.tokens_per_step for state, place in zip(self._states, self._places, strict=True))

    def _sum_up(self) -> GridState:
        now = self._clock()
        self._history.append((now, self._tokens()))
        while now - self._history[0][0] > _WINDOW:
            self._history.popleft()
        (begin, before), (end, after) = self._history[0], self._history[-1]
        rate = max(0.0, (after - before) / (end - begin)) if end > begin else 0.0
        known = [state.steps for state in self._states if state.steps is not None]
        guess = max(known, default=0)  # of those whose number of steps is still to be measured
        total = left = 0
        for state, place in zip(self._states, self._places, strict=True):
            steps = state.steps or guess
            total += steps * place.tokens_per_step
            left += 0 if state.status == "ended" else max(0, steps - state.step) * place.tokens_per_step
        share = 1 - left / total if total else 0.0
        certain = total and (rate or not left)
        return GridState(tuple(self._states), share, rate, (left / rate if left else 0.0) if certain else None)


def thinned(points: Sequence[tuple[int, float]], count: int) -> tuple[tuple[int, float], ...]:
    """Return a curve as means over at most `count` stretches of it."""
    width = -(-len(points) // count) or 1
    stretches = (points[start : start + width] for start in range(0, len(points), width))
    return tuple((part[-1][0], sum(loss for _, loss in part) / len(part)) for part in stretches)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _last(path: Path) -> tuple[int, float | None] | None:
    """Return the step and the loss of the last whole line, if there is one that can be read."""
    entry = Metrics(path).last()
    if entry is None:
        return None
    loss = entry.get("loss")
    return entry["step"], float(loss) if isinstance(loss, int | float) else None


def _steps(path: Path) -> int | None:
    """Return how many steps a run that has begun will take."""
    try:
        resolved = read_json(path).get("resolved")
    except FileError:
        return None
    steps = resolved.get("steps") if isinstance(resolved, dict) else None
    return steps if isinstance(steps, int) else None
