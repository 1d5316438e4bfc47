"""Verify a run, a comparison, a bundle or a report: find out what it is, make all checks, and say what was found."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from attnlab.errors import FileError
from attnlab.experiments.receipt import RECEIPT
from attnlab.runs.directory import RUN
from attnlab.runs.receipts import read_chain
from attnlab.storage.plans import PLAN
from attnlab.storage.records import read_json
from attnlab.verification.bundles import opened_bundle
from attnlab.verification.checks import CheckList, MismatchError
from attnlab.verification.comparison_checks import check_comparison, check_measures
from attnlab.verification.run_checks import OpenedCorpora, RecordedRun, check_run
from attnlab.verification.segments import ReplayedSegments, replay_segments

SHORTEST_RECEIPT = 16  # letters of a receipt that somebody cites


@dataclass(frozen=True)
class Verification:
    """What was verified, and what came out."""

    subject: str
    kind: str
    receipt: str | None
    checks: CheckList
    segments: ReplayedSegments | None

    @property
    def exit_code(self) -> int:
        return self.checks.exit_code


def verify(
    path: Path,
    *,
    segments: int = 5,
    receipt: str | None = None,
    cache: Path | None = None,
    chosen: random.Random | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Verification:
    """Verify what lies at a path; `receipt` is one that somebody cited, `note` is told what is done."""
    if segments < 0:
        raise FileError(f"{segments} segments cannot be replayed", hint="use 0 or more")
    if receipt is not None and len(receipt) < SHORTEST_RECEIPT:
        raise FileError(f"a receipt has at least {SHORTEST_RECEIPT} letters, got {receipt!r}")
    if path.is_dir():
        return _verify_folder(path, str(path), segments, receipt, cache, chosen, note)
    if not path.is_file():
        raise FileError(f"there is no file or folder {path}", hint="name a run, a comparison, a bundle or a report")
    with opened_bundle(path) as folder:
        return _verify_folder(folder, str(path), segments, receipt, cache, chosen, note)


def _verify_folder(
    folder: Path,
    subject: str,
    segments: int,
    receipt: str | None,
    cache: Path | None,
    chosen: random.Random | None,
    note: Callable[[str], None],
) -> Verification:
    checks, corpora = CheckList(), OpenedCorpora(cache)
    runs: list[RecordedRun]
    note("checking hashes, evaluating final weights and computing figures again")
    if (folder / PLAN).is_file():
        kind = "comparison"
        runs = check_comparison(folder, corpora, checks, cache)
    elif (folder / RUN).is_file():
        kind = "run"
        runs = [run for run in [check_run(folder, corpora, checks)] if run is not None]
    else:
        raise FileError(f"{folder} is neither a run nor a comparison", hint="name the folder of one of them")
    found = _receipt_of(folder)
    if receipt is not None:
        with checks.checking("cited receipt", subject):
            if found is None or not found.startswith(receipt.lower()):
                raise MismatchError(f"its receipt is {found}, cited is {receipt}")
    replayed = None
    if segments and runs:
        note(f"replaying {segments} segments of training")
        replayed = replay_segments(runs, segments, corpora, checks, chosen)
        if kind == "comparison":
            check_measures([run for run in runs if any(run.name in one for one in replayed.drawn)], checks, cache)
    return Verification(subject, kind, found, checks, replayed)


def _receipt_of(folder: Path) -> str | None:
    """Return the hash that stands for all that is verified: that of the comparison, or the last link of the run."""
    try:
        if (folder / RECEIPT).is_file():
            return str(read_json(folder / RECEIPT)["sha256"])
        return chain[-1].sha256 if (chain := read_chain(folder)) else None
    except (FileError, LookupError):
        return None
