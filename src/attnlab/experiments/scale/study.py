"""Plan a scale study and carry it out: learning rates first, then a comparison over all rungs on every corpus.

    study = scale(ScaleRequest(variants=("tied-kv",), rungs=("14k", "25k", "55k")))

Everything that was trained is found again: the same call resumes after an interruption, and a study with more seeds,
rungs or variants on the same ladder trains only what is new.

The plan is what fits into the hours that there are. The FLOPs of every arm are counted (`cost`), the time of a step is
measured on this machine. If the whole does not fit, the study is reduced in a fixed order: fewer seeds, down to four;
fewer variants on the largest rung, the last named first; and finally one rung less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.corpora import Corpus, CorpusSpec, open_corpus
from attnlab.errors import SpecError
from attnlab.experiments.comparing import choose_launcher, compare, make_folder
from attnlab.experiments.launching.jobs import Launcher, LaunchListener
from attnlab.experiments.planning.budgets import bare_parameters, check_rungs
from attnlab.experiments.planning.planner import CROWDED, EVALUATION, arms_at, time_step
from attnlab.experiments.request import FEWEST_RUNGS, ScaleRequest
from attnlab.experiments.results import Comparison
from attnlab.experiments.scale.rates import NEIGHBOURS, RateTable, find_rates
from attnlab.experiments.scale.record import write_record
from attnlab.models.sizes import SIZES, non_embedding, parameter_count
from attnlab.models.sizes import size as size_by_name
from attnlab.runs.ledger import DEFAULT_ROOT
from attnlab.storage.locks import holding
from attnlab.storage.records import to_plain
from attnlab.training import Execution
from attnlab.training.limits import check_run

RATES, RUNS = "rates", "runs"
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

    @property
    def runs(self) -> int:
        """Return how many runs are compared, on all corpora."""
        return len(self.request.corpora) * self.request.seeds * sum(len(rung.arms) for rung in self.rungs)

    @property
    def trials(self) -> int:
        """Return how many runs the search for learning rates takes, roughly."""
        whole = [rung for rung in self.rungs if not rung.halved]
        tried = sum(trials_at(self.request, place) * len(rung.arms) for place, rung in enumerate(whole))
        return _searched(self.request) * tried

    @property
    def flops(self) -> float:
        """Return the FLOPs of all runs and trials."""
        runs = len(self.request.corpora) * self.request.seeds * sum(sum(rung.flops) for rung in self.rungs)
        whole = [rung for rung in self.rungs if not rung.halved]
        tried = sum(trials_at(self.request, place) * sum(rung.flops) for place, rung in enumerate(whole))
        return runs + _searched(self.request) * tried


@dataclass(frozen=True)
class CorpusStudy:
    """One corpus of a study: its rates and its comparison over all rungs."""

    corpus: str
    held_out: bool
    rates: RateTable
    comparison: Comparison


@dataclass(frozen=True)
class ScaleStudy:
    """A study that was carried out."""

    plan: StudyPlan
    path: Path
    corpora: tuple[CorpusStudy, ...]
    target: int  # non-embedding parameters

    @property
    def request(self) -> ScaleRequest:
        return self.plan.request


def scale(
    request: ScaleRequest,
    *,
    planned: Callable[[StudyPlan], None] | None = None,
    judged: Callable[[ScaleStudy], object] | None = None,
    out: Path = Path(DEFAULT_ROOT),
    on: str | Launcher = "local",
    where: Mapping[str, Any] | None = None,
    cache: Path | None = None,
    listener: LaunchListener | None = None,
) -> ScaleStudy:
    """Carry out a study, or resume it.

    `planned` is told the plan before the first run, `judged` what was found so far after every corpus but the last.
    """
    listener = listener or LaunchListener()
    works, corpora = _made_ready(request, on, where, cache)
    target = target_parameters(request)
    plan = plan_study(request, corpora, works)
    if planned is not None:
        planned(plan)
    path = out / plan.request.folder
    folder = path / plan.request.report_folder
    make_folder(folder)
    done: list[CorpusStudy] = []
    with holding(folder):
        write_record(folder, plan.request, plan_data(plan))
        for corpus in corpora:
            if done and judged is not None:
                judged(ScaleStudy(plan, path, tuple(done), target))
            done.append(_on_corpus(plan.request, corpus, path, done, works, cache, listener))
    return ScaleStudy(plan, path, tuple(done), target)


def _on_corpus(
    request: ScaleRequest,
    corpus: Corpus,
    path: Path,
    before: Sequence[CorpusStudy],
    works: Launcher,
    cache: Path | None,
    listener: LaunchListener,
) -> CorpusStudy:
    """Search the rates on one corpus, or take those of the first, and compare on all rungs."""
    name = corpus.spec.name
    held_out = name == request.held_out
    folder = corpus_folder(path, name)
    table = before[0].rates if held_out else _rates(request, corpus, folder, works, listener)
    comparison = compare(
        request.comparison(name, table.rates()),
        out=folder,
        runs_folder=f"../{RUNS}",
        trials=None if held_out else table.trials(),
        on=works,
        cache=cache,
        listener=listener,
    )
    return CorpusStudy(name, held_out, table, comparison)


def plan_data(plan: StudyPlan) -> dict[str, Any]:
    """Return a study's plan as plain values."""
    data = {
        "request": plan.request.model_dump(mode="json"),
        "rungs": plan.rungs,
        "rate_hours": plan.rate_hours,
        "run_hours": plan.run_hours,
        "hours": plan.hours,
        "processes": plan.processes,
        "reductions": plan.reductions,
    }
    plain: dict[str, Any] = to_plain(data)
    return plain


