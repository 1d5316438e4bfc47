"""From a plan to its jobs, and from the folders of the runs to the results of a comparison.

A verdict is withheld where the runs are too short to judge by:

    plateau    the baseline, or the arm, has not left the plateau that the best bigram table sets
    growing    the paired difference still grows over the last quarter of the run, away from 0
    edge       the best learning rate of the arm, or of the baseline, is the lowest or highest that was tried

Each replaces the verdict by `unsettled`, with the reason. A run that diverged stays `unstable`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from attnlab.errors import AttnlabError, FileError
from attnlab.experiments.judging.judgement import Judgement, judge
from attnlab.experiments.launching.jobs import Job, thinned
from attnlab.experiments.launching.worker import read_peak
from attnlab.experiments.planning.plan import Arm, Plan, Rung
from attnlab.experiments.results import ArmResult, ArmRun, RungResult
from attnlab.formats import signed
from attnlab.lens import measures_of_run
from attnlab.lens.runs import heads_of_run
from attnlab.runs import RunDirectory
from attnlab.statistics import paired_t
from attnlab.training import RunSpec

NEEDS_ATTENTION = 0.2  # nats below the best bigram table that a baseline must reach
_LEFT_PLATEAU = 0.05  # nats below it that any arm must reach
_LATE = 0.75  # of the run, from which on the difference may not grow any more
_GROWTH_LEVEL = 0.01  # of the test for growth
_LEAST_GROWTH = 0.25  # of the final difference; less growth does not matter
_POINTS = 100  # of a training curve in a report


def jobs_of(plan: Plan, folder: Path, seeds: Sequence[int]) -> list[Job]:
    """Return the runs of a plan as jobs, in the order in which they are trained."""
    return [
        Job(
            number,
            arm.at(seed),
            folder / plan.runs_folder,
            job_label(plan, rung, arm),
            measured=plan.is_largest(rung),
        )
        for number, (rung, arm, seed) in enumerate(plan.runs(seeds))
    ]


def job_label(plan: Plan, rung: Rung, arm: Arm) -> str:
    """Return what the runs of an arm at one size are called."""
    return arm.name if plan.is_largest(rung) else f"{arm.name} at {rung.name}"


def collect_rung(plan: Plan, rung: Rung, folder: Path, seeds: Sequence[int], cache: Path | None = None) -> RungResult:
    """Return the results at one size, whose runs have ended, judged by its own share of the tests.

    Attention is measured, and sign flips and the bootstrap are calculated, at the largest size only. With half the
    tokens, nothing is known of the noise from a pilot.
    """
    largest = plan.is_largest(rung)
    arms = tuple(
        ArmResult(arm, tuple(_run(plan, arm, seed, folder, cache, measured=largest) for seed in seeds))
        for arm in rung.arms
    )
    noise = {} if rung.halved else plan.pilot.apart_from(seeds).noise(rung.size)
    judgements = judge(losses_of(arms), arms[0].name, rung.procedure, noise=noise, witnesses=largest)
    return RungResult(rung, arms, withhold(judgements, arms, plan.bigram_loss))


def losses_of(arms: Sequence[ArmResult]) -> dict[str, dict[int, float | None]]:
    """Return the final losses by arm and seed; None for a run that diverged."""
    return {arm.name: arm.losses for arm in arms}


def check_runs(plan: Plan, folder: Path, seeds: Sequence[int]) -> None:
    """Refuse runs that lie in the place of the plan's and are others."""
    for _, arm, seed in plan.runs(seeds):
        spec = arm.at(seed)
        path = plan.run_path(folder, spec)
        if not RunDirectory.exists(path):
            continue
        record = RunDirectory.open(path).record
        if not _is_recorded(spec, record) or record["corpus"]["hash"] != plan.corpus_hash:
            raise FileError(
                f"{path} is a run of another plan: it trains something else than its place says",
                hint="move it away, or compare in another folder, with `out=DIR`",
            )


def _is_recorded(spec: RunSpec, record: Mapping[str, Any]) -> bool:
    """Return whether a run's record is that of a spec; fields that were added to specs since are at their defaults."""
    try:
        return RunSpec(**record["spec"]) == spec
    except (AttnlabError, LookupError, TypeError):
        return False


def _run(plan: Plan, arm: Arm, seed: int, folder: Path, cache: Path | None, *, measured: bool) -> ArmRun:
    spec = arm.at(seed)
    directory = RunDirectory.open(plan.run_path(folder, spec))
    result = directory.result
    if result is None:
        raise FileError(f"{directory.path} has not ended", hint="compare again, which resumes it")
    metrics = directory.metrics()
    finished = result["outcome"] == "finished"
    return ArmRun(
        arm=arm.name,
        seed=seed,
        outcome="finished" if finished else "diverged",
        path=directory.path,
        command=command_of(spec, plan),
        loss=result["validation_loss"] if finished else None,
        message=result.get("message"),
        curve=tuple((entry["step"], entry["validation_loss"]) for entry in metrics if "validation_loss" in entry),
        training_curve=thinned([(entry["step"], entry["loss"]) for entry in metrics if "loss" in entry], _POINTS),
        seconds=result["seconds"],
        tokens_per_second=result.get("tokens_per_second"),
        peak_bytes=read_peak(directory.path),
        weights_sha256=result.get("weights_sha256"),
        measures=_measures(directory.path, cache) if finished and measured else {},
        heads=_heads(directory.path, cache) if finished and measured else {},
    )


