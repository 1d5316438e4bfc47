"""From a request to a plan: the arms, their rates, what they cost, how noisy they are, what can be found, how long it
takes.

Whatever is measured on the way (trials of learning rates, a pilot, the time of a step) is measured here, before the
first run of the comparison, and kept with the plan.
"""

from __future__ import annotations

import datetime
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from attnlab.corpora import Corpus, CorpusSpec, bigram_loss
from attnlab.cost import model_cost
from attnlab.errors import SpecError
from attnlab.experiments.defaults import PICO, Setting, setting_of
from attnlab.experiments.launching import Launcher, LaunchListener
from attnlab.experiments.matching import match
from attnlab.experiments.pilot import find_noise
from attnlab.experiments.plan import METRIC, Arm, Matching, Plan, Trial
from attnlab.experiments.procedure import Procedure, planned_effect
from attnlab.experiments.request import Request, sha256_of
from attnlab.experiments.tuning import tune
from attnlab.statistics import upper_sd
from attnlab.training import Execution, ResolvedRun, RunSpec, treatment
from attnlab.training.machine import using_threads
from attnlab.training.timing import step_seconds

_TIMING_SECONDS = 0.4  # for each arm
_EVALUATION = 1 / 3  # of the time that training on the same tokens takes
_START_SECONDS = 5.0  # of the processes
_CROWDED = 1.15  # how much longer a step takes when all cores are busy
_times: dict[tuple[str, str, int, int], float] = {}  # of a step, in this process


@dataclass(frozen=True)
class _Draft:
    """An arm before everything is known about it."""

    name: str
    meaning: str
    run: RunSpec
    rate_from: str
    trials: tuple[Trial, ...] = ()
    matching: Matching | None = None


def make_plan(request: Request, corpus: Corpus, folder: Path, launcher: Launcher, listener: LaunchListener) -> Plan:
    """The plan of a request; trials and pilot runs go below `folder`."""
    drafts = _drafts(request, setting_of(request), corpus)
    if request.tune:
        drafts = _tuned(drafts, request, corpus, folder, launcher, listener)
    drafts += _matched(drafts, request, corpus)
    seeds = tuple(range(request.first_seed, request.first_seed + request.seeds))
    procedure = Procedure(alpha=request.alpha, looks=request.looks, margin=request.margin_nats)
    listener.note("timing a few steps of each arm")
    arms = tuple(_arm(draft, corpus, launcher.threads) for draft in drafts)
    pilot = find_noise(arms, request, folder / "pilot", launcher, listener)
    likely = upper_sd(pilot.sd, pilot.degrees)
    expected = planned_effect(likely, len(seeds), len(arms) - 1, procedure)
    run = arms[0].run.resolve(corpus, Execution())
    return Plan(
        request=request,
        arms=arms,
        seeds=seeds,
        steps=run.steps,
        metric=METRIC,
        procedure=procedure,
        pilot=pilot,
        detectable=expected.detectable,
        smallest_p=expected.smallest_p,
        seeds_for_margin=expected.seeds_for_margin,
        predicted_minutes=_minutes(arms, len(seeds), corpus, launcher.processes),
        processes=launcher.processes,
        threads=launcher.threads,
        corpus_hash=corpus.hash,
        bigram_loss=bigram_loss(corpus, run.model.context_length, run.validation_rows),
        warnings=(*expected.warnings, *_edges(drafts)),
        python=platform.python_version(),
        sources=_sources(request),
        made=datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
    )


def corpus_spec(request: Request) -> CorpusSpec:
    return CorpusSpec(
        name=request.corpus,
        tokenizer=request.tokenizer,
        vocabulary_size=request.vocabulary_size,
        options=request.corpus_options,
    )


def _drafts(request: Request, setting: Setting | None, corpus: Corpus) -> list[_Draft]:
    """The baseline and the variants, with the rates that are known to suit them."""
    base = _base(request, setting, corpus)
    drafts = []
    for name in (request.baseline, *request.variants):
        change = treatment(name)
        run = change.change(base)
        rate_from = "the recipe's own, which was not tuned for this variant"
        if run.learning_rate is not None:
            rate_from = "as asked for"
        elif setting is not None and name in setting.rates:
            run, rate_from = run.replace(learning_rate=setting.rates[name]), "a recorded search (docs/log.md)"
        drafts.append(_Draft(change.name, change.meaning, run, rate_from))
    _check_alike(drafts, corpus)
    return drafts


