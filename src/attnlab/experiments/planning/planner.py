"""From a request to a plan: rungs, arms, learning rates, costs, noise, power and time.

Whatever is measured on the way (trials of learning rates, a pilot, the time of a step) is measured here, before the
first run of the comparison, and kept with the plan.
"""

from __future__ import annotations

import datetime
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from attnlab.corpora import Corpus, CorpusSpec, bigram_loss
from attnlab.cost import model_cost
from attnlab.errors import SpecError
from attnlab.experiments.launching.jobs import Launcher, LaunchListener
from attnlab.experiments.planning.budgets import bare_parameters, budget, check_text, match, on_rung, usual_rate
from attnlab.experiments.planning.pilot import find_noise, recorded_noise, recorded_rates
from attnlab.experiments.planning.plan import METRIC, Arm, CostMatch, Plan, Rung, Trial
from attnlab.experiments.planning.procedure import Procedure, Sensitivity, planned_effect, rung_shares
from attnlab.experiments.planning.rate_search import search_rates
from attnlab.experiments.request import DEFAULT_TOKENS, Request, sha256_of
from attnlab.models.sizes import non_embedding
from attnlab.models.sizes import size as size_by_name
from attnlab.processes.machine import using_threads
from attnlab.statistics import upper_sd
from attnlab.training import Execution, ResolvedRun, RunSpec, treatment
from attnlab.training.fitting import step_seconds

UNCHECKED = "Your own variants were trained without the check for leaks and lost gradients."
_RECORDED = f"a recorded search (docs/log.md), at {DEFAULT_TOKENS:g} tokens per parameter"
_EVALUATIONS = 4  # of a run, unless it says otherwise
_VALIDATION_TOKENS = 65_536
_TIMING_SECONDS = 0.4  # for each arm
EVALUATION = 1 / 3  # of the time that training on the same tokens takes
_START_SECONDS = 5.0  # of the processes
CROWDED = 1.15  # how much longer a step takes when all cores are busy
_times: dict[tuple[str, str, int, int], float] = {}  # of a step, in this process
Trials = Mapping[str, Mapping[str, tuple[Trial, ...]]]  # of learning rates, by size and arm


def make_plan(
    request: Request,
    corpus: Corpus,
    folder: Path,
    launcher: Launcher,
    listener: LaunchListener,
    runs_folder: str = "runs",
    trials: Trials | None = None,
) -> Plan:
    """Return the plan of a request; trials and pilot runs go below `folder`, the plan's runs into `runs_folder`.

    `trials` are those of the request's learning rates, where they were searched before.
    """
    _check_limits(request)
    known = trials or {}
    untimed = _with_trials(arms_at(request, request.size, 1.0, corpus), known.get(request.size, {}))
    if request.tune:
        untimed = _tuned(untimed, request, corpus, folder, launcher, listener)
    untimed += _matched(untimed, request, corpus)
    listener.note("timing a few steps of each arm")
    arms = _timed(untimed, corpus, launcher.threads)
    lower = _lower_rungs(request, corpus, launcher.threads, known)
    seeds = tuple(range(request.first_seed, request.first_seed + request.seeds))
    procedure = _procedure(request, rung_shares(len(request.rungs))[-1])
    pilot = find_noise(arms, lower, request, folder / "pilot", launcher, listener)
    likely = upper_sd(pilot.sd, pilot.degrees)
    noise = pilot.apart_from(seeds).noise(request.size)
    pooled = min(noise[arm.name].degrees if arm.name in noise else 0 for arm in arms[1:])
    expected = planned_effect(likely, len(seeds), len(arms) - 1, procedure, known=pooled)
    run = arms[0].run.resolve(corpus, Execution())
    return Plan(
        request=request,
        arms=arms,
        lower=lower,
        non_embedding=bare_parameters(run.model),
        tokens=run.steps * run.tokens_per_step,
        context_length=run.model.context_length,
        bytes_per_token=corpus.bytes_per_token,
        seeds=seeds,
        steps=run.steps,
        metric=METRIC,
        procedure=procedure,
        pilot=pilot,
        detectable=expected.detectable,
        smallest_p=expected.smallest_p,
        equivalence_power=expected.equivalence_power,
        seeds_for_margin=expected.seeds_for_margin,
        predicted_minutes=_minutes([arms, *(rung.arms for rung in lower)], len(seeds), corpus, launcher.processes),
        processes=launcher.processes,
        threads=launcher.threads,
        corpus_hash=corpus.hash,
        bigram_loss=bigram_loss(corpus, run.model.context_length, run.validation_rows),
        warnings=(*([UNCHECKED] if request.unchecked else ()), *expected.warnings, *_edges(arms)),
        runs_folder=runs_folder,
        python=platform.python_version(),
        sources=_sources(request),
        made=datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
    )


