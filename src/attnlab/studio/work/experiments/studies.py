"""Scale studies: the cost of a plan, the list of studies, and the progress of each, corpus by corpus."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

from attnlab.errors import AttnlabError, FileError
from attnlab.experiments.numbers import percent_text, share_text
from attnlab.experiments.planning.plan import Trial
from attnlab.experiments.planning.planner import recorded_effect
from attnlab.experiments.request import Request, ScaleRequest
from attnlab.experiments.scale.findings import plan_rows
from attnlab.experiments.scale.record import DATA, RECORD, StudyRecord, read_record, study_status
from attnlab.experiments.scale.study import RATES, corpus_folder, plan_scale, trials_at
from attnlab.experiments.status import ComparisonState, Following
from attnlab.formats import clock_time, count
from attnlab.runs.directory import RESULT, RUN
from attnlab.storage.records import read_json
from attnlab.studio.folders import STUDY, find_folder, opaque_id, study_folders
from attnlab.studio.work.experiments.comparisons import (
    intervals_of,
    local,
    made_at,
    named,
    progress_of,
    said_in,
    setting_of,
    summary_or_problem,
)
from attnlab.studio.work.experiments.findings import charts_of, verdicts_of
from attnlab.training import treatment

_FEWEST_TESTED = 4  # rungs that a back-test of the forecast needs
_followed: dict[Path, Following] = {}

Trials = dict[tuple[str, str], list[Trial]]  # by size and arm


def plan_study(request: Mapping[str, object]) -> dict[str, object]:
    """Return the plan of a study, and the request that it comes to where hours reduce it."""
    asked = ScaleRequest(**request)
    made = plan_scale(asked, on=local())
    fitting = made.request.replace(hours=None)
    expected = recorded_effect(fitting.comparison(fitting.corpora[0], {}))
    notes = list(expected.warnings)
    if made.reductions:
        notes.insert(0, f"Reduced to fit into {asked.hours:g} hours: {'; '.join(made.reductions)}.")
    if len(fitting.rungs) < _FEWEST_TESTED:
        notes.append("With fewer than four rungs no forecast is back-tested: the study decides about its own sizes.")
    notes.append(
        "The noise is that of the default setting, until the search for learning rates shows that of this one."
    )
    return {
        "request": fitting.model_dump(mode="json"),
        "minutes": 60 * made.hours,
        "runs": made.runs,
        "trials": made.trials,
        "flops": f"{count(made.flops)}FLOP",
        "detectable": percent_text(expected.detectable, sign=False),
        "decides": _decides(fitting),
        "rows": plan_rows(made),
        "notes": notes,
    }


def _decides(request: ScaleRequest) -> str:
    """Return what a study with these rungs can decide."""
    sizes = f"{len(request.rungs)} sizes from {request.rungs[0]} to {request.rungs[-1]}"
    tested = ", and a forecast that is back-tested" if len(request.rungs) >= _FEWEST_TESTED else ""
    return f"a verdict at each of {sizes}, the trend over them{tested}"


# Lists


def studies(runs: str) -> list[dict[str, object]]:
    """Return every study below the folder of the runs."""
    root = Path(runs)
    return [summary_or_problem(root / folder, root, _summary, STUDY) for folder in study_folders(root)]


def _summary(folder: Path, root: Path) -> dict[str, object]:
    record = _record(folder)
    request, judged = record.request, _judged(record)
    of = "" if len(request.corpora) == 1 else f" on {len(request.corpora)} corpora"
    return named(folder, root, study_status(folder, len(judged), len(request.corpora)), STUDY) | {
        "title": f"{', '.join(request.variants)} against {request.baseline} over {len(request.rungs)} sizes{of}",
        "setting": setting_of(request),
        "made": made_at(folder / (RECORD if (folder / RECORD).is_file() else DATA)),
        "verdict": next((str(one["headline"]) for one in judged.values()), ""),
    }


def _record(folder: Path) -> StudyRecord:
    found = read_record(folder)
    if found is None:
        raise FileError("this is the folder of no study", hint="choose one from the list")
    return found


def _judged(record: StudyRecord) -> dict[str, Mapping[str, Any]]:
    """Return what was found so far, by corpus."""
    path = record.folder / DATA
    return _findings(path, path.stat().st_mtime_ns) if path.is_file() else {}


@lru_cache(maxsize=32)
def _findings(path: Path, changed: int) -> dict[str, Mapping[str, Any]]:
    del changed
    data = read_json(path)
    try:
        return {one["corpus"]: {**one, "target_size": data["target"]} for one in data["corpora"]}
    except (LookupError, TypeError) as error:
        raise FileError(f"{path} is damaged: {error}", hint="resume the study, which writes it again") from None


# One study


def follow_study(runs: str, name: str) -> dict[str, object]:
    """Return a study as it is now, with everything that there is to draw."""
    found = details_of_study(runs, name)
    for one in found["corpora"]:
        one["charts"] = charts_of(one)
        del one["trials"]
    return found


def details_of_study(runs: str, name: str) -> dict[str, Any]:
    """Return everything about a study but its charts; its intervals are those of the first corpus."""
    folder = find_folder(runs, name)
    record = _record(folder)
    found: dict[str, Any] = _summary(folder, Path(runs)) | {"log": said_in(folder)}
    judged = _judged(record)
    corpora = [_corpus(record, corpus, judged.get(corpus), Path(runs)) for corpus in record.request.corpora]
    found |= {"corpora": corpora, "intervals": corpora[0]["intervals"], "margin": corpora[0]["margin"]}
    found |= {"has_report": bool(judged), "rows": _plan_rows(record), "sharing": _sharing(folder)}
    if record.plan is not None:
        found |= _progress(record.plan, corpora, running=found["status"] == "running")
    if found["status"] == "running" and all(one["ended"] == one["total"] > 0 for one in corpora):
        found["status"] = "finishing"
    return found


def _sharing(folder: Path) -> int:
    """Return how many other studies share the runs of this one."""
    return sum(other.startswith(f"{folder.parent.name}/") for other in study_folders(folder.parents[1])) - 1


def _plan_rows(record: StudyRecord) -> list[tuple[str, str]]:
    request, plan = record.request, record.plan
    rows = [
        ("variants", f"{', '.join(request.variants)}; against {request.baseline}"),
        ("sizes", ", ".join(request.rungs)),
        ("tokens", f"{request.tokens_per_parameter:g} for each parameter"),
        ("corpora", ", ".join(f"{one} (held out)" if one == request.held_out else one for one in request.corpora)),
        ("seeds", f"{request.seeds} of each arm on each rung, {request.rate_seeds} others for learning rates"),
        ("target", request.target),
    ]
    if plan is not None:
        rows.append(("time", f"{plan['hours']:.2f} hours were planned on {plan['processes']} processes"))
    return rows


def _corpus(record: StudyRecord, corpus: str, judged: Mapping[str, Any] | None, root: Path) -> dict[str, Any]:
    """Return one corpus of a study: its search for rates, its comparison, and what was found."""
    request, held_out = record.request, corpus == record.request.held_out
    folder = _comparison(record, corpus)
    state = None if folder is None else _followed.setdefault(folder, Following(folder)).look()
    trials = _trials(record, corpus, state)
    found: dict[str, Any] = {
        "corpus": corpus,
        "held_out": held_out,
        "comparison": "" if folder is None else opaque_id(str(folder.relative_to(root))),
        "baseline": request.baseline,
        "margin": math.log1p(request.margin),
        "confidence": share_text(1 - request.alpha),
        "trials": trials,
        "tried": sum(len(one.losses) for tried in trials.values() for one in tried),
        "to_try": 0 if held_out or record.plan is None else _to_try(record),
        "intervals": [],
        **dict.fromkeys(("ended", "total", "share"), 0),
        "seconds_left": None,
        "running": [],
    }
    if state is not None and state.plan is not None:
        found |= progress_of(state) | {"intervals": intervals_of(state, {})}
        found["confidence"] = share_text(1 - state.plan.procedure.level)
        found["seconds_left"] = state.grid.seconds_left if state.grid is not None else None
    return found if judged is None else found | verdicts_of(judged)


def _comparison(record: StudyRecord, corpus: str) -> Path | None:
    """Return the folder of a study's comparison on one corpus, whatever learning rates were found."""
    wanted = record.request.comparison(corpus, {})
    for folder in sorted(corpus_folder(record.ladder, corpus).glob("compare-*")):
        try:
            asked = _request_of(folder, folder.stat().st_mtime_ns)
        except (AttnlabError, OSError, ValueError, RecursionError):
            continue
        if asked is not None and asked.replace(rates={}) == wanted:
            return folder
    return None


