"""From a plan to its jobs, and from the folders of the runs to the results of a comparison."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attnlab.corpora import Corpus
from attnlab.errors import AttnlabError, FileError
from attnlab.experiments.judging.judgement import Judgement, Procedure, judge
from attnlab.experiments.judging.settling import withhold
from attnlab.experiments.launching.launcher import Job
from attnlab.experiments.launching.usage import read_peak
from attnlab.experiments.planning.plan import Arm, Plan, Rung
from attnlab.experiments.results import ArmResult, Cell, RungResult
from attnlab.lens import measures_of_run
from attnlab.lens.runs import heads_of_run
from attnlab.runs import RunDirectory
from attnlab.training import RunSpec

_POINTS = 100  # of a training curve in a report


def jobs_of(plan: Plan, folder: Path, seeds: tuple[int, ...]) -> list[Job]:
    """Return every arm at every seed, seed by seed, so that what is there after an interruption is paired.

    Within a seed the longest runs come first, so that the short ones fill the last gaps.
    """
    specs = []
    for seed in seeds:
        specs += [(arm.at(seed), arm.name, True) for arm in plan.arms]
        for rung in reversed(plan.lower):
            specs += [(arm.at(seed), f"{arm.name} at {rung.name}", False) for arm in rung.arms]
    return [
        Job(number, spec, folder / plan.runs_folder, label, measured=measured)
        for number, (spec, label, measured) in enumerate(specs)
    ]


def collect(
    plan: Plan, folder: Path, seeds: tuple[int, ...], corpus: Corpus, cache: Path | None = None
) -> tuple[ArmResult, ...]:
    """Return the results of all arms at the largest size, whose runs have ended."""
    return tuple(
        ArmResult(arm, tuple(_cell(plan, arm, seed, folder / plan.runs_folder, corpus, cache) for seed in seeds))
        for arm in plan.arms
    )


def collect_rung(plan: Plan, rung: Rung, folder: Path, seeds: tuple[int, ...], corpus: Corpus) -> RungResult:
    """Return the results of a lower rung, judged by its own share of the tests."""
    arms = tuple(
        ArmResult(
            arm,
            tuple(_cell(plan, arm, seed, folder / plan.runs_folder, corpus, None, measured=False) for seed in seeds),
        )
        for arm in rung.arms
    )
    return RungResult(
        rung, arms, judge_rung(plan, None if rung.halved else rung.size, rung.procedure, arms, witnesses=False)
    )


def judge_rung(
    plan: Plan, size: str | None, procedure: Procedure, arms: Sequence[ArmResult], *, witnesses: bool = True
) -> tuple[Judgement, ...]:
    """Return the judgements of one size, the baseline being the first arm; `unsettled` where the runs are too short.

    Without a size, as with half the tokens, nothing is known of the noise from a pilot.
    """
    seeds = [cell.seed for cell in arms[0].cells]
    noise = {} if size is None else plan.pilot.apart_from(seeds).noise(size)
    judgements = judge(losses_of(arms), arms[0].name, procedure, noise=noise, witnesses=witnesses)
    return withhold(judgements, arms, plan.bigram_loss)


def losses_of(arms: Sequence[ArmResult]) -> dict[str, dict[int, float | None]]:
    """Return the final losses by arm and seed; None for a run that diverged."""
    return {arm.name: {cell.seed: cell.loss for cell in arm.cells} for arm in arms}


def check_runs(plan: Plan, folder: Path, seeds: tuple[int, ...], corpus: Corpus) -> None:
    """Refuse runs that lie in the place of the plan's and are others."""
    for job in jobs_of(plan, folder, seeds):
        path = job.out / job.spec.name(corpus)
        if not RunDirectory.exists(path):
            continue
        record = RunDirectory.open(path).record
        if not _is_recorded(job.spec, record) or record["corpus"]["hash"] != plan.corpus_hash:
            raise FileError(
                f"{path} is a run of another plan: it trains something else than its place says",
                hint="move it away, or compare in another folder with --out DIR",
            )


def _is_recorded(spec: RunSpec, record: Mapping[str, Any]) -> bool:
    """Return whether a run's record is that of a spec; fields that were added to specs since are at their defaults."""
    try:
        return RunSpec(**record["spec"]) == spec
    except (AttnlabError, LookupError, TypeError):
        return False


def _cell(
    plan: Plan, arm: Arm, seed: int, folder: Path, corpus: Corpus, cache: Path | None, *, measured: bool = True
) -> Cell:
    spec = arm.at(seed)
    directory = RunDirectory.open(folder / spec.name(corpus))
    result = directory.result
    if result is None:
        raise FileError(f"{directory.path} has not ended", hint="run `attnlab compare` again to resume it")
    metrics = list(directory.metrics())
    finished = result["outcome"] == "finished"
    return Cell(
        arm=arm.name,
        seed=seed,
        outcome="finished" if finished else "diverged",
        path=directory.path,
        command=command_of(spec, plan),
        loss=result["validation_loss"] if finished else None,
        message=result.get("message"),
        curve=tuple((entry["step"], entry["validation_loss"]) for entry in metrics if "validation_loss" in entry),
        training_curve=tuple(_thinned([(entry["step"], entry["loss"]) for entry in metrics if "loss" in entry])),
        seconds=result["seconds"],
        tokens_per_second=result.get("tokens_per_second"),
        peak_bytes=read_peak(directory.path),
        weights_sha256=result.get("weights_sha256"),
        measures=_measures(directory.path, cache) if finished and measured else {},
        heads=_heads(directory.path, cache) if finished and measured else {},
    )


def command_of(spec: RunSpec, plan: Plan) -> str:
    """The command that trains this one run again."""
    words = ["attnlab", "train", "--variant", spec.variant, "--recipe", spec.recipe, "--size", spec.size]
    words += ["--corpus", spec.corpus.name, "--tokenizer", spec.corpus.tokenizer]
    if spec.corpus.vocabulary_size is not None:
        words += ["--vocabulary-size", str(spec.corpus.vocabulary_size)]
    for name, option in spec.corpus.options.items():
        words += ["--corpus-option", f"{name}={option}"]
    words += ["--steps", str(spec.steps), "--seed", str(spec.seed)]
    words += ["--threads", str(plan.threads), "--workers", "1"]
    named = {"variant", "recipe", "size", "corpus", "steps", "seed"}
    for name, value in spec.model_dump(exclude=named, exclude_none=True).items():
        words += ["--change", f"{name}={value['kind'] if isinstance(value, Mapping) else value}"]
    if plan.request.variants_from is not None:
        words += ["--variants-from", plan.request.variants_from]
    return shlex.join(words)


def _thinned(points: list[tuple[int, float]]) -> Iterator[tuple[int, float]]:
    """A curve as means over stretches of it."""
    width = -(-len(points) // _POINTS) or 1
    for start in range(0, len(points), width):
        stretch = points[start : start + width]
        yield stretch[-1][0], sum(loss for _, loss in stretch) / len(stretch)


def _measures(path: Path, cache: Path | None) -> dict[str, float]:
    """What the lens says of a finished run. It is measured now if it was not before, as after a worker's death."""
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