def recorded_effect(request: Request) -> Sensitivity:
    """Return what the largest rung can show by the recorded noise, before anything is tried or timed."""
    noise = recorded_noise(request)
    procedure = _procedure(request, rung_shares(len(request.rungs))[-1])
    arms = len(_trained_at(request, request.size))
    return planned_effect(noise.sd, request.seeds, arms, procedure, degrees=noise.degrees)


def _procedure(request: Request, share: float) -> Procedure:
    """Return the tests of one rung, which has this share of the chance of a false verdict."""
    return Procedure(alpha=request.alpha * share, looks=request.looks, margin=request.margin_nats)


def _lower_rungs(request: Request, corpus: Corpus, threads: int, trials: Trials) -> tuple[Rung, ...]:
    """Return the rungs below the largest, ascending; with half the tokens first where that is asked for."""
    wanted = [(size, share) for size in request.rungs for share in ((0.5, 1.0) if request.half_tokens else (1.0,))]
    alpha = rung_shares(len(request.rungs))[0]  # halved rungs are shown and their verdicts are not counted
    rungs = []
    for size, share in wanted:
        known = trials.get(size, {}) if share == 1 else {}
        arms = _timed(_with_trials(arms_at(request, size, share, corpus), known), corpus, threads)
        run = arms[0].run.resolve(corpus, Execution())
        rungs.append(
            Rung(
                name=size if share == 1 else f"{size}, half the tokens",
                size=size,
                parameters=arms[0].parameters,
                non_embedding=bare_parameters(run.model),
                tokens=run.steps * run.tokens_per_step,
                halved=share != 1,
                arms=arms,
                procedure=_procedure(request, alpha),
            )
        )
    return tuple(rungs)


def corpus_spec(request: Request) -> CorpusSpec:
    """Return the corpus that a request names."""
    return CorpusSpec(
        name=request.corpus,
        tokenizer=request.tokenizer,
        vocabulary_size=request.vocabulary_size,
        options=request.corpus_options,
    )


def arms_at(request: Request, size: str, share: float, corpus: Corpus, *, recorded: bool = True) -> list[Arm]:
    """Return the baseline and the variants at one size, not timed yet, with the rates that are known to suit them.

    `share` is that of the ladder's tokens which these runs are trained on. Without `recorded`, only rates that the
    request itself names are known.
    """
    base = _base(request, size, share, corpus)
    known = request.rates.get(size, {}) or (recorded_rates(request, size) if recorded else {})
    on_ladder = recorded and request.tokens_per_parameter is not None
    arms = []
    for name in (request.baseline, *_trained_at(request, size)):
        change = treatment(name)
        run = change.change(base)
        if request.starts:
            run = run.replace(start=request.starts[name])
        if run.learning_rate is not None:
            rate_from = "as requested"
        elif name in known:
            run = run.replace(learning_rate=known[name])
            rate_from = "searched for at this size" if request.rates else _RECORDED
        elif request.baseline in known:
            run = run.replace(learning_rate=known[request.baseline])
            rate_from = "the baseline's, not tuned for this arm"
        elif on_ladder and run.recipe == "gpt2" and run.optimizer is None:
            count = model_cost(treatment(request.baseline).change(base).model(corpus)).parameters
            run = run.replace(learning_rate=usual_rate(count))
            rate_from = "usual at this size, not searched for this arm"
        else:
            rate_from = "the recipe's own, not tuned for this arm"
        arms.append(_arm(change.name, change.meaning, run, rate_from, corpus))
    _check_alike(arms, corpus)
    _check_windows(arms, corpus)
    return arms


