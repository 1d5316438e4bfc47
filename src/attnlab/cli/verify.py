"""Verify a recorded result."""

from __future__ import annotations

from pathlib import Path

from attnlab.attention import load_variants
from attnlab.cli.options import RUNS, JsonFlag, RunsFolder, VariantsFile
from attnlab.cli.printing import show, show_json, showing_steps
from attnlab.pages import Table, write_page
from attnlab.storage.files import check_writable
from attnlab.verification import verify as verify_path
from attnlab.verification.wording import (
    HEADINGS,
    MISSED_HEADINGS,
    NOT_COVERED,
    TONES,
    headline,
    missed_rows,
    page_of,
    replay_words,
    rows,
    to_data,
)


def verify(
    subject: str,
    /,
    *,
    segments: int = 5,
    receipt: str | None = None,
    report: Path | None = None,
    page: Path | None = None,
    variants_from: VariantsFile = None,
    out: RunsFolder = RUNS,
    as_json: JsonFlag = False,
) -> int:
    """Verify a recorded result: check hashes and plan, recompute figures and final losses, and replay some training.

    Exit code 0: the result verifies; 1: something differs; 2: something could not be checked.

    Parameters
    ----------
    subject
        The folder or name of a run, a comparison or a study, a report in it, or a bundle.
    segments
        How many randomly drawn segments of training to replay.
    receipt
        The receipt that was cited, or the beginning of it.
    report
        A page in another place that claims to be the report of this comparison.
    page
        Also write the findings to this HTML file.
    as_json
        Print everything as JSON.
    """
    if page is not None:
        check_writable(page)
    if variants_from is not None:
        load_variants(variants_from)
    path = Path(subject) if Path(subject).exists() else out / subject
    with showing_steps() as tell:
        found = verify_path(path, segments=segments, receipt=receipt, report=report, note=tell)
    if page is not None:
        write_page(page_of(found), page)
    if as_json:
        show_json(to_data(found))
        return found.exit_code
    show(Table(HEADINGS, rows(found), text_columns=(0, 1, 3), wrap_columns=(3,), tones=TONES))
    show("", replay_words(found.segments))
    if missed := missed_rows(found.segments):
        show("", Table(MISSED_HEADINGS, missed))
    show("", "Not covered:", *(f"  · {line}" for line in NOT_COVERED))
    show("", headline(found), *([f"receipt: {found.receipt}"] if found.receipt else []))
    return found.exit_code
