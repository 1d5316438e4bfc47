"""The list of comparisons and studies, their reports and tables, and how one is stopped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnlab.errors import AttnlabError
from attnlab.experiments.scale.report import REPORT, TABLE
from attnlab.experiments.status import stop as stop_process
from attnlab.studio.folders import STUDY, find_folder, study_folders
from attnlab.studio.work.experiments.comparisons import comparisons, details
from attnlab.studio.work.experiments.studies import details_of_study, studies

_RUNNING = frozenset({"running", "planning"})


def experiments(runs: str) -> dict[str, object]:
    """Return every study and every comparison that belongs to none, the newest first."""
    ladders = {folder.partition("/")[0] for folder in study_folders(Path(runs))}
    found: list[Any] = [*studies(runs)]
    found += [one for one in comparisons(runs) if str(one["folder"]).partition("/")[0] not in ladders]
    return {"experiments": sorted(found, key=lambda one: str(one["made"]), reverse=True)}


def latest(runs: str, count: int, without: Sequence[str] = ()) -> dict[str, object]:
    """Return the newest comparisons and studies, running ones first, each with its intervals at the largest size.

    `without` are folders to leave out.
    """
    listed = experiments(runs)["experiments"]
    assert isinstance(listed, list)
    found = [one for one in listed if one["folder"] not in without]
    found.sort(key=lambda one: one["status"] not in _RUNNING)
    return {"experiments": [_pictured(one, runs) for one in found[:count]]}


def _pictured(one: dict[str, object], runs: str) -> dict[str, object]:
    if one["status"] == "damaged":
        return one
    known = (details_of_study if one["kind"] == STUDY else details)(runs, str(one["name"]))
    drawn = {name: known[name] for name in ("share", "left", "margin") if name in known}
    intervals = known.get("intervals", [])
    return one | drawn | {"intervals": [row for row in intervals if row["rung"] == intervals[0]["rung"]]}


def stop(runs: str, name: str) -> dict[str, object]:
    """Have a comparison or study save its runs and end."""
    stop_process(find_folder(runs, name))
    return {}


def report(runs: str, name: str) -> dict[str, object]:
    """Return where the report of a comparison or study lies."""
    return {"path": str(_file(runs, name, REPORT))}


def table(runs: str, name: str) -> dict[str, object]:
    """Return where the table of all runs of a study lies."""
    return {"path": str(_file(runs, name, TABLE))}


def _file(runs: str, name: str, file: str) -> Path:
    path = find_folder(runs, name) / file
    if path.is_symlink() or not path.is_file():  # a link may point anywhere
        raise AttnlabError("there is no report yet", hint="resume it until it has finished")
    return path