def _arm(name: str, meaning: str, run: RunSpec, rate_from: str, corpus: Corpus, match: CostMatch | None = None) -> Arm:
    """Return an arm with its counted cost, before its steps are timed."""
    resolved = run.resolve(corpus, Execution())
    cost = model_cost(resolved.model, batch=resolved.batch_size)
    return Arm(
        name=name,
        meaning=meaning,
        run=run,
        rate_from=rate_from,
        parameters=cost.parameters,
        training_flops=cost.useful_training_flops,
        cache_bytes=model_cost(resolved.model).cache_bytes(resolved.model.context_length),
        step_seconds=0.0,
        matching=match,
    )


def _timed(arms: Sequence[Arm], corpus: Corpus, threads: int) -> tuple[Arm, ...]:
    """Return the arms with the seconds of a step of each."""
    execution = Execution(threads=threads)
    return tuple(
        arm.model_copy(update={"step_seconds": time_step(arm.run.resolve(corpus, execution), corpus, threads)})
        for arm in arms
    )


def _with_trials(arms: Sequence[Arm], trials: Mapping[str, tuple[Trial, ...]]) -> list[Arm]:
    return [arm.model_copy(update={"trials": trials.get(arm.name, ())}) for arm in arms]


def _check_limits(request: Request) -> None:
    """Refuse a variant that would be trained nowhere."""
    smallest = request.rungs[0] if request.rungs else request.size
    for name, limit in request.up_to.items():
        if name not in _trained_at(request, smallest):
            raise SpecError(
                f"{name} is trained up to {limit}, and the smallest rung is {smallest}",
                hint="raise its limit, or leave the variant out",
            )


def _trained_at(request: Request, size: str) -> list[str]:
    """Return the variants that are trained at this size."""
    here = non_embedding(size_by_name(size))
    largest = {name: non_embedding(size_by_name(limit)) for name, limit in request.up_to.items()}
    found = [name for name in request.variants if largest.get(name, here) >= here]
    if not found:
        raise SpecError(f"no variant is trained at {size}", hint="raise up_to of one of them, or leave the rung out")
    return found


