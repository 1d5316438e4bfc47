"""Carry out a scale study: learning rates first, then a comparison over all rungs on every corpus.

    study = scale(ScaleRequest(variants=("tied-kv",), rungs=("14k", "25k", "55k")))

Everything that was trained is found again: the same call resumes after an interruption, and a study with more seeds,
rungs or variants on the same ladder trains only what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.corpora import Corpus, CorpusSpec, open_corpus
from attnlab.errors import SpecError
from attnlab.experiments.comparing import choose_launcher, compare, make_folder
from attnlab.experiments.launching.jobs import Launcher, LaunchListener
from attnlab.experiments.planning.ladder import check_rungs
from attnlab.experiments.results import Comparison
from attnlab.experiments.scale.planning import StudyPlan, plan_study
from attnlab.experiments.scale.rates import RateTable, find_rates
from attnlab.experiments.scale.request import ScaleRequest
from attnlab.models.sizes import SIZES, non_embedding, parameter_count, size
from attnlab.runs.ledger import DEFAULT_ROOT
from attnlab.storage.locks import holding

RATES, RUNS = "rates", "runs"


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
    out: Path = Path(DEFAULT_ROOT),
    on: str | Launcher = "local",
    where: Mapping[str, Any] | None = None,
    cache: Path | None = None,
    listener: LaunchListener | None = None,
) -> ScaleStudy:
    """Carry out a study, or resume it. `planned` is told the plan before the first run."""
    listener = listener or LaunchListener()
    works, corpora = _made_ready(request, on, where, cache)
    target = target_parameters(request)
    plan = plan_study(request, corpora, works)
    if planned is not None:
        planned(plan)
    request = plan.request
    path = out / request.folder
    done: list[CorpusStudy] = []
    for corpus in corpora:
        name = corpus.spec.name
        held_out = name == request.held_out
        folder = path / _slug(name)
        table = done[0].rates if held_out else _rates(request, corpus, folder, works, listener)
        comparison = compare(
            request.comparison(name, table.rates()),
            out=folder,
            runs_folder=f"../{RUNS}",
            trials=None if held_out else table.trials(),
            on=works,
            cache=cache,
            listener=listener,
        )
        done.append(CorpusStudy(name, held_out, table, comparison))
    return ScaleStudy(plan, path, tuple(done), target)


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
        corpus.spec.name: _rates(request, corpus, path / _slug(corpus.spec.name), works, listener or LaunchListener())
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
    name, largest = request.target, non_embedding(size(request.rungs[-1]))
    target = non_embedding(SIZES[name]) if name in SIZES else round(parameter_count(name) or 0)
    if not target:
        size(name)  # says which sizes there are
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
    works = choose_launcher(request.variants_from, on, where, cache)
    check_rungs(request.rungs[:-1], request.rungs[-1])
    specs = [
        CorpusSpec(name=name, tokenizer=request.tokenizer, vocabulary_size=request.vocabulary_size)
        for name in request.corpora
    ]
    return works, [open_corpus(spec, cache) for spec in specs]


def _slug(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in Path(name).name)[:40] or "text"
