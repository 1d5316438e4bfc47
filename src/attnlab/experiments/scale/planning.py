"""What of a study fits into the hours that there are, and how long each part takes.

The FLOPs of every arm are counted (`cost`), the time of a step is measured on this machine. If the whole does not fit,
the study is reduced in a fixed order: fewer seeds, down to four; fewer variants on the largest rung, the last named
first; and finally one rung less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attnlab.corpora import Corpus
from attnlab.errors import SpecError
from attnlab.experiments.launching.jobs import Launcher
from attnlab.experiments.planning.ladder import bare_parameters
from attnlab.experiments.planning.planner import CROWDED, EVALUATION, arms_at, time_step
from attnlab.experiments.scale.request import FEWEST_RUNGS, ScaleRequest
from attnlab.training import Execution

FEWEST_SEEDS = 4
_EXTENSIONS = 3  # rates that a search tries beyond the first ones, on average


@dataclass(frozen=True)
class RungCost:
    """The time and FLOPs of all arms on one rung, for one seed and one corpus."""

    size: str
    parameters: int  # of the baseline, embeddings included
    non_embedding: int
    tokens: int
    arms: tuple[str, ...]
    seconds: tuple[float, ...]  # of one run of each arm, one process
    flops: tuple[float, ...]  # of one run of each arm
    halved: bool


@dataclass(frozen=True)
class StudyPlan:
    """What is carried out, and the hours of processor time divided among the processes."""

    asked: ScaleRequest
    request: ScaleRequest  # what of it fits
    rungs: tuple[RungCost, ...]
    rate_hours: float
    run_hours: float
    processes: int
    reductions: tuple[str, ...]

    @property
    def hours(self) -> float:
        return self.rate_hours + self.run_hours


def plan_study(request: ScaleRequest, corpora: list[Corpus], launcher: Launcher) -> StudyPlan:
    """Return what fits; an error if not even the smallest study does."""
    first = corpora[0]
    for corpus in corpora[1:]:  # refuses a text that is too short before anything is trained
        arms_at(request.comparison(corpus.spec.name, {}), request.rungs[-1], 1.0, corpus)
    plan = None
    for candidate in _candidates(request):
        plan = _planned(request, candidate, first, launcher, tuple(_reductions(request, candidate)))
        if request.hours is None or plan.hours <= request.hours:
            return plan
    assert plan is not None
    raise SpecError(
        f"the smallest such study takes {plan.hours:.1f} hours here, and {request.hours:g} are given",
        hint="give more hours, smaller rungs, fewer variants or fewer tokens per parameter",
    )


def _planned(
    asked: ScaleRequest, request: ScaleRequest, corpus: Corpus, launcher: Launcher, reductions: tuple[str, ...]
) -> StudyPlan:
    rungs = tuple(_rungs(request, corpus, launcher.threads))
    parallel = 3600 * launcher.processes / (CROWDED if launcher.processes > 1 else 1.0)
    searched = len(request.corpora) - (request.held_out is not None)
    rate_seconds = 0.0
    whole = [rung for rung in rungs if not rung.halved]
    for number, rung in enumerate(whole[: request.rate_rungs + 1]):
        rates = request.rate_count + _EXTENSIONS if number < request.rate_rungs else 3
        rate_seconds += rates * request.rate_seeds * sum(rung.seconds)
    run_seconds = request.seeds * sum(sum(rung.seconds) for rung in rungs)
    return StudyPlan(
        asked,
        request,
        rungs,
        searched * rate_seconds / parallel,
        len(request.corpora) * run_seconds / parallel,
        launcher.processes,
        reductions,
    )


def _rungs(request: ScaleRequest, corpus: Corpus, threads: int) -> Iterator[RungCost]:
    asked = request.comparison(corpus.spec.name, {})
    for size in request.rungs:
        for share in (0.5, 1.0) if request.half_tokens and size != request.rungs[-1] else (1.0,):
            arms = arms_at(asked, size, share, corpus)
            runs = [arm.run.resolve(corpus, Execution(threads=threads)) for arm in arms]
            evaluated = runs[0].steps // runs[0].evaluate_every * runs[0].validation_rows * runs[0].model.context_length
            steps = runs[0].steps + EVALUATION * evaluated / runs[0].tokens_per_step
            yield RungCost(
                size=size,
                parameters=arms[0].parameters,
                non_embedding=bare_parameters(runs[0].model),
                tokens=runs[0].steps * runs[0].tokens_per_step,
                arms=tuple(arm.name for arm in arms),
                seconds=tuple(steps * time_step(run, corpus, threads) for run in runs),
                flops=tuple(float(run.steps * arm.training_flops) for run, arm in zip(runs, arms, strict=True)),
                halved=share != 1,
            )


def _candidates(request: ScaleRequest) -> Iterator[ScaleRequest]:
    """Yield smaller and smaller studies."""
    yield request
    for seeds in range(request.seeds - 1, FEWEST_SEEDS - 1, -1):
        request = request.replace(seeds=seeds)
        yield request
    while True:
        below = request.rungs[-2]
        for name in reversed(request.variants[1:]):
            if name not in request.up_to:
                request = request.replace(up_to={**request.up_to, name: below})
                yield request
        if len(request.rungs) == FEWEST_RUNGS:
            return
        kept = {name: size for name, size in request.up_to.items() if size != below}
        request = request.replace(
            rungs=request.rungs[:-1], up_to=kept, rate_rungs=min(request.rate_rungs, len(request.rungs) - 2)
        )
        yield request


def _reductions(asked: ScaleRequest, request: ScaleRequest) -> Iterator[str]:
    """Yield what a study has less than the one that was asked for."""
    if request.seeds < asked.seeds:
        yield f"{request.seeds} seeds"
    yield from (f"no rung at {size}" for size in reversed(asked.rungs[len(request.rungs) :]))
    yield from (f"{name} up to {size} only" for name, size in request.up_to.items() if name not in asked.up_to)
