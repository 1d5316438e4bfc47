"""What a comparison found: every run, every judgement, and its interim analyses.

The analyses that were begun and done, and the time that training took, are kept in looks.json, beside the plan:

    {"looks": [{"seeds": [0, 1, 2, 3], "verdicts": {"tied-kv": "worse"}}, …], "seconds": 512.3}
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from attnlab.errors import FileError, SpecError
from attnlab.experiments.judging.judgement import Judgement
from attnlab.experiments.planning.plan import Arm, Plan, Rung
from attnlab.runs.verification import SEAL, seal
from attnlab.statistics import Interval, mean_interval
from attnlab.storage.records import read_json, write_json

LOOKS = "looks.json"


@dataclass(frozen=True)
class ArmRun:
    """One run: an arm at a seed. `measures` has no entry for what a variant does not have."""

    arm: str
    seed: int
    outcome: Literal["finished", "diverged"]
    path: Path
    command: str  # that makes it again
    loss: float | None  # the metric; None if it diverged
    message: str | None
    curve: tuple[tuple[int, float], ...]  # (step, validation loss)
    training_curve: tuple[tuple[int, float], ...]  # (step, training loss), thinned
    seconds: float
    tokens_per_second: float | None
    peak_bytes: int | None
    weights_sha256: str | None
    measures: Mapping[str, float]
    heads: Mapping[str, float] = field(default_factory=dict)  # what the heads do, by `RUN_HEADS`


@dataclass(frozen=True)
class ArmResult:
    """One arm with all its runs, in the order of the seeds."""

    arm: Arm
    runs: tuple[ArmRun, ...]

    @property
    def name(self) -> str:
        return self.arm.name

    @cached_property
    def loss(self) -> float | None:
        """Return the mean over the seeds that finished."""
        losses = [run.loss for run in self.runs if run.loss is not None]
        return fmean(losses) if losses else None

    @cached_property
    def curve(self) -> tuple[tuple[int, float], ...]:
        """Return the mean validation loss at each step that all finished seeds have."""
        curves = [dict(run.curve) for run in self.runs if run.outcome == "finished"]
        steps = sorted(set.intersection(*(set(curve) for curve in curves))) if curves else []
        return tuple((step, fmean(curve[step] for curve in curves)) for step in steps)

    def measure(self, name: str) -> Interval | None:
        """Return the mean of a measure over the seeds, with its interval; None where the variant has none."""
        values = [run.measures[name] for run in self.runs if name in run.measures]
        return mean_interval(values) if len(values) > 1 else None

    @property
    def losses(self) -> dict[int, float | None]:
        """Return the final losses by seed; None for a run that diverged."""
        return {run.seed: run.loss for run in self.runs}

    @property
    def diverged(self) -> tuple[int, ...]:
        """Return the seeds at which the arm diverged."""
        return tuple(run.seed for run in self.runs if run.outcome == "diverged")

    def differences(self, baseline: ArmResult, kind: Literal["measures", "heads"], name: str) -> list[float]:
        """Return the measures of this arm less those of the baseline at the same seeds, where both have them."""
        theirs = {run.seed: getattr(run, kind) for run in baseline.runs}
        ours = [(getattr(run, kind), theirs.get(run.seed, {})) for run in self.runs]
        return [mine[name] - other[name] for mine, other in ours if name in mine and name in other]

    def mean_of(self, name: Literal["tokens_per_second", "peak_bytes", "seconds"]) -> float | None:
        values = [value for run in self.runs if (value := getattr(run, name)) is not None]
        return fmean(values) if values else None


@dataclass(frozen=True)
class RungResult:
    """One size: its arms (the baseline first), and the judgements there."""

    rung: Rung
    arms: tuple[ArmResult, ...]
    judgements: tuple[Judgement, ...]


@dataclass(frozen=True)
class InterimAnalysis:
    """One of the planned analyses: its seeds, and its verdicts by arm; None as long as it is only begun."""

    number: int
    seeds: tuple[int, ...]
    verdicts: Mapping[str, str] | None


def _seed(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no seed")
    return value


def _verdicts(value: object) -> dict[str, str] | None:
    if value is not None and not isinstance(value, dict):
        raise TypeError(f"{value!r} are no verdicts")
    return value


@dataclass
class AnalysisLog:
    """All analyses that were begun, and the seconds of training."""

    analyses: list[InterimAnalysis]
    seconds: float = 0.0

    @classmethod
    def load(cls, folder: Path, plan: Plan) -> AnalysisLog:
        """Return the log of a comparison; of a new one, the first analysis is begun."""
        return cls._read(folder) if (folder / LOOKS).exists() else cls([InterimAnalysis(1, plan.seeds, None)])

    @classmethod
    def peek(cls, folder: Path) -> AnalysisLog:
        """Return the log for a reader that has no plan; without a log that can be read, an analysis without seeds."""
        try:
            return cls._read(folder)
        except (FileError, LookupError, TypeError):
            return cls([InterimAnalysis(1, (), None)])

    @classmethod
    def _read(cls, folder: Path) -> AnalysisLog:
        record = read_json(folder / LOOKS)
        if SEAL in record and record != seal({name: value for name, value in record.items() if name != SEAL}):
            raise FileError(
                f"{folder / LOOKS} was changed after it was written",
                hint="restore the old file, or compare again in another folder",
            )
        try:
            found = [
                InterimAnalysis(number, tuple(map(_seed, one["seeds"])), _verdicts(one["verdicts"]))
                for number, one in enumerate(record["looks"], start=1)
            ]
            seconds = float(record["seconds"])
        except (LookupError, TypeError, ValueError):
            found = []
        if not found:
            raise FileError(
                f"{folder / LOOKS} is damaged: it holds no analysis", hint="compare again in another folder"
            )
        return cls(found, seconds)

    def save(self, folder: Path) -> None:
        looks = [{"seeds": list(one.seeds), "verdicts": one.verdicts} for one in self.analyses]
        write_json(folder / LOOKS, seal({"looks": looks, "seconds": self.seconds}))

    @property
    def seeds(self) -> tuple[int, ...]:
        """Return the seeds of the analysis that was begun last."""
        return self.analyses[-1].seeds

    @property
    def is_done(self) -> bool:
        """Return whether the analysis that was begun last is done."""
        return self.analyses[-1].verdicts is not None

    def extend(self, count: int, plan: Plan) -> None:
        """Begin another analysis with more seeds, unless the last one is not done yet."""
        if not self.is_done:
            return
        if len(self.analyses) >= plan.procedure.looks:
            raise SpecError(
                f"all planned interim analyses ({plan.procedure.looks}) are done: more would show a difference sooner "
                "or later, whether it is there or not",
                hint="plan anew with other seeds and more analyses: `first_seed=1000` and `looks=3`",
            )
        last = max(self.seeds)
        seeds = (*self.seeds, *range(last + 1, last + 1 + count))
        self.analyses.append(InterimAnalysis(len(self.analyses) + 1, seeds, None))

    @contextmanager
    def timed(self, folder: Path) -> Iterator[None]:
        """Count the time inside, also if it is interrupted; not if there is nothing left to do."""
        if self.is_done:
            yield
            return
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - begin
            self.save(folder)

    def complete(self, judgements: Sequence[Judgement]) -> None:
        """Record the verdicts of the analysis that was begun last, unless it was done before."""
        if not self.is_done:
            verdicts = {judgement.arm: judgement.verdict for judgement in judgements}
            self.analyses[-1] = replace(self.analyses[-1], verdicts=verdicts)


@dataclass(frozen=True)
class Comparison:
    """A plan that was carried out."""

    plan: Plan
    path: Path
    arms: tuple[ArmResult, ...]  # the baseline first
    judgements: tuple[Judgement, ...]  # of the others, in the plan's order
    looks: tuple[InterimAnalysis, ...]
    seconds: float  # of training, all runs together as they ran
    lower: tuple[RungResult, ...] = ()  # the rungs below the largest, ascending

    @property
    def baseline(self) -> ArmResult:
        return self.arms[0]

    def arm(self, name: str) -> ArmResult:
        return next(arm for arm in self.arms if arm.name == name)

    @property
    def rungs(self) -> tuple[RungResult, ...]:
        """Return the results of all sizes, ascending."""
        return (*self.lower, RungResult(self.plan.rungs[-1], self.arms, self.judgements))

    @property
    def ranking(self) -> list[Judgement]:
        """Return the judgements, the best difference first; arms without a difference come last."""
        return sorted(self.judgements, key=lambda one: (one.mean is None, one.mean or 0.0))

    @property
    def variants(self) -> list[ArmResult]:
        """Return all arms but the baseline, in the order of `ranking`."""
        return [self.arm(one.arm) for one in self.ranking]

    @property
    def seeds(self) -> tuple[int, ...]:
        return self.looks[-1].seeds

    def worth(self, name: str) -> float | None:
        """Return how many of the baseline's steps an arm's steps are worth, as a share: 1.1 means ten per cent more.

        Where an arm ends above the baseline, it is the share of the steps after which the baseline was there; where it
        ends below, the inverse of the share after which the arm was where the baseline ends. Both curves bend with the
        learning rate's schedule, so this is a plain rendering of a difference, not a prediction.
        """
        ours, theirs = self.arm(name), self.baseline
        if ours.loss is None or theirs.loss is None:
            return None
        if ours.loss >= theirs.loss:
            reached = _first_at(theirs.curve, ours.loss)
            return None if reached is None else reached / self.plan.steps
        reached = _first_at(ours.curve, theirs.loss)
        return None if reached is None else self.plan.steps / reached

    # How it shows itself. What draws and writes is imported only then.

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        from attnlab.experiments.reporting.exports import to_dict

        return to_dict(self)

    def to_csv(self) -> str:
        """Return a table with a line for each run."""
        from attnlab.experiments.reporting.exports import to_csv

        return to_csv(self)

    def to_markdown(self) -> str:
        """Return the verdict and the table, to paste."""
        from attnlab.experiments.reporting.exports import to_markdown

        return to_markdown(self)

    def write_report(self, path: Path) -> None:
        """Write the whole report as one HTML file."""
        from attnlab.experiments.reporting.report import write_report

        write_report(self, path)

    def _repr_html_(self) -> str:
        from attnlab.experiments.reporting.exports import repr_html

        return repr_html(self)


def _first_at(curve: Sequence[tuple[int, float]], loss: float) -> float | None:
    """Return the step at which a curve first comes down to a loss, between two evaluations by a straight line."""
    before: tuple[int, float] | None = None
    for step, value in curve:
        if value <= loss:
            if before is None or before[1] == value:
                return float(step) if before is not None else None
            share = (before[1] - loss) / (before[1] - value)
            return before[0] + share * (step - before[0])
        before = (step, value)
    return None