@lru_cache(maxsize=64)
def _request_of(folder: Path, changed: int) -> Request | None:
    del changed
    return Request.of(folder)


# Learning rates


def _to_try(record: StudyRecord) -> int:
    """Return how many trials the search on one corpus takes, roughly."""
    assert record.plan is not None
    whole = [rung for rung in record.plan["rungs"] if not rung["halved"]]
    return sum(trials_at(record.request, place) * len(rung["arms"]) for place, rung in enumerate(whole))


def _trials(record: StudyRecord, corpus: str, state: ComparisonState | None) -> Trials:
    """Return what was tried: as the plan of the comparison says, or as far as the search is."""
    if state is not None and state.plan is not None:
        rungs = [rung for rung in state.plan.rungs if not rung.halved]
        return {(rung.size, arm.name): list(arm.trials) for rung in rungs for arm in rung.arms if arm.trials}
    losses: dict[tuple[str, str], dict[float, list[float | None]]] = {}
    for spec, loss in _ended_trials(corpus_folder(record.ladder, corpus) / RATES):
        arm = _arm_of(spec, record.request)
        if arm is not None and spec["size"] in record.request.rungs:
            losses.setdefault((spec["size"], arm), {}).setdefault(float(spec["learning_rate"]), []).append(loss)
    order = {size: place for place, size in enumerate(record.request.rungs)}
    return {key: _tried(losses[key]) for key in sorted(losses, key=lambda key: (order[key[0]], key[1]))}