def search_only(
    request: ScaleRequest,
    *,
    out: Path = Path(DEFAULT_ROOT),
    on: str | Launcher = "local",
    where: Mapping[str, Any] | None = None,
    cache: Path | None = None,
    listener: LaunchListener | None = None,
) -> dict[str, RateTable]:
    """Search the learning rates of a study and nothing else; the study finds the trials again."""
    works, corpora = _made_ready(request, on, where, cache)
    path = out / request.folder
    return {
        corpus.spec.name: _rates(
            request, corpus, corpus_folder(path, corpus.spec.name), works, listener or LaunchListener()
        )
        for corpus in corpora
        if corpus.spec.name != request.held_out
    }


def _rates(request: ScaleRequest, corpus: Corpus, folder: Path, works: Launcher, listener: LaunchListener) -> RateTable:
    make_folder(folder / RATES)
    with holding(folder):
        return find_rates(request, corpus, folder / RATES, works, listener)


def plan_scale(
    request: ScaleRequest,
    *,
    on: str | Launcher = "local",
    where: Mapping[str, Any] | None = None,
    cache: Path | None = None,
) -> StudyPlan:
    """Return what a study would do and how long it would take; nothing is trained but a few timed steps."""
    works, corpora = _made_ready(request, on, where, cache)
    target_parameters(request)  # refuses one that is too small
    return plan_study(request, corpora, works)


def target_parameters(request: ScaleRequest) -> int:
    """Return the non-embedding parameters of the target, which must be above the largest rung."""
    name, largest = request.target, non_embedding(size_by_name(request.rungs[-1]))
    target = non_embedding(SIZES[name]) if name in SIZES else round(parameter_count(name) or 0)
    if not target:
        size_by_name(name)  # says which sizes there are
    if target <= largest:
        raise SpecError(
            f"the target {name} has {target:,} non-embedding parameters, not more than the largest rung "
            f"{request.rungs[-1]} with {largest:,}",
            hint="name a larger target, such as gpt2 or 10M; at the rungs themselves the study measures",
        )
    return target


def _made_ready(
    request: ScaleRequest, on: str | Launcher, where: Mapping[str, Any] | None, cache: Path | None
) -> tuple[Launcher, list[Corpus]]:
    works = choose_launcher(request, on, where, cache)
    check_rungs(request.rungs[:-1], request.rungs[-1])
    specs = [
        CorpusSpec(name=name, tokenizer=request.tokenizer, vocabulary_size=request.vocabulary_size)
        for name in request.corpora
    ]
    return works, [open_corpus(spec, cache) for spec in specs]


def corpus_folder(ladder: Path, name: str) -> Path:
    """Return the folder of a corpus in that of the study's ladder."""
    slug = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in Path(name).name)[:40]
    return ladder / (slug or "text")


def plan_study(request: ScaleRequest, corpora: list[Corpus], launcher: Launcher) -> StudyPlan:
    """Return what fits; an error if not even the smallest study does."""
    first = corpora[0]
    for corpus in corpora:  # refuses a text that is too short and a size that is too large before anything is built
        for arm in arms_at(request.comparison(corpus.spec.name, {}), request.rungs[-1], 1.0, corpus):
            check_run(arm.run.resolve(corpus, Execution(threads=launcher.threads)))
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
    whole = [rung for rung in rungs if not rung.halved]
    rate_seconds = sum(trials_at(request, place) * sum(rung.seconds) for place, rung in enumerate(whole))
    run_seconds = request.seeds * sum(sum(rung.seconds) for rung in rungs)
    return StudyPlan(
        asked,
        request,
        rungs,
        _searched(request) * rate_seconds / parallel,
        len(request.corpora) * run_seconds / parallel,
        launcher.processes,
        reductions,
    )


def trials_at(request: ScaleRequest, place: int) -> int:
    """Return how many runs the search for an arm's learning rate takes on the rung at this place, roughly."""
    if place > request.rate_rungs:
        return 0
    rates = request.rate_count + _EXTENSIONS if place < request.rate_rungs else NEIGHBOURS
    return rates * request.rate_seeds


def _searched(request: ScaleRequest) -> int:
    """Return on how many corpora learning rates are searched."""
    return len(request.corpora) - (request.held_out is not None)


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