def _base(request: Request, setting: Setting | None, corpus: Corpus) -> RunSpec:
    """What all arms have in common."""
    run = RunSpec(recipe=request.recipe, size=request.size, corpus=corpus.spec, steps=request.steps)
    for change in request.changes:
        run = treatment(change).change(run)
    if run.minutes is not None:
        raise SpecError("arms that run for equal minutes take unequal steps", hint="give steps instead of minutes")
    if setting is not None:
        run = run.replace(steps=setting.steps, batch_size=setting.batch_size, warmup_steps=setting.warmup_steps)
    whole = run.resolve(corpus, Execution())
    return run.replace(
        steps=whole.steps,
        evaluate_every=run.evaluate_every or max(1, whole.steps // PICO.evaluations),
        validation_rows=run.validation_rows or max(1, PICO.validation_tokens // whole.model.context_length),
    )


def _check_alike(drafts: Sequence[_Draft], corpus: Corpus) -> None:
    """Arms that see different data cannot be paired."""
    first, *others = (draft.run.resolve(corpus, Execution()) for draft in drafts)
    for draft, run in zip(drafts[1:], others, strict=True):
        for name, ours, theirs in (
            ("steps", run.steps, first.steps),
            ("batch_size", run.batch_size, first.batch_size),
            ("context_length", run.model.context_length, first.model.context_length),
        ):
            if ours != theirs:
                raise SpecError(
                    f"{draft.name} has {name} {ours} and the baseline {theirs}: they would not see the same data",
                    hint=f"give both the same, such as --change {name}={theirs}",
                )


def _tuned(
    drafts: list[_Draft],
    request: Request,
    corpus: Corpus,
    folder: Path,
    launcher: Launcher,
    listener: LaunchListener,
) -> list[_Draft]:
    listener.note(f"{request.tune} learning rates for each of {len(drafts)} arms")
    runs = [draft.run for draft in drafts]
    tuned = tune(runs, request.tune, request.tune_seeds, corpus, folder / "tuning", launcher, listener)
    words = f"the best of {request.tune} that were tried for this plan"
    return [
        replace(draft, run=found.run, trials=found.trials, rate_from=words)
        for draft, found in zip(drafts, tuned, strict=True)
    ]


def _matched(drafts: Sequence[_Draft], request: Request, corpus: Corpus) -> list[_Draft]:
    """Each variant once more, made equal to the baseline, where it is not so already."""
    if request.match is None:
        return []
    found = []
    for draft in drafts[1:]:
        matched = match(draft.run, drafts[0].run, request.match, corpus)
        if matched is None:
            continue
        run, matching = matched
        meaning = f"{draft.meaning} With {matching.field} {matching.value}, for equal {request.match}."
        name = f"{draft.name} [{request.match}]"
        found.append(replace(draft, name=name, meaning=meaning, run=run, matching=matching))
    return found


def _arm(draft: _Draft, corpus: Corpus, threads: int) -> Arm:
    run = draft.run.resolve(corpus, Execution(threads=threads))
    cost = model_cost(run.model, batch=run.batch_size)
    one = model_cost(run.model)
    return Arm(
        name=draft.name,
        meaning=draft.meaning,
        run=draft.run,
        rate_from=draft.rate_from,
        parameters=cost.parameters,
        training_flops=cost.useful_training_flops,
        cache_bytes=one.cache_bytes(run.model.context_length),
        step_seconds=_timed(run, corpus, threads),
        trials=draft.trials,
        matching=draft.matching,
    )


def _timed(run: ResolvedRun, corpus: Corpus, threads: int) -> float:
    """How long a step takes. Of plans that are made one after another, as when a form is filled in, each model is timed
    once."""
    key = (run.model.model_dump_json(), run.optimizer.model_dump_json(), run.batch_size, threads)
    if key not in _times:
        with using_threads(threads):
            _times[key] = step_seconds(run, corpus, _TIMING_SECONDS)
    return _times[key]


def _minutes(arms: Sequence[Arm], seeds: int, corpus: Corpus, processes: int) -> float:
    seconds = 0.0
    for arm in arms:
        run = arm.run.resolve(corpus, Execution())
        evaluations = -(-run.steps // run.evaluate_every)
        tokens = min(run.validation_rows * run.model.context_length, corpus.validation_tokens)
        evaluating = evaluations * tokens / run.tokens_per_step * _EVALUATION
        seconds += seeds * (run.steps + evaluating) * arm.step_seconds
    return round((_START_SECONDS + seconds * (_CROWDED if processes > 1 else 1.0) / processes) / 60, 2)


def _edges(drafts: Sequence[_Draft]) -> list[str]:
    """Arms whose best rate lies at the end of what was tried."""
    at_the_edge = [
        draft.name
        for draft in drafts
        if len(draft.trials) > 1
        and draft.run.learning_rate in {draft.trials[0].learning_rate, draft.trials[-1].learning_rate}
    ]
    if not at_the_edge:
        return []
    names = ", ".join(at_the_edge)
    return [f"The best learning rate of {names} is the last that was tried: a better one may lie beyond."]


def _sources(request: Request) -> dict[str, str]:
    """The file that the text comes from. What a folder holds is not kept here, so it is read again every time."""
    path = Path(request.corpus)
    if not path.exists():
        return {}
    return {str(path): sha256_of(path) if path.is_file() else "a folder"}
