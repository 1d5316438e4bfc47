"""What a comparison found: every run, every judgement, and what both are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from attnlab.experiments.judging.judgement import Judgement
from attnlab.experiments.planning.plan import Arm, Plan, Rung
from attnlab.statistics import Interval, mean_interval


@dataclass(frozen=True)
class Cell:
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
    cells: tuple[Cell, ...]

    @property
    def name(self) -> str:
        return self.arm.name

    @cached_property
    def loss(self) -> float | None:
        """The mean over the seeds that finished."""
        losses = [cell.loss for cell in self.cells if cell.loss is not None]
        return fmean(losses) if losses else None

    @cached_property
    def curve(self) -> tuple[tuple[int, float], ...]:
        """The mean validation loss at each step that all finished seeds have."""
        curves = [dict(cell.curve) for cell in self.cells if cell.outcome == "finished"]
        steps = sorted(set.intersection(*(set(curve) for curve in curves))) if curves else []
        return tuple((step, fmean(curve[step] for curve in curves)) for step in steps)

    def measure(self, name: str) -> Interval | None:
        """The mean of a measure over the seeds, with its interval; None where the variant has none."""
        values = [cell.measures[name] for cell in self.cells if name in cell.measures]
        return mean_interval(values) if len(values) > 1 else None

    def mean_of(self, name: Literal["tokens_per_second", "peak_bytes", "seconds"]) -> float | None:
        values = [value for cell in self.cells if (value := getattr(cell, name)) is not None]
        return fmean(values) if values else None


@dataclass(frozen=True)
class RungResult:
    """A rung below the largest: its arms (the baseline first), and the judgements at its size."""

    rung: Rung
    arms: tuple[ArmResult, ...]
    judgements: tuple[Judgement, ...]


@dataclass(frozen=True)
class Look:
    """One of the planned looks: the seeds that were there, and what was said then."""

    number: int
    seeds: tuple[int, ...]
    verdicts: Mapping[str, str]


@dataclass(frozen=True)
class Comparison:
    """A plan that was carried out."""

    plan: Plan
    path: Path
    arms: tuple[ArmResult, ...]  # the baseline first
    judgements: tuple[Judgement, ...]  # of the others, in the plan's order
    looks: tuple[Look, ...]
    seconds: float  # of training, all runs together as they ran
    lower: tuple[RungResult, ...] = ()  # the rungs below the largest, ascending

    @property
    def baseline(self) -> ArmResult:
        return self.arms[0]

    def arm(self, name: str) -> ArmResult:
        return next(arm for arm in self.arms if arm.name == name)

    @property
    def all_arms(self) -> tuple[ArmResult, ...]:
        """Return the arms of all sizes, the largest first."""
        return (*self.arms, *(arm for result in reversed(self.lower) for arm in result.arms))

    @property
    def seeds(self) -> tuple[int, ...]:
        return self.looks[-1].seeds

    def worth(self, name: str) -> float | None:
        """How many of the baseline's steps an arm's steps are worth, as a share: 1.1 means ten per cent more.

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
        """Everything, as plain values for JSON."""
        from attnlab.experiments.reporting.exports import to_dict

        return to_dict(self)

    def to_csv(self) -> str:
        """One line for each run."""
        from attnlab.experiments.reporting.exports import to_csv

        return to_csv(self)

    def to_markdown(self) -> str:
        """The verdict and the table, to paste."""
        from attnlab.experiments.reporting.exports import to_markdown

        return to_markdown(self)

    def write_report(self, path: Path) -> None:
        """The whole report as one HTML file."""
        from attnlab.experiments.reporting.report import write_report

        write_report(self, path)

    def _repr_html_(self) -> str:
        from attnlab.experiments.reporting.exports import repr_html

        return repr_html(self)


def _first_at(curve: Sequence[tuple[int, float]], loss: float) -> float | None:
    """The step at which a curve first comes down to a loss, between two evaluations by a straight line."""
    before: tuple[int, float] | None = None
    for step, value in curve:
        if value <= loss:
            if before is None or before[1] == value:
                return float(step) if before is not None else None
            share = (before[1] - loss) / (before[1] - value)
            return before[0] + share * (step - before[0])
        before = (step, value)
    return None
