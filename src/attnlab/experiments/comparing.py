"""The main job: a plan, its runs, a verdict.

    comparison = compare(variants=("tied-kv", "cosine-learned"), seeds=8)
    comparison.judgements[0].verdict
    comparison = compare(variants=("tied-kv", "cosine-learned"), seeds=8, looks=2, add_seeds=8)   the second analysis

The same request finds what is there: a finished comparison trains nothing, an interrupted one resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnlab.attention import load_variants
from attnlab.conformance import require_sound
from attnlab.corpora import open_corpus
from attnlab.errors import AttnlabError, FileError, SpecError
from attnlab.experiments.judging.collecting import check_runs, collect_rung, jobs_of
from attnlab.experiments.launching.jobs import JobEnd, Launcher, LaunchListener
from attnlab.experiments.launching.launcher import launcher
from attnlab.experiments.planning.budgets import check_rungs
from attnlab.experiments.planning.plan import Plan
from attnlab.experiments.planning.planner import Trials, corpus_spec, make_plan
from attnlab.experiments.request import MOST, ExperimentRequest, Request
from attnlab.experiments.results import AnalysisLog, Comparison
from attnlab.runs.ledger import DEFAULT_ROOT
from attnlab.storage.disk import make_folders, refusal
from attnlab.storage.locks import holding
from attnlab.storage.plans import PLAN
from attnlab.training import treatment

_AFTER = "attnlab.lens.runs:measure_run"


def compare(
    request: Request | None = None,
    *,
    add_seeds: int = 0,
    planned: Callable[[Plan], None] | None = None,
    out: Path = Path(DEFAULT_ROOT),
    runs_folder: str = "runs",
    trials: Trials | None = None,
    on: str | Launcher = "local",
    where: Mapping[str, Any] | None = None,
    cache: Path | None = None,
    listener: LaunchListener | None = None,
    **fields: Any,
) -> Comparison:
    """Carry out a request, or resume it.

    Parameters
    ----------
    request
        What to compare; None makes one of `fields`.
    add_seeds
        Seeds to add to a finished comparison, as a new interim analysis.
    planned
        Told the plan before the first run.
    out
        The folder that holds comparisons.
    runs_folder
        Where runs lie, relative to the comparison's own folder; comparisons of one study share theirs.
    trials
        Trials by which the request's learning rates were found.
    on
        Where runs run: local, ray or slurm.
    where
        Options of that launcher.
    cache
        The folder that keeps corpora; None uses the default.
    listener
        Told the progress; None tells nothing.
    fields
        The fields of a `Request`.
    """
    if request is not None and fields:
        raise SpecError("a request was given, and fields of one too", hint="give one or the other")
    if not 0 <= add_seeds <= MOST:
        raise SpecError(f"{add_seeds} seeds cannot be added", hint=f"use a number from 1 to {MOST} for `add_seeds`")
    listener = listener or LaunchListener()
    with _made_ready(request or Request(**fields), out, on, where, cache, listener, runs_folder, trials) as made:
        plan, folder, works = made
        log = AnalysisLog.load(folder, plan)
        if add_seeds:
            log.extend(add_seeds, plan)
            log.save(folder)
        if planned is not None:
            planned(plan)
        check_runs(plan, folder, log.seeds)
        with log.timed(folder):
            ends = works.run(jobs_of(plan, folder, log.seeds), listener=listener)
        _check_ends(ends)
        found = _collected(plan, folder, log, cache)
        log.save(folder)
    return found


def read_comparison(folder: Path, *, cache: Path | None = None) -> Comparison:
    """Return what the runs of a comparison that was carried out say, judged anew; nothing is trained."""
    plan = Plan.load(folder)
    log = AnalysisLog.load(folder, plan)
    check_runs(plan, folder, log.seeds)
    return _collected(plan, folder, log, cache)


def _collected(plan: Plan, folder: Path, log: AnalysisLog, cache: Path | None) -> Comparison:
    *lower, largest = (collect_rung(plan, rung, folder, log.seeds, cache) for rung in plan.rungs)
    log.complete(largest.judgements)
    analyses, judgements = tuple(log.analyses), largest.judgements
    return Comparison(plan, folder, largest.arms, judgements, analyses, log.seconds, tuple(lower))


def plan_comparison(
    request: Request,
    *,
    out: Path = Path(DEFAULT_ROOT),
    on: str | Launcher = "local",
    where: Mapping[str, Any] | None = None,
    cache: Path | None = None,
    listener: LaunchListener | None = None,
) -> Plan:
    """Return the plan alone, which `compare` would carry out; rates and a pilot are tried if it needs them."""
    with _made_ready(request, out, on, where, cache, listener or LaunchListener()) as (plan, _, _):
        return plan


@contextmanager
def _made_ready(
    request: Request,
    out: Path,
    on: str | Launcher,
    where: Mapping[str, Any] | None,
    cache: Path | None,
    listener: LaunchListener,
    runs_folder: str = "runs",
    trials: Trials | None = None,
) -> Iterator[tuple[Plan, Path, Launcher]]:
    """Make the plan, or read it, in its folder, and hold the folder meanwhile."""
    chosen = choose_launcher(request, on, where, cache, after=_AFTER)
    check_rungs(request.rungs, request.size)
    corpus = open_corpus(corpus_spec(request), cache)
    folder = out / request.folder
    make_folder(folder)
    with holding(folder):
        if not (folder / PLAN).exists():
            make_plan(request, corpus, folder, chosen, listener, runs_folder, trials).save(folder)
        plan = Plan.load(folder)
        if plan.request != request:
            raise FileError(
                f"{folder} holds the plan of another request", hint="compare in another folder, with `out=DIR`"
            )
        if plan.corpus_hash != corpus.hash:
            raise FileError(
                f"the text of {request.corpus} has changed since the plan in {folder} was made",
                hint="restore the old text, or compare on the new one in another folder, with `out=DIR`",
            )
        yield plan, folder, chosen


def choose_launcher(
    request: ExperimentRequest,
    on: str | Launcher,
    where: Mapping[str, Any] | None,
    cache: Path | None,
    **options: Any,
) -> Launcher:
    """Return the launcher by its name, after loading the file that adds variants and checking those of one's own."""
    variants = None if request.variants_from is None else Path(request.variants_from)
    if variants is not None:
        load_variants(variants)
    if not request.unchecked:
        changes = (treatment(name).changes for name in (request.baseline, *request.variants))
        require_sound(str(change["variant"]) for change in changes if "variant" in change)
    if not isinstance(on, str):
        return on
    return launcher(on, cache=cache, variants_from=variants, **options, **(where or {}))


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, or say why that is impossible."""
    try:
        make_folders(folder)
    except OSError as error:
        raise refusal(f"{folder} cannot be made", error) from error


def _check_ends(ends: Sequence[JobEnd]) -> None:
    failed = [end for end in ends if end.result is None or end.result.outcome == "stopped"]
    if failed:
        raise AttnlabError(
            f"{len(failed)} of {len(ends)} runs have not ended; the first: {failed[0].problem or 'it was stopped'}",
            hint="call it again: what was trained is kept, and it resumes from there",
        )
