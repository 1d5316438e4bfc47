"""One stage of training in its run directory: its folder, its number of steps, computed in advance, and the engine."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from attnlab.errors import AttnlabError, SpecError
from attnlab.formats import file_name
from attnlab.knowledge.answers.model import KnowledgeModel
from attnlab.knowledge.material import Material, read_record, write_record
from attnlab.knowledge.training.recipes import KnowledgeRecipe, StageSettings
from attnlab.knowledge.training.rows import RowCorpus
from attnlab.models import ModelSpec
from attnlab.processes.memory import keep_memory
from attnlab.runs import RunDirectory
from attnlab.runs.ledger import DEFAULT_ROOT
from attnlab.training import Execution, Reporter, ResolvedRun, RunResult, Saving, choose_execution
from attnlab.training.engine import Engine
from attnlab.training.run import StoppedError, train_on

_EVALUATIONS = 5
_VALIDATION_ROWS = 256
_MEASURED_SECONDS, _LEAST_STEPS = 3.0, 4
_FOR_STEPS = 0.9  # share of the minutes; the rest is for validation, checkpoints and a machine that slows down

StageName = Literal["pretrain", "finetune", "learn"]

# Fields that do not affect a stage; they are left out of its folder's name, so that the same stage is found again.
_SHARES = {"pretraining_share", "finetuning_share"}
_IRRELEVANT: dict[StageName, set[str]] = {
    "pretrain": {"finetuning", "epochs_alone", "synthetic_qa", "unseen_entities", *_SHARES},
    "finetune": _SHARES,
    "learn": {"epochs_alone", *_SHARES},
}


class StageDivergedError(AttnlabError):
    """A stage whose loss has become NaN or infinite."""


@dataclass(frozen=True)
class Length:
    """The length of a stage: at most one of these; without one, the recipe's own."""

    epochs: int | None = None
    steps: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        given = {name: value for name, value in vars(self).items() if value is not None}
        if len(given) > 1:
            raise SpecError(f"a stage has {' or '.join(given)}, not both", hint="leave one of them out")
        for name, value in given.items():
            if not (value > 0 and math.isfinite(value)):
                raise SpecError(f"{value} {name} cannot be", hint="use a number above 0")


@dataclass(frozen=True)
class Options:
    """Where a stage writes its run, how it reports progress, and how it uses the machine."""

    out: Path = DEFAULT_ROOT
    seed: int = 0
    reporter: Reporter | None = None
    saving: Saving | None = None
    wishes: Mapping[str, Any] = field(default_factory=dict)  # of `choose_execution`


def run_path(options: Options, stage: StageName, recipe: KnowledgeRecipe, length: Length, made_of: str) -> Path:
    """Return the folder of a stage: the same for the same request, so that asking again resumes it."""
    asked = f"{recipe.model_dump_json(exclude=_IRRELEVANT[stage])}{length}{options.seed}{made_of}"
    short = hashlib.sha256(asked.encode()).hexdigest()[:8]
    return options.out / f"knowledge-{stage}-{file_name(recipe.variant, 40)}-{recipe.name}-seed{options.seed}-{short}"


def train_stage(
    stage: StageName,
    recipe: KnowledgeRecipe,
    settings: StageSettings,
    length: Length,
    material: Material,
    make_corpus: Callable[[], RowCorpus],
    options: Options,
    *,
    parent: KnowledgeModel | None = None,
) -> RunResult:
    """Train one stage, from the weights of `parent` if there is one, or resume it; raise where no model comes of it."""
    weights = "" if parent is None else weights_digest(parent.path)
    path = run_path(options, stage, recipe, length, material.hash + weights)
    if RunDirectory.exists(path) and RunDirectory.open(path).result is not None:
        return _checked(RunResult.of_ended(RunDirectory.open(path)))
    keep_memory()
    corpus = make_corpus()
    model = recipe.model(corpus.vocabulary_size)
    if RunDirectory.exists(path):
        read_record(path)
        resolved = _resolve(settings, model, Execution(), 1, options.seed)  # `Execution` of the folder is what counts
    else:
        execution = choose_execution(settings.batch_size, **options.wishes)
        torch.set_num_threads(execution.threads)
        steps = _steps(settings, model, length, corpus, execution, options.seed)
        resolved = _resolve(settings, model, execution, steps, options.seed)
        material.write(path)
        write_record(path, _record(stage, recipe, length, material, None if parent is None else parent.path))
    spec = {"variant": recipe.variant, "recipe": recipe.name, "size": stage, "seed": options.seed}
    record = {"spec": {**spec, "steps": resolved.steps}}
    start = None if parent is None else parent.model.state_dict
    return _checked(
        train_on(corpus, path, resolved, record, start=start, reporter=options.reporter, saving=options.saving)
    )


