"""Comparisons: the cost of a plan, the list of comparisons, and the progress of each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from attnlab.attention import variants as known_variants
from attnlab.corpora import open_corpus
from attnlab.errors import AttnlabError
from attnlab.experiments.judging.collecting import job_label
from attnlab.experiments.launching.jobs import Launcher, LaunchListener
from attnlab.experiments.launching.launcher import launcher
from attnlab.experiments.launching.progress import describe_job
from attnlab.experiments.numbers import percent_text, share_text
from attnlab.experiments.planning.planner import corpus_spec, make_plan
from attnlab.experiments.reporting.answer import ANSWER, Answer, find_answer
from attnlab.experiments.reporting.tables import plan_rows
from attnlab.experiments.request import Request, ScaleRequest
from attnlab.experiments.status import ComparisonState, Following, looks_taken, status_of
from attnlab.formats import clock_time, count, general
from attnlab.statistics import mean_interval
from attnlab.storage.plans import PLAN
from attnlab.storage.records import to_plain
from attnlab.studio.folders import COMPARISON, LOG, comparison_folders, find_folder, opaque_id
from attnlab.studio.work.experiments.charts import forest_figure, loss_figure, sizes_figure

_TAIL = 4_000  # characters of a comparison's output
# Fields of a request that its title and its setting already name, or that mean nothing by themselves.
_TOLD = frozenset(
    {"variants", "baseline", "size", "rungs", "seeds", "corpus", "corpora", "rates", "variants_sha256", "starts"}
)
Summary = Callable[[Path, Path], dict[str, object]]  # of a folder below the runs folder
_followed: dict[Path, Following] = {}


def variants() -> dict[str, object]:
    """Return the catalogue of variants."""
    return {"variants": [{"name": one.name, "meaning": one.meaning} for one in known_variants()]}


def plan(request: Mapping[str, object]) -> dict[str, object]:
    """Return the plan of a request, without the pilot and the search for rates that it may begin with."""
    asked = Request(**request)
    short = asked.replace(pilot=0, tune=0)
    with tempfile.TemporaryDirectory() as folder:
        made = make_plan(short, open_corpus(corpus_spec(short)), Path(folder), local(), LaunchListener())
    notes = list(made.warnings)
    if asked.tune:
        notes.append(f"{asked.tune} learning rates of each arm are tried first, which takes time of its own.")
    if asked.pilot or (asked.pilot is None and "no pilot" in made.pilot.source):
        notes.append("A pilot shows the noise first; until then that of the default setting stands in for it.")
    return {
        "folder": asked.folder,
        "minutes": made.predicted_minutes,
        "detectable": percent_text(made.detectable, sign=False),
        "runs": (len(made.arms) + sum(len(rung.arms) for rung in made.lower)) * len(made.seeds),
        "rows": [row for row in plan_rows(made) if row[0] != "made"],
        "notes": notes,
    }


@cache
def local() -> Launcher:
    return launcher("local")


def comparisons(runs: str) -> list[dict[str, object]]:
    """Return every comparison below the folder of the runs."""
    root = Path(runs)
    return [summary_or_problem(root / folder, root, _summary, COMPARISON) for folder in comparison_folders(root)]


def follow(runs: str, name: str, *, every: bool = False) -> dict[str, object]:
    """Return one comparison as it is now, with everything that there is to draw; `every` run by itself, or means."""
    found = details(runs, name, checked=True)
    curves = found.get("curves")
    if curves:
        found["charts"] = {"loss": loss_figure(curves, every=every)}
        if found["intervals"]:
            found["charts"] |= {"intervals": forest_figure(found)}
        if len({row["parameters"] for row in found["intervals"]} - {None}) > 1:
            found["charts"] |= {"sizes": sizes_figure(found)}
    return found


def details(runs: str, name: str, *, checked: bool = False) -> dict[str, Any]:
    """Return everything about a comparison but its charts; `checked` says whether its answer is checked anew."""
    folder = find_folder(runs, name)
    following = _followed.setdefault(folder, Following(folder))
    state = following.look()
    found = _summary(folder, Path(runs)) | {"status": state.status, "log": said_in(folder)}
    if state.plan is None:
        return found
    found |= {
        "rows": plan_rows(state.plan),
        "warnings": list(state.plan.warnings),
        "baseline": state.plan.baseline.name,
        "curves": [to_plain(run) for run in state.runs if run.training or run.validation],
        **progress_of(state),
    }
    if state.status == "running" and found["ended"] == found["total"]:
        found["status"] = "finishing"
    answer = _answer_of(folder, checked=checked) if state.status == "finished" else None
    found["intervals"] = intervals_of(state, {} if answer is None else answer.data)
    found["margin"], found["confidence"] = state.plan.procedure.margin, share_text(1 - state.plan.procedure.level)
    if answer is not None:
        fields = ("first_lines", "headings", "rows", "notes")
        found["answer"] = {field: getattr(answer, field) for field in fields} | {"report": bool(answer.report)}
        found["looks_left"] = state.plan.procedure.looks - looks_taken(folder)
    return found


def _answer_of(folder: Path, *, checked: bool = False) -> Answer | None:
    """Return the answer of a comparison if it still holds.

    Checking it reads all files that it depends on. A list that is redrawn every few seconds checks again only if the
    answer or the plan was written since.
    """
    paths = (folder / ANSWER, folder / PLAN)
    changed = tuple(path.stat().st_mtime_ns if path.is_file() else 0 for path in paths)
    return _check_answer.__wrapped__(folder, changed) if checked else _check_answer(folder, changed)


@lru_cache(maxsize=256)
def _check_answer(folder: Path, changed: tuple[int, ...]) -> Answer | None:
    del changed
    request = Request.of(folder)
    return None if request is None else find_answer(request, folder.parent)


def intervals_of(state: ComparisonState, judged: Mapping[str, Any]) -> list[dict[str, object]]:
    """Return the difference to the baseline of every arm at every size, the largest first.

    For a finished comparison they come from its verdicts; for a running one, from the seeds that have finished so far.
    """
    assert state.plan is not None
    plan = state.plan
    losses = {(run.arm, run.seed): run.validation[-1][1] for run in state.runs if run.ended and run.validation}
    verdicts = {rung["name"]: rung["verdicts"] for rung in judged.get("rungs", ())}
    verdicts |= {plan.rungs[-1].name: judged["verdicts"]} if judged else {}
    found: list[dict[str, object]] = []
    for rung in plan.rungs[::-1]:
        known = {one["arm"]: one for one in verdicts.get(rung.name, ())}
        baseline, *others = (job_label(plan, rung, arm) for arm in rung.arms)
        for arm, label in zip(rung.arms[1:], others, strict=True):
            seeds = [seed for name, seed in losses if name == label and (baseline, seed) in losses]
            row: dict[str, object] = {"arm": arm.name, "rung": rung.name, "seeds": len(seeds), "verdict": ""}
            row["parameters"] = None if rung.halved else rung.parameters
            row["non_embedding"] = None if rung.halved else rung.non_embedding
            if arm.name in known:
                row |= {name: known[arm.name][name] for name in ("verdict", "mean", "low", "high")}
            elif len(seeds) > 1:
                differences = [losses[label, seed] - losses[baseline, seed] for seed in seeds]
                row |= asdict(mean_interval(differences, 1 - rung.procedure.level))
            if row.get("mean") is not None:
                found.append(row)
    return found


def summary_or_problem(folder: Path, root: Path, summary: Summary, kind: str) -> dict[str, object]:
    """Return a summary; a folder that cannot be read is listed with the reason, beside the others."""
    try:
        return summary(folder, root)
    except (AttnlabError, OSError, ValueError, RecursionError) as error:
        reason = error.message if isinstance(error, AttnlabError) else f"{type(error).__name__}: {error}"
        return named(folder, root, "damaged", kind) | {"verdict": reason}


def named(folder: Path, root: Path, status: str, kind: str = COMPARISON) -> dict[str, object]:
    """Return what the folder of a comparison or study says by itself."""
    name, nothing = str(folder.relative_to(root)), {"made": "", "setting": "", "verdict": ""}
    return {"name": opaque_id(name), "folder": name, "title": folder.name, "status": status, "kind": kind, **nothing}


def made_at(path: Path) -> str:
    """Return when a file was written, to the second."""
    return datetime.fromtimestamp(path.stat().st_mtime).astimezone().isoformat(timespec="seconds")


def setting_of(request: Request | ScaleRequest) -> str:
    """Return what tells a request from others of its variants: sizes, seeds, text, and all that is not usual."""
    usual = type(request)()
    sizes = request.rungs if isinstance(request, ScaleRequest) else (*request.rungs, request.size)
    corpora = request.corpora if isinstance(request, ScaleRequest) else (request.corpus,)
    words = [", ".join(sizes), f"{request.seeds} seeds", ", ".join(Path(name).name for name in corpora)]
    for name in type(request).model_fields:
        value = getattr(request, name)
        if name not in _TOLD and value and value != getattr(usual, name):
            words.append(_told(name, value))
    words += ["retrofits of a trained model"] if isinstance(request, Request) and request.starts else []
    return " · ".join(words)


def _told(name: str, value: Any) -> str:
    """Return a field that is not usual in words."""
    words = name.replace("_", " ")
    match value:
        case bool():
            return words
        case int():
            return f"{words} {value:,}"
        case float():
            return f"{words} {general(value)}"
        case dict() if name == "up_to":
            return ", ".join(f"{arm} up to {size}" for arm, size in value.items())
        case tuple() if name == "changes":
            return " ".join(value)
    return f"{words} {value}"


def _summary(folder: Path, root: Path) -> dict[str, object]:
    status = status_of(folder)
    found = named(folder, root, status)
    request = Request.of(folder)
    if request is None:
        return found
    answer = _answer_of(folder) if status == "finished" else None
    return found | {
        "title": f"{', '.join(request.variants)} against {request.baseline}",
        "setting": setting_of(request),
        "made": made_at(folder / PLAN),
        "verdict": answer.first_lines[0] if answer is not None and answer.first_lines else "",
    }


def said_in(folder: Path) -> str:
    """Return the last output of the process of a comparison."""
    try:
        return (folder / LOG).read_text(encoding="utf-8", errors="replace")[-_TAIL:].strip()
    except OSError:
        return ""


def progress_of(state: ComparisonState) -> dict[str, object]:
    grid = state.grid
    assert grid is not None
    running = state.status == "running"
    return {
        "share": grid.share,
        "ended": grid.ended,
        "total": len(grid.jobs),
        "speed": f"{count(grid.tokens_per_second)} tokens/s" if running and grid.tokens_per_second else "",
        "left": f"{clock_time(grid.seconds_left)} left" if running and grid.seconds_left is not None else "",
        "running": [describe_job(job) for job in grid.running] if running else [],
    }
