"""Verify a run, a comparison, a study, a bundle or a report: detect its kind, make all checks, return the findings."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from attnlab.errors import FileError
from attnlab.experiments.receipt import RECEIPT
from attnlab.experiments.scale.record import DATA
from attnlab.runs.directory import RUN
from attnlab.runs.receipts import read_chain
from attnlab.storage.plans import PLAN
from attnlab.storage.records import read_json
from attnlab.verification.bundles import opened_bundle
from attnlab.verification.checks import CheckList, MismatchError, Note
from attnlab.verification.comparison_checks import check_comparison, check_measures
from attnlab.verification.figures import check_figures
from attnlab.verification.run_checks import OpenedCorpora, RecordedRun, check_run
from attnlab.verification.segments import ReplayedSegments, replay_segments
from attnlab.verification.study_checks import check_study

SHORTEST_RECEIPT = 16  # characters of a cited receipt


@dataclass(frozen=True)
class Verification:
    """The subject of a verification, and its findings."""

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
    report: Path | None = None,
    cache: Path | None = None,
    chosen: random.Random | None = None,
    note: Note = lambda _: None,
) -> Verification:
    """Verify the run, comparison, study or bundle at a path.

    `segments` is the number of segments of training to replay, drawn by `chosen`. `receipt` is a cited receipt,
    `report` a page to compare with the comparison's report, `cache` the folder of prepared corpora; `note` receives
    each step.
    """
    if segments < 0:
        raise FileError(f"{segments} segments cannot be replayed", hint="use 0 or more")
    if receipt is not None and len(receipt) < SHORTEST_RECEIPT:
        raise FileError(f"a receipt has at least {SHORTEST_RECEIPT} letters, got {receipt!r}")
    with _opened(path) as folder:
        checks, corpora = CheckList(), OpenedCorpora(cache)
        kind, runs = _check_folder(folder, corpora, checks, cache, report, note)
        found = _receipt_of(folder)
        if receipt is not None:
            with checks.checking("cited receipt", str(path)):
                if found is None or not found.startswith(receipt.lower()):
                    raise MismatchError(f"its receipt is {found}, cited is {receipt}")
        replayed = None
        if segments and runs:
            replayed = replay_segments(runs, segments, corpora, checks, chosen, note)
            if kind == "comparison":
                drawn = [run for run in runs if any(one.startswith(f"{run.name},") for one in replayed.drawn)]
                check_measures(drawn, checks, cache)
    return Verification(str(path), kind, found, checks, replayed)


@contextmanager
def _opened(path: Path) -> Iterator[Path]:
    """Yield the folder that is meant by a folder, a report in it, or a bundle."""
    if path.is_dir():
        yield path
    elif path.suffix == ".html" and path.is_file():
        if not any((path.parent / name).is_file() for name in (PLAN, DATA)):
            raise FileError(
                f"{path} lies apart from its runs, which cannot be checked without them",
                hint=f"verify the bundle or the comparison, and the page with it by `report={path}`",
            )
        yield path.parent if (path.parent / PLAN).is_file() else path.parents[1]
    elif path.is_file():
        with opened_bundle(path) as folder:
            yield folder
    else:
        raise FileError(f"there is no file or folder {path}", hint="name a run, a comparison, a bundle or a report")


def _check_folder(
    folder: Path, corpora: OpenedCorpora, checks: CheckList, cache: Path | None, report: Path | None, note: Note
) -> tuple[str, list[RecordedRun]]:
    """Make all checks but replay; return what it is, and the runs that can be replayed."""
    if (folder / PLAN).is_file():
        runs = check_comparison(folder, corpora, checks, note)
        note("computing figures again")
        check_figures(folder, checks, cache, report)
        return "comparison", runs
    if (folder / RUN).is_file():
        return "run", [run for run in [check_run(folder, corpora, checks)] if run is not None]
    if studies := sorted(folder.glob(f"study-*/{DATA}")):
        runs = [
            run
            for plan in sorted(folder.glob(f"*/*/{PLAN}"))
            for run in check_comparison(plan.parent, corpora, checks, note)
        ]
        for study in studies:
            check_study(study.parent, checks, cache)
        return "study", runs
    raise FileError(
        f"{folder} is neither a run nor a comparison nor a study", hint="name the folder of one of them, or a bundle"
    )


def _receipt_of(folder: Path) -> str | None:
    """Return the hash that stands for all that is verified: that of the comparison, or the last link of the run."""
    try:
        if (folder / RECEIPT).is_file():
            return str(read_json(folder / RECEIPT)["sha256"])
        return chain[-1].sha256 if (chain := read_chain(folder)) else None
    except (FileError, LookupError):
        return None