def weights_digest(run: Path) -> str:
    return str((RunDirectory.open(run).result or {}).get("weights_sha256"))


def _record(
    stage: StageName, recipe: KnowledgeRecipe, length: Length, material: Material, parent: Path | None
) -> dict[str, object]:
    return {
        "stage": stage,
        "parent": None if parent is None else str(parent.absolute()),
        "recipe": recipe.name,
        "settings": recipe.model_dump(mode="json"),
        "length": {name: value for name, value in vars(length).items() if value is not None},
        "question": {"before": material.template.before, "after": material.template.after},
        "documents": len(material.documents),
        "pairs": {
            "train": len(material.train),
            "heldout": len(material.heldout),
            "calibration": len(material.calibration),
            "practice": len({pair.question for pair in material.synthetic}),
        },
        "material_sha256": material.hash,
    }


def _checked(result: RunResult) -> RunResult:
    if result.outcome == "diverged":
        raise StageDivergedError(f"{result.path} diverged: {result.message}", hint="use the recipe's own learning rate")
    if result.outcome == "stopped":
        raise StoppedError(result)
    return result


def _resolve(settings: StageSettings, model: ModelSpec, execution: Execution, steps: int, seed: int) -> ResolvedRun:
    return ResolvedRun(
        model=model,
        optimizer=settings.optimizer,
        schedule=settings.schedule,
        clip=settings.clip,
        steps=steps,
        batch_size=settings.batch_size,
        seed=seed,
        evaluate_every=max(1, steps // _EVALUATIONS),
        validation_rows=_VALIDATION_ROWS,
        execution=execution,
    )


def _steps(
    settings: StageSettings, model: ModelSpec, length: Length, corpus: RowCorpus, execution: Execution, seed: int
) -> int:
    """Return how many steps a stage has in all."""
    if length.steps is not None:
        return length.steps
    if length.minutes is not None:
        fitting = int(length.minutes * 60 * _FOR_STEPS / step_seconds(settings, model, corpus, execution, seed))
        most = (
            None if settings.most_epochs is None else settings.most_epochs * corpus.steps_per_epoch(settings.batch_size)
        )
        return max(1, fitting if most is None else min(fitting, most))
    return (length.epochs or settings.epochs) * corpus.steps_per_epoch(settings.batch_size)


def step_seconds(
    settings: StageSettings, model: ModelSpec, corpus: RowCorpus, execution: Execution, seed: int
) -> float:
    """Estimate the seconds of an average step from a few steps of one process, by their tokens, pads included."""
    share = max(1, settings.batch_size // execution.workers)
    alone = execution.model_copy(update={"workers": 1})
    run = _resolve(settings.replace(batch_size=share), model, alone, 1_000_000, seed)
    engine = Engine.build(run, corpus)
    engine.step(0)  # the first step is slower
    begin, number, tokens = time.perf_counter(), 1, 0
    while number <= _LEAST_STEPS or time.perf_counter() - begin < _MEASURED_SECONDS:
        engine.step(number)
        batch = corpus.batch(seed=seed, step=number, batch_size=share, context_length=model.context_length)
        tokens += batch.inputs.numel()
        number += 1
    return (time.perf_counter() - begin) / tokens * corpus.tokens_per_step(share, model.context_length)
