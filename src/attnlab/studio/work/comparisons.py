"""Comparisons: what a plan would come to, those that there are, how far each is, and stopping one."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path

from attnlab.attention import variants as known_variants
from attnlab.corpora import open_corpus
from attnlab.errors import AttnlabError
from attnlab.experiments.launching.jobs import Launcher, LaunchListener
from attnlab.experiments.launching.launcher import launcher
from attnlab.experiments.launching.progress import describe_job
from attnlab.experiments.numbers import percent_text
from attnlab.experiments.planning.planner import corpus_spec, make_plan
from attnlab.experiments.reporting.answer import find_answer
from attnlab.experiments.reporting.tables import plan_rows
from attnlab.experiments.request import Request
from attnlab.experiments.status import ComparisonState, Following, is_comparison, looks_taken, status_of
from attnlab.experiments.status import stop as stop_comparison
from attnlab.formats import clock_time, count
from attnlab.runs.ledger import opaque_id
from attnlab.storage.records import to_plain
from attnlab.studio.studio import LOG

_TAIL = 4_000  # letters of what a comparison said
_followed: dict[Path, Following] = {}


def variants() -> dict[str, object]:
    """Return the catalogue of variants."""
    return {"variants": [{"name": one.name, "meaning": one.meaning} for one in known_variants()]}


def plan(request: Mapping[str, object]) -> dict[str, object]:
    """Return the plan of a request, without the pilot and the search for rates that it may begin with."""
    asked = Request(**request)
    short = asked.replace(pilot=0, tune=0)
    with tempfile.TemporaryDirectory() as folder:
        made = make_plan(short, open_corpus(corpus_spec(short)), Path(folder), _local(), LaunchListener())
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
def _local() -> Launcher:
    return launcher("local")


def comparisons(runs: str) -> dict[str, object]:
    """Return every comparison below the folder of the runs, the newest first."""
    found = [_summary_or_problem(folder, Path(runs)) for folder in _folders(Path(runs))]
    return {"comparisons": sorted(found, key=lambda one: str(one["made"]), reverse=True)}


def follow(runs: str, name: str) -> dict[str, object]:
    """Return one comparison as it is now, with everything that there is to draw."""
    folder = _find(name, Path(runs))
    following = _followed.setdefault(folder, Following(folder))
    state = following.look()
    found = _summary(folder, Path(runs)) | {"status": state.status, "log": _said(folder)}
    if state.plan is None:
        return found
    found |= {
        "rows": plan_rows(state.plan),
        "warnings": list(state.plan.warnings),
        "baseline": state.plan.baseline.name,
        "curves": [to_plain(run) for run in state.runs if run.training or run.validation],
        **_progress(state),
    }
    answer = find_answer(state.plan.request, folder.parent) if state.status == "finished" else None
    if answer is not None:
        fields = ("first_lines", "headings", "rows", "notes")
        found["answer"] = {field: getattr(answer, field) for field in fields} | {"report": bool(answer.report)}
        found["looks_left"] = state.plan.procedure.looks - looks_taken(folder)
    return found


def stop(runs: str, name: str) -> dict[str, object]:
    """Have a comparison save its runs and end."""
    stop_comparison(_find(name, Path(runs)))
    return {}


def report(runs: str, name: str) -> dict[str, object]:
    """Return where the report of a comparison lies."""
    path = _find(name, Path(runs)) / "report.html"
    if path.is_symlink() or not path.is_file():  # a link may lead anywhere
        raise AttnlabError("this comparison has no report yet", hint="resume it until it has finished")
    return {"path": str(path)}


def _folders(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return [path for path in sorted(root.iterdir()) if is_comparison(path) or (path / LOG).is_file()]


def _find(name: str, root: Path) -> Path:
    for folder in _folders(root):
        if opaque_id(folder, root) == name:
            return folder
    raise AttnlabError("there is no such comparison here", hint="the list of comparisons shows those there are")


def _summary_or_problem(folder: Path, root: Path) -> dict[str, object]:
    """Return the summary of a comparison; a folder that cannot be read is listed with the reason, beside the others."""
    try:
        return _summary(folder, root)
    except (AttnlabError, OSError, ValueError, RecursionError) as error:
        reason = error.message if isinstance(error, AttnlabError) else f"{type(error).__name__}: {error}"
        found = {"name": opaque_id(folder, root), "folder": folder.name, "status": "damaged", "made": ""}
        return found | {"title": folder.name, "asked": {}, "verdict": reason}


def _summary(folder: Path, root: Path) -> dict[str, object]:
    status = status_of(folder)
    found: dict[str, object] = {"name": opaque_id(folder, root), "folder": folder.name, "status": status, "made": ""}
    request = Request.of(folder)
    if request is None:
        return found | {"title": folder.name, "asked": {}, "verdict": ""}
    answer = find_answer(request, root) if status == "finished" else None
    made = datetime.fromtimestamp((folder / "plan.json").stat().st_mtime).astimezone()
    return found | {
        "title": f"{', '.join(request.variants)} against {request.baseline}",
        "asked": request.model_dump(mode="json"),
        "made": made.isoformat(timespec="seconds"),
        "verdict": answer.first_lines[0] if answer is not None and answer.first_lines else "",
    }


def _said(folder: Path) -> str:
    """Return the last output of the process of a comparison."""
    try:
        return (folder / LOG).read_text(encoding="utf-8", errors="replace")[-_TAIL:].strip()
    except OSError:
        return ""


def _progress(state: ComparisonState) -> dict[str, object]:
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
