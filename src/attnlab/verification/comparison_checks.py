"""The checks of a comparison: its plan, all of its runs, and the measurements of them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from attnlab.experiments.judging.collecting import check_runs
from attnlab.experiments.planning.plan import Arm, Plan
from attnlab.experiments.planning.planner import arms_at
from attnlab.experiments.planning.procedure import Procedure, rung_shares
from attnlab.experiments.results import AnalysisLog
from attnlab.lens.runs import measures_of_run
from attnlab.runs.directory import MODEL, RESULT, RUN
from attnlab.runs.receipts import TOKENIZER
from attnlab.verification.checks import CheckList, MismatchError, Note, UncheckedError
from attnlab.verification.figures import compare_data
from attnlab.verification.run_checks import OpenedCorpora, RecordedRun, check_run


def check_comparison(
    folder: Path, corpora: OpenedCorpora, checks: CheckList, note: Note = lambda _: None
) -> list[RecordedRun]:
    """Check the plan of a comparison and its runs without training anything; return the runs that can be replayed."""
    paths: list[Path] = []
    with checks.checking("plan", folder.name):
        plan = Plan.load(folder)
        seeds = AnalysisLog.load(folder, plan).seeds
        paths += [plan.run_path(folder, arm.at(seed)) for _, arm, seed in plan.runs(seeds)]
        _check_plan(plan, folder, corpora)
        check_runs(plan, folder, seeds)
    found = []
    for number, path in enumerate(paths, start=1):
        note(f"checking run {number} of {len(paths)}")
        if (run := check_run(path, corpora, checks)) is not None:
            found.append(run)
    return found


def _check_plan(plan: Plan, folder: Path, corpora: OpenedCorpora) -> None:
    """Derive again from the request what follows from it: folder, seeds, procedure, arms and their costs."""
    request = plan.request
    if folder.name != request.folder:
        raise MismatchError(f"a comparison of this request is called {request.folder}")
    if plan.seeds != tuple(range(request.first_seed, request.first_seed + request.seeds)):
        raise MismatchError(f"the request has {request.seeds} seeds from {request.first_seed}, the plan {plan.seeds}")
    shares = rung_shares(len(request.rungs))
    for rung in plan.rungs:
        alpha = request.alpha * (shares[-1] if plan.is_largest(rung) else shares[0])
        if rung.procedure != Procedure(alpha=alpha, looks=request.looks, margin=request.margin_nats):
            raise MismatchError(f"the tests at {rung.name} are not those of the request")
    record = {"spec": plan.baseline.run.model_dump(mode="json"), "corpus": {"hash": plan.corpus_hash}}
    corpus = corpora.open(record)
    for rung in plan.rungs:
        again = {arm.name: arm for arm in arms_at(request, rung.size, 0.5 if rung.halved else 1.0, corpus)}
        for arm in rung.arms:
            if arm.matching is None:
                _check_arm(arm, again.get(arm.name), searched=bool(request.tune) and not arm.matching)


def _check_arm(arm: Arm, again: Arm | None, *, searched: bool) -> None:
    if again is None:
        raise MismatchError(f"{arm.name} is planned, and was not requested")
    ours = again.run.replace(learning_rate=arm.run.learning_rate) if searched else again.run
    if arm.run != ours:
        raise MismatchError(f"the request gives another run of {arm.name} than planned")
    for name in ("meaning", "parameters", "training_flops", "cache_bytes"):
        if getattr(arm, name) != getattr(again, name):
            raise MismatchError(f"{name} of {arm.name} is {getattr(arm, name)}, and {getattr(again, name)} comes out")


def check_measures(runs: Sequence[RecordedRun], checks: CheckList, cache: Path | None) -> None:
    """Measure some finished runs again, in a copy without what was measured before."""
    for run in runs:
        if run.result["outcome"] != "finished" or not (run.directory.path / "measures.json").exists():
            continue
        with checks.checking("measures, taken again", run.name), tempfile.TemporaryDirectory() as folder:
            if not run.same_environment(run.chain[-1].step, run.chain[-1].step + 1):
                raise UncheckedError("it was measured on another machine or by another version")
            copy = Path(folder) / run.name
            copy.mkdir()
            for name in (RUN, RESULT, MODEL, TOKENIZER):
                shutil.copy(run.directory.path / name, copy)
            compare_data(measures_of_run(run.directory.path, cache=cache), measures_of_run(copy, cache=cache))