def _base(request: Request, size: str, share: float, corpus: Corpus) -> RunSpec:
    """Return what all arms at one size have in common."""
    start = request.starts.get(request.baseline)
    run = RunSpec(recipe=request.recipe, size=size, corpus=corpus.spec, steps=request.steps, start=start)
    for change in request.changes:
        run = treatment(change).change(run)
    if run.minutes is not None:
        raise SpecError("arms that run for equal minutes take unequal steps", hint="give steps instead of minutes")
    if request.tokens_per_parameter is not None:
        baseline = treatment(request.baseline).change(run).model(corpus)
        trained = budget(baseline, request.tokens_per_parameter, request.least_tokens, share)
        check_text(trained, corpus)
        run = on_rung(run, baseline, trained)
    whole = run.resolve(corpus, Execution())
    return run.replace(
        steps=whole.steps,
        evaluate_every=run.evaluate_every or max(1, whole.steps // _EVALUATIONS),
        validation_rows=run.validation_rows or max(1, _VALIDATION_TOKENS // whole.model.context_length),
    )


def _check_alike(arms: Sequence[Arm], corpus: Corpus) -> None:
    """Refuse arms that see different data, which cannot be paired."""
    first, *others = (arm.run.resolve(corpus, Execution()) for arm in arms)
    for arm, run in zip(arms[1:], others, strict=True):
        for name, ours, theirs in (
            ("steps", run.steps, first.steps),
            ("batch_size", run.batch_size, first.batch_size),
            ("context_length", run.model.context_length, first.model.context_length),
        ):
            if ours != theirs:
                raise SpecError(
                    f"{arm.name} has {name} {ours} and the baseline {theirs}: they would not see the same data",
                    hint=f"change all arms alike, with `change={name}={theirs}`",
                )


def _check_windows(arms: Sequence[Arm], corpus: Corpus) -> None:
    """Refuse a window that hides nothing: its arm would be the arm without it, under another name."""
    for arm in arms:
        model = arm.run.model(corpus)
        idle = next((spec.mask for spec in model.attention if spec.mask.is_idle(model.context_length)), None)
        if idle is not None:
            raise SpecError(
                f"{arm.name} has a window of {idle.window} tokens, which hides nothing in a context of "
                f"{model.context_length}",
                hint="give a window shorter than the context, or change all arms to a longer context_length",
            )


def _tuned(
    arms: Sequence[Arm],
    request: Request,
    corpus: Corpus,
    folder: Path,
    launcher: Launcher,
    listener: LaunchListener,
) -> list[Arm]:
    """Return the arms with the rates that a search finds best."""
    listener.note(f"{request.tune} learning rates for each of {len(arms)} arms")
    runs = [arm.run for arm in arms]
    tuned = search_rates(runs, request.tune, request.tune_seeds, corpus, folder / "tuning", launcher, listener)
    return [
        arm.model_copy(
            update={
                "run": found.run,
                "trials": found.trials,
                "rate_from": f"the best of {len(found.trials)} that were tried",
            }
        )
        for arm, found in zip(arms, tuned, strict=True)
    ]


def _matched(arms: Sequence[Arm], request: Request, corpus: Corpus) -> list[Arm]:
    """Return each variant once more, made equal to the baseline, where it is not so already."""
    if request.match is None:
        return []
    found = []
    for arm in arms[1:]:
        matched = match(arm.run, arms[0].run, request.match, corpus)
        if matched is None:
            continue
        run, equal = matched
        meaning = f"{arm.meaning} With {equal.field} {equal.value}, for equal {request.match}."
        twin = _arm(f"{arm.name} [{request.match}]", meaning, run, arm.rate_from, corpus, equal)
        found.append(twin.model_copy(update={"trials": arm.trials}))
    return found


def time_step(run: ResolvedRun, corpus: Corpus, threads: int) -> float:
    """Return the seconds of a step. Each model is timed once in a process, as while a form is filled in."""
    key = (run.model.model_dump_json(), run.optimizer.model_dump_json(), run.batch_size, threads)
    if key not in _times:
        with using_threads(threads):
            _times[key] = step_seconds(run, corpus, _TIMING_SECONDS)
    return _times[key]


def _minutes(rungs: Sequence[Sequence[Arm]], seeds: int, corpus: Corpus, processes: int) -> float:
    seconds = 0.0
    for arm in (arm for arms in rungs for arm in arms):
        run = arm.run.resolve(corpus, Execution())
        evaluations = -(-run.steps // run.evaluate_every)
        tokens = min(run.validation_rows * run.model.context_length, corpus.validation_tokens)
        evaluating = evaluations * tokens / run.tokens_per_step * EVALUATION
        seconds += seeds * (run.steps + evaluating) * arm.step_seconds
    return round((_START_SECONDS + seconds * (CROWDED if processes > 1 else 1.0) / processes) / 60, 2)


def _edges(arms: Sequence[Arm]) -> list[str]:
    """Return a warning of arms whose best rate lies at the end of those that were tried."""
    names = [arm.name for arm in arms if arm.rate_at_edge]
    if not names:
        return []
    return [f"The best learning rate of {', '.join(names)} is the last that was tried: a better one may lie beyond."]


def _sources(request: Request) -> dict[str, str]:
    """Return the file that the text comes from. What a folder holds is not kept, so it is read again every time."""
    path = Path(request.corpus)
    if not path.exists():
        return {}
    return {str(path): sha256_of(path) if path.is_file() else "a folder"}
