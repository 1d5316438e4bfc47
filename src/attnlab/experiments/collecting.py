"""From the folders of the runs to what a comparison found."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from attnlab.corpora import Corpus
from attnlab.errors import FileError
from attnlab.experiments.launching import Job
from attnlab.experiments.plan import Arm, Plan
from attnlab.experiments.results import ArmResult, Cell
from attnlab.experiments.usage import read_peak
from attnlab.lens import measures_of_run
from attnlab.lens.run_heads import heads_of_run
from attnlab.training import RunDirectory, RunSpec

RUNS = "runs"
_POINTS = 100  # of a training curve in a report


def jobs_of(plan: Plan, folder: Path, seeds: tuple[int, ...]) -> list[Job]:
    """Every arm at every seed, seed by seed, so that what is there after an interruption is paired."""
    pairs = [(arm, seed) for seed in seeds for arm in plan.arms]
    return [Job(number, arm.at(seed), folder / RUNS, arm.name) for number, (arm, seed) in enumerate(pairs)]


def collect(
    plan: Plan, folder: Path, seeds: tuple[int, ...], corpus: Corpus, cache: Path | None = None
) -> tuple[ArmResult, ...]:
    """All runs of a plan, which have ended."""
    return tuple(
        ArmResult(arm, tuple(_cell(plan, arm, seed, folder / RUNS, corpus, cache) for seed in seeds))
        for arm in plan.arms
    )


def check_runs(plan: Plan, folder: Path, seeds: tuple[int, ...], corpus: Corpus) -> None:
    """Refuse runs that lie in the place of the plan's and are others."""
    for job in jobs_of(plan, folder, seeds):
        path = job.out / job.spec.name(corpus)
        if not RunDirectory.exists(path):
            continue
        record = RunDirectory.open(path).record
        if record.get("spec") != job.spec.model_dump(mode="json") or record["corpus"]["hash"] != plan.corpus_hash:
            raise FileError(
                f"{path} is a run of another plan: it trains something else than its place says",
                hint="move it away, or compare in another folder with --out DIR",
            )


def _cell(plan: Plan, arm: Arm, seed: int, folder: Path, corpus: Corpus, cache: Path | None) -> Cell:
    spec = arm.at(seed)
    directory = RunDirectory.open(folder / spec.name(corpus))
    result = directory.result
    if result is None:
        raise FileError(f"{directory.path} has not ended", hint="call `attnlab compare` again: it goes on")
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
        measures=_measures(directory.path, cache) if finished else {},
        heads=_heads(directory.path, cache) if finished else {},
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