def command_of(spec: RunSpec, plan: Plan) -> str:
    """Return the command that trains this one run again."""
    words = ["attnlab", "train", "--variant", spec.variant, "--recipe", spec.recipe, "--size", spec.size]
    words += ["--corpus", spec.corpus.name, "--tokenizer", spec.corpus.tokenizer]
    if spec.corpus.vocabulary_size is not None:
        words += ["--vocabulary-size", str(spec.corpus.vocabulary_size)]
    for name, option in spec.corpus.options.items():
        words += ["--corpus-option", f"{name}={option}"]
    words += ["--steps", str(spec.steps), "--seed", str(spec.seed)]
    words += ["--threads", str(plan.threads), "--workers", "1"]
    if spec.start is not None:
        words += ["--change", f"start={spec.start.run}"]
    named = {"variant", "recipe", "size", "corpus", "steps", "seed", "start"}
    for name, value in spec.model_dump(exclude=named, exclude_none=True).items():
        words += ["--change", f"{name}={value['kind'] if isinstance(value, Mapping) else value}"]
    if plan.request.variants_from is not None:
        words += ["--variants-from", plan.request.variants_from]
    return shlex.join(words)


def _measures(path: Path, cache: Path | None) -> dict[str, float]:
    """Return what the lens says of a finished run. It is measured now if it was not before, as by a lost worker."""
    try:
        found = measures_of_run(path, cache=cache)
    except FileError:
        return {}
    return {name: value for name, value in found.items() if value is not None}


def _heads(path: Path, cache: Path | None) -> dict[str, float]:
    try:
        return heads_of_run(path, cache=cache)
    except FileError:
        return {}


def withhold(
    judgements: Sequence[Judgement], arms: Sequence[ArmResult], bigram_loss: float | None
) -> tuple[Judgement, ...]:
    """Return the judgements at one size, with `unsettled` in place of every verdict that the runs are too short for.

    `arms` has the baseline first. Without `bigram_loss`, that of the best bigram table, no plateau is known.
    """
    baseline, *others = arms
    by_name = {arm.name: arm for arm in others}
    return tuple(_withheld(one, by_name[one.arm], baseline, bigram_loss) for one in judgements)


def _withheld(judgement: Judgement, arm: ArmResult, baseline: ArmResult, bigram_loss: float | None) -> Judgement:
    if judgement.verdict == "unstable" or judgement.mean is None:
        return judgement
    for reason in (_plateau(bigram_loss, arm, baseline), _growing(arm, baseline), _edge(arm.arm, baseline.arm)):
        if reason is not None:
            return replace(judgement, verdict="unsettled", reason=f"{reason} {judgement.reason}")
    return judgement


def _plateau(bigram: float | None, arm: ArmResult, baseline: ArmResult) -> str | None:
    if bigram is None or baseline.loss is None or arm.loss is None:
        return None
    for one, least in ((baseline, NEEDS_ATTENTION), (arm, _LEFT_PLATEAU)):
        assert one.loss is not None
        if one.loss > bigram - least:
            return (
                f"{one.name} ends at {one.loss:.3f} nats, less than {least:g} below the best bigram table "
                f"({bigram:.3f}): it has hardly begun to use attention."
            )
    return None


def _growing(arm: ArmResult, baseline: ArmResult) -> str | None:
    """Test by seed whether the difference grew over the last part of the run."""
    late, end, share = [], [], _LATE
    theirs = {run.seed: run for run in baseline.runs}
    for run in arm.runs:
        ours, other = _late_and_end(run), _late_and_end(theirs[run.seed])
        if ours is None or other is None:
            return None
        share, *losses = ours
        late.append(losses[0] - other[1])
        end.append(losses[1] - other[2])
    final = fmean(end)
    growth = [after - before for before, after in zip(late, end, strict=True)]
    mean = fmean(growth)
    if mean * final <= 0 or abs(mean) < _LEAST_GROWTH * abs(final) or len(growth) < 2:
        return None
    if paired_t(growth) > _GROWTH_LEVEL:
        return None
    return (
        f"Its difference to {baseline.name} still grows: {signed(fmean(late), 4)} nats at {100 * share:.0f} % of the "
        f"run, {signed(final, 4)} at the end."
    )


def _late_and_end(run: ArmRun) -> tuple[float, float, float] | None:
    """Return at which share of the run the last evaluation before its late part was, the loss there, and the last."""
    if run.outcome != "finished" or len(run.curve) < 2:
        return None
    steps, loss = run.curve[-1]
    before = [(step / steps, value) for step, value in run.curve[:-1] if step <= _LATE * steps]
    return (*before[-1], loss) if before else None


def _edge(arm: Arm, baseline: Arm) -> str | None:
    for one in (arm, baseline):
        if one.rate_at_edge:
            return f"The best learning rate of {one.name}, {one.run.learning_rate:g}, is at the edge of those tried."
    return None
