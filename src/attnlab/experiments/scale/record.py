"""What a study was asked and planned, in the folder of its report, and how far it is.

    runs/scale-…/study-1a2b3c4d/study.json     the request and its plan, written before the first run
    runs/scale-…/study-1a2b3c4d/scale.json     what was found, written after every corpus

The folder of a study names it: `attnlab scale FOLDER` resumes the study. This file imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.errors import AttnlabError, FileError, SpecError
from attnlab.experiments.request import ScaleRequest
from attnlab.storage.locks import find_holder
from attnlab.storage.records import read_json, write_json

RECORD, DATA = "study.json", "scale.json"


@dataclass(frozen=True)
class StudyRecord:
    """A study in its folder. `plan` is None before it is planned."""

    folder: Path
    request: ScaleRequest
    plan: Mapping[str, Any] | None

    @property
    def ladder(self) -> Path:
        """Return the folder of its runs, which studies on the same ladder share."""
        return self.folder.parent


def study_folders(runs: Path) -> list[Path]:
    """Return the folders of all studies below that of the runs, hidden ones left out."""
    found = {path.parent for name in (RECORD, DATA) for path in runs.glob(f"*/study-*/{name}")}
    return sorted(folder for folder in found if not folder.parent.name.startswith("."))


def write_record(folder: Path, request: ScaleRequest, plan: Mapping[str, Any] | None = None) -> None:
    """Write what a study was asked, and its plan once there is one.

    Hours are left out: the request is what fitted into them, and is not reduced again when the study resumes.
    """
    write_json(folder / RECORD, {"request": request.replace(hours=None).model_dump(mode="json"), "plan": plan})


def read_record(folder: Path) -> StudyRecord | None:
    """Return the study in a folder; None if there is none. What an earlier version left is read from its findings."""
    name = next((name for name in (RECORD, DATA) if (folder / name).is_file()), None)
    if name is None:
        return None
    try:
        data = read_json(folder / name)
        plan = data["plan"]
        return StudyRecord(folder, ScaleRequest(**(plan if name == DATA else data)["request"]), plan)
    except (SpecError, LookupError, TypeError, RecursionError) as error:
        raise FileError(f"{folder / name} is damaged: {error}", hint="name the variants and options again") from None


def open_study(folder: Path) -> StudyRecord | None:
    """Return the study in a folder, which must have the name that belongs to its request."""
    found = read_record(folder)
    if found is None:
        return None
    where = folder.resolve()
    if (where.parent.name, where.name) != (found.request.folder, found.request.report_folder):
        raise AttnlabError(
            f"the study in {folder} does not belong there: the folder was renamed, or another version of attnlab "
            "made the study",
            hint="name the variants and options again instead of the folder",
        )
    return found


def study_status(folder: Path, judged: int, corpora: int) -> str:
    """Return how far a study is as a whole, of whose `corpora` so many are `judged`."""
    if find_holder(folder) is not None:
        return "running"
    return "finished" if judged == corpora else "stopped"
