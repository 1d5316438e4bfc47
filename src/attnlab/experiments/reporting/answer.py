"""The answer of a comparison as it was printed, kept so that a question asked again is answered at once.

Importing this file loads neither PyTorch nor anything else that takes its time. An answer is given again only if all
that it rests on is as it was: the answer itself, the request, the version, the plan, the records and results of the
runs, the files that the text was read from and, where the text is Python's own, the Python. In any doubt there is none,
and the comparison is looked at afresh, which trains nothing that is finished.
"""

from __future__ import annotations

import json
import platform
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.experiments.request import Request, sha256_of
from attnlab.pages.tables import Table, Tone
from attnlab.storage.files import write_whole
from attnlab.storage.records import content_hash, to_plain

ANSWER = "answer.json"
_FORMAT = 2
TONES: Mapping[str, Tone] = {
    "better": "good",
    "worse": "bad",
    "unstable": "bad",
    "equivalent": "even",
    "undecided": "open",
    "unsettled": "open",
    "reproduced": "good",
    "not reproduced": "bad",
    "underpowered": "open",
}
_PYTHONS_OWN = ("pydoc", "python", "docstrings")  # the corpora that differ between releases of Python


def claims_table(rows: Sequence[Sequence[str]]) -> Table:
    """Return what became of published claims, as a terminal shows it."""
    headings = ("claim", "at this scale", "found", "source")
    return Table(headings, rows, text_columns=(0, 1, 3), wrap_columns=(0, 2, 3), tones=TONES)


class ChangedAnswerWarning(UserWarning):
    """An answer was passed over because its file was changed."""


@dataclass(frozen=True)
class Answer:
    """What the terminal shows, and what that rests on."""

    request_hash: str
    folder: str
    first_lines: tuple[str, ...]
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    report: str  # the page; "" if none was written
    python: str
    sources: dict[str, str]  # files that the text was read from, with their SHA-256
    markdown: str  # the table, to paste
    claims: tuple[tuple[str, ...], ...]  # what became of published claims, a row each
    data: dict[str, Any]  # everything, as JSON holds it
    receipt: str  # the hash that stands for the plan and all runs
    records: dict[str, str]  # plan, analyses and runs: files with their SHA-256


def save(answer: Answer, folder: Path) -> None:
    """Keep an answer in the comparison's folder. A report in that folder is found again wherever the folder goes."""
    report = answer.report and Path(answer.report).resolve()
    if report and report.is_relative_to(folder.resolve()):
        report = report.relative_to(folder.resolve())
    fields = to_plain({**vars(answer), "report": report}, nulls=True)
    record = {"format": _FORMAT, "sha256": content_hash(fields), "answer": fields}
    text = json.dumps(record, ensure_ascii=False, allow_nan=False)
    write_whole(folder / ANSWER, text + "\n")


def find_answer(request: Request, out: Path) -> Answer | None:
    """Return the answer that this request got before, if it still holds."""
    folder = out / request.folder
    try:
        answer = _read(folder)
        return answer if _still_holds(answer, request) else None
    except (OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return None  # there is none, or its file is damaged


def _read(folder: Path) -> Answer:
    record = json.loads((folder / ANSWER).read_text(encoding="utf-8"))
    if record["format"] != _FORMAT:
        raise ValueError("another version")
    fields = record["answer"]
    if record["sha256"] != content_hash(fields):
        message = f"{folder / ANSWER} was changed after it was written; the answer is computed again from the runs"
        warnings.warn(ChangedAnswerWarning(message), stacklevel=3)
        raise ValueError("changed")
    if not isinstance(fields["data"], dict):
        raise TypeError("not an object")
    lines = {name: _texts(fields[name]) for name in ("first_lines", "headings", "notes")}
    tables = {name: tuple(_texts(row) for row in fields[name]) for name in ("rows", "claims")}
    report = str(folder / fields["report"]) if fields["report"] else ""
    return Answer(**{**fields, **lines, **tables, "folder": str(folder), "report": report})


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError("not a list of texts")
    return tuple(values)


def _still_holds(answer: Answer, request: Request) -> bool:
    return (
        answer.request_hash == request.hash
        and (request.corpus not in _PYTHONS_OWN or answer.python == platform.python_version())
        and (not answer.report or Path(answer.report).is_file())
        and all(sha256_of(Path(path)) == digest for path, digest in answer.sources.items())
        and all(sha256_of(Path(answer.folder, path)) == digest for path, digest in answer.records.items())
    )
