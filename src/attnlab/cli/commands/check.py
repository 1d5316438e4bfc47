"""Check a variant of attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from attnlab.attention import Variant, load_variants, mixture, variants
from attnlab.cli.options import Flag, JsonFlag, VariantsFile
from attnlab.cli.printing import say, show, show_json
from attnlab.conformance import CheckReport, check_variant
from attnlab.errors import InputError
from attnlab.formats import file_name, fixed
from attnlab.pages import Table
from attnlab.storage.files import check_writable

_FAILED = 3


def check(
    name: str | None = None,
    /,
    *,
    quick: Flag = False,
    out: Path | None = None,
    variants_from: VariantsFile = None,
    as_json: JsonFlag = False,
) -> int:
    """Check a variant: masks, gradients, kernel, decoding, resumption and cost.

    Exits with 3 if a check fails.

    Parameters
    ----------
    name
        A variant, a+b for both changes, window:256 for one with a number, a mixture over layers such as a*2,b, or a
        Python file; all of their variants are checked. By default the whole catalogue is checked.
    quick
        Only the checks that training begins with: leaks and lost gradients.
    out
        Also write a page to this HTML file; for a file with several variants give a folder.
    as_json
        Print the findings as JSON.
    """
    if variants_from is not None:
        load_variants(variants_from)
    chosen = _chosen(name)
    pages = _pages(out, [one.name for one in chosen])
    reports = []
    for one in chosen:
        if not as_json:
            say(f"Checking {one.name} …")
        report = check_variant(one, quick=quick)
        reports.append(report)
        if not as_json and name is not None:
            show(*report.equations, "", report.table(), "", report.summary)
        if one.name in pages:
            report.write(pages[one.name])
            say(f"Wrote {pages[one.name]}")
    if as_json:
        found = [report.as_dict() for report in reports]
        show_json(found[0] if len(chosen) == 1 and not _is_file(name) else found)
    elif name is None:
        show(_overview(reports))
    return _FAILED if any(report.failures for report in reports) else 0


def _is_file(name: str | None) -> bool:
    return name is not None and Path(name).suffix == ".py"


def _chosen(name: str | None) -> Sequence[Variant]:
    if name is None:
        return variants()
    return load_variants(Path(name)) if _is_file(name) else mixture(name).variants


def _overview(reports: Sequence[CheckReport]) -> Table:
    """Return a table with one line for each variant."""
    rows = []
    for report in reports:
        counts = Counter(finding.outcome for finding in report.findings)
        seconds = sum(finding.seconds for finding in report.findings)
        failed = ", ".join(finding.check for finding in report.failures) or "none"
        rows.append([report.variant, str(counts["pass"]), failed, str(counts["not applicable"]), fixed(seconds, 1)])
    headings = ("variant", "passed", "failed", "not applicable", "seconds")
    return Table(headings, rows, text_columns=(0, 2), wrap_columns=(2,))


def _pages(out: Path | None, names: list[str]) -> dict[str, Path]:
    """Return where the page of each variant goes."""
    if out is None:
        return {}
    if len(names) == 1 and out.suffix:
        check_writable(out)
        return {names[0]: out}
    if out.suffix:
        raise InputError(f"{len(names)} variants do not fit into one page {out}", hint="give a folder")
    out.mkdir(parents=True, exist_ok=True)
    return {name: out / f"check-{file_name(name)}.html" for name in names}