def _tried(losses: Mapping[float, Sequence[float | None]]) -> list[Trial]:
    found = []
    for rate, seeds in sorted(losses.items()):
        finished = [loss for loss in seeds if loss is not None]
        mean = fmean(finished) if len(finished) == len(seeds) else None
        found.append(Trial(learning_rate=rate, loss=mean, losses=tuple(seeds)))
    return found


def _arm_of(spec: Mapping[str, Any], request: ScaleRequest) -> str | None:
    """Return the arm that a trial belongs to: the one with the most changes that the trial has all of."""
    changes = {name: treatment(name).changes for name in (request.baseline, *request.variants)}
    fitting = [name for name, fields in changes.items() if all(spec.get(one) == fields[one] for one in fields)]
    return max(fitting, key=lambda name: len(changes[name]), default=None)


def _ended_trials(folder: Path) -> Iterator[tuple[Mapping[str, Any], float | None]]:
    """Yield what was trained and its loss for every trial that has ended; one that diverged has no loss."""
    for path in sorted(folder.glob(f"*/{RESULT}")):
        try:
            yield _trial(path, path.stat().st_mtime_ns)
        except (AttnlabError, OSError, LookupError, TypeError, ValueError):
            continue  # incomplete or damaged: the study itself reports it when it reads the file


@lru_cache(maxsize=4096)
def _trial(path: Path, changed: int) -> tuple[Mapping[str, Any], float | None]:
    del changed
    result, spec = read_json(path), read_json(path.with_name(RUN))["spec"]
    loss = result["validation_loss"] if result["outcome"] == "finished" else None
    return spec, None if loss is None else float(loss)


# Progress


def _progress(plan: Mapping[str, Any], corpora: Sequence[Mapping[str, Any]], *, running: bool) -> dict[str, object]:
    """Return the share that is done and the time left, by the hours of the plan."""
    searched = sum(not one["held_out"] for one in corpora)
    search, runs = plan["rate_hours"] / max(1, searched), plan["run_hours"] / len(corpora)
    whole, left = float(plan["hours"]) or 1.0, 0.0
    missing = 0.0
    for one in corpora:
        tried = 1.0 if one["held_out"] or one["total"] else min(0.95, one["tried"] / max(1, one["to_try"]))
        missing += (1 - tried) * search + (1 - one["share"]) * runs
        left += 3600 * (1 - tried) * search
        left += one["seconds_left"] if one["seconds_left"] is not None else 3600 * (1 - one["share"]) * runs
    return {
        "share": max(0.0, min(1.0, 1 - missing / whole)),
        "left": f"about {clock_time(left)} left" if running and left else "",
        "phase": _phase(corpora) if running else "",
        "running": [job for one in corpora for job in one["running"]],
    }


def _phase(corpora: Sequence[Mapping[str, Any]]) -> str:
    """Return what a running study is at."""
    for one in corpora:
        if not one["total"] and not one["held_out"]:
            tried = f"{one['tried']} of about {one['to_try']} trials" if one["to_try"] else f"{one['tried']} trials"
            return f"searching learning rates on {one['corpus']}: {tried}"
        if one["ended"] < one["total"] or not one["total"]:
            return f"comparing on {one['corpus']}: {one['ended']} of {one['total']} runs"
    return "computing trends and forecasts"
