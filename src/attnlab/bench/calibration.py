"""Count how often the verdicts of a comparison are wrong when the truth is known.

The comparisons are simulated (`simulated.py`), or trained ones of a spec with itself. The rate of false verdicts is
tested against the procedure's nominal rate: it must not be significantly higher, by a one-sided binomial test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from attnlab.bench.findings import Bar, BenchListener, Findings, JudgedBar, table_section
from attnlab.bench.simulated import PILOT_SEEDS, Design, all_trials, finds_difference
from attnlab.errors import AttnlabError, InputError, SpecError
from attnlab.experiments.launching.jobs import Job, LaunchListener
from attnlab.experiments.launching.launcher import launcher
from attnlab.experiments.planning.procedure import Procedure
from attnlab.formats import NOTHING, general, percent
from attnlab.pages import Section
from attnlab.processes.machine import describe_machine
from attnlab.statistics import exceeds
from attnlab.training import RunSpec

OVERLOOKED = 0.2  # at most; the plan's effect is sized for half of that
SIGNIFICANT = 0.05
NULL_STEPS = 100
NULL_SEED = 3_000_000  # the first of a range of seeds that nothing else uses

_MEANINGS = {
    "false difference": "families of arms that do not differ, in which one comes out better or worse",
    "false equivalence": "families of arms that differ by just the margin, in which one comes out equivalent",
    "false on a ladder": "ladders of arms that do not differ, in which one comes out better or worse at some size",
    "false trend": "ladders of arms whose differences do not change, in which one is said to rise or fall",
    "overlooked": "arms that differ by what a pilot's plan calls detectable, and are not detected at first",
}


@dataclass(frozen=True)
class Counted:
    """The number of wrong verdicts in a number of trials."""

    question: str
    setting: str
    wrong: int
    trials: int
    bounded: bool  # whether a bar limits it
    p_above: float | None  # p-value that the true rate is at most the nominal one; None without a nominal rate

    @property
    def rate(self) -> float:
        return self.wrong / self.trials


@dataclass(frozen=True)
class Calibration(Findings):
    """The results of all simulations, and of the trained comparisons if there are any."""

    benchmark: ClassVar[str] = "verdicts"
    title: ClassVar[str] = "Can the verdicts be trusted?"
    lead: ClassVar[str] = "How often a comparison whose truth is known gets a wrong verdict, or misses what is there."

    design: Design
    counts: tuple[Counted, ...]

    def sections(self) -> list[Section]:
        design = self.design
        rows = [
            (
                one.question,
                one.setting,
                f"{one.wrong}/{one.trials}",
                percent(one.rate, 2),
                NOTHING if one.p_above is None else general(one.p_above, 2),
            )
            for one in self.counts
        ]
        words = (
            f"Simulated: {design.arms} arms and a baseline, looked at with {_then(design.looks)} seeds; a pilot has "
            f"{PILOT_SEEDS}. p is that of a true rate of at most {design.procedure.alpha:g}. "
            + design.procedure.in_words(design.arms)
        )
        headings = ("what went wrong", "noise", "times", "rate", "p")
        return [table_section("Wrong verdicts", words, headings, rows, text_columns=(0, 1))]


def calibrate(
    simulations: int = 2000,
    arms: int = 8,
    seeds: int = 9,
    extension: int = 9,
    procedure: Procedure | None = None,
    seed: int = 0,
    *,
    listener: BenchListener | None = None,
    trained: Mapping[int, float] | None = None,
) -> Calibration:
    """Run this many simulations for every question and kind of noise, and count the wrong verdicts.

    `trained` holds final losses of one spec by seed, for `trained_null`.
    """
    if simulations < 1:
        raise SpecError(
            f"{simulations} simulations show nothing", hint="use `simulations=1` or more; 2000 give a steady rate"
        )
    procedure, listener = procedure or Procedure(), listener or BenchListener()
    design, machine = Design(arms, seeds, extension, procedure), describe_machine()
    known = [] if trained is None else [trained_null(trained, procedure=procedure)]
    counts = []
    trials = all_trials(design)
    for number, trial in enumerate(trials):
        listener.step(f"{trial.question}: {trial.setting}", number, len(trials))
        rng = np.random.default_rng((seed, number))
        wrong = sum(trial.goes_wrong(rng, place) for place in range(simulations))
        counts.append(_count(trial.question, trial.setting, wrong, simulations, procedure, bounded=trial.bounded))
    outcomes = [*_judge(counts, procedure), *_judge(known, procedure, "trained ")]
    return Calibration(machine, simulations, (), tuple(outcomes), design, (*counts, *known))


def train_null(
    count: int, out: Path, listener: LaunchListener | None = None, *, smoke: bool = False
) -> dict[int, float]:
    """Train one spec, shorter than a comparison does, at `count` seeds; return the final losses by seed."""
    run = RunSpec(size="pico", steps=4 if smoke else NULL_STEPS, learning_rate=4e-3, warmup_steps=10, batch_size=16)
    if smoke:
        tiny = {"name": "mqar", "vocabulary_size": 32, "options": {"pairs": 2}}
        run = run.replace(corpus=tiny, num_layers=1, model_width=16, num_heads=2, batch_size=2)
    run = run.replace(evaluate_every=run.steps, validation_rows=8 if smoke else 512)
    jobs = [Job(number, run.replace(seed=NULL_SEED + number), out) for number in range(count)]
    losses = {}
    for end in launcher("local").run(jobs, listener=listener):
        if end.result is None or end.result.validation_loss is None:
            raise AttnlabError(f"a run for the null comparisons failed: {end.problem}", hint="run it again to resume")
        losses[end.job.spec.seed] = end.result.validation_loss
    return losses


def trained_null(
    losses: Mapping[int, float],
    comparisons: int = 20,
    extension: int | None = None,
    procedure: Procedure | None = None,
) -> Counted:
    """Compare one spec with itself, given its final losses by seed; no seed is used twice.

    In each comparison half of the seeds serve as the baseline and half as an arm. The first interim analysis leaves out
    the last `extension` seeds of each, by default half of them.
    """
    procedure = procedure or Procedure()
    if comparisons < 1:
        raise SpecError(f"{comparisons} comparisons show nothing", hint="use `comparisons=1` or more")
    each = len(losses) // (2 * comparisons)
    extension = each // 2 if extension is None else extension
    if not 0 <= extension <= each - 2:
        raise InputError(
            f"{len(losses)} losses are too few for {comparisons} comparisons, each with seeds of its own",
            hint=f"train {2 * comparisons * (max(0, extension) + 2)} seeds or more, or ask for fewer comparisons",
        )
    values = [losses[seed] for seed in sorted(losses)][: 2 * comparisons * each]
    looks = tuple(dict.fromkeys((each - extension, each)))[: procedure.looks]
    tables = np.array(values, dtype=np.float64).reshape(comparisons, 2, each)
    wrong = sum(finds_difference(table, looks, procedure) for table in tables)
    return _count("false difference", f"trained, {_then(looks)} seeds", wrong, comparisons, procedure, bounded=True)


def allowed_rate(trials: int, rate: float) -> float:
    """Return the highest share of the trials that is not significantly above a rate."""
    wrong = 0
    while wrong < trials and exceeds(wrong + 1, trials, rate) > SIGNIFICANT:
        wrong += 1
    return max(wrong, 0.5) / trials  # a limit of 0.5 errors allows none, and can be divided by


def _count(question: str, setting: str, wrong: int, trials: int, procedure: Procedure, *, bounded: bool) -> Counted:
    p_above = None if question == "overlooked" else exceeds(wrong, trials, procedure.alpha)
    return Counted(question, setting, wrong, trials, bounded, p_above)


def _judge(counts: Sequence[Counted], procedure: Procedure, which: str = "") -> list[JudgedBar]:
    """Judge a bar for each question; bars without a limit are only reported."""
    groups: dict[tuple[str, bool], list[Counted]] = {}
    for one in counts:
        groups.setdefault((one.question, one.bounded), []).append(one)
    outcomes = []
    for (question, bounded), found in groups.items():
        limit, how = OVERLOOKED, "share of the simulated comparisons"
        if question != "overlooked":
            limit = allowed_rate(found[0].trials, procedure.alpha)
            how = f"share of comparisons; the limit is the highest that is not significantly above {procedure.alpha:g}"
        name = which + question + ("" if bounded else " odd noise")
        bar = Bar(name.replace(" ", "-"), _MEANINGS[question], how, limit if bounded else None)
        outcomes.append(bar.judge({one.setting: one.rate for one in found}))
    return outcomes


def _then(looks: Sequence[int]) -> str:
    return " and then ".join(str(look) for look in looks)
