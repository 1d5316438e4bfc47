"""Check a variant of attention."""

from __future__ import annotations

from pathlib import Path

from attnlab.attention import load_variants, mixture
from attnlab.cli.options import Flag, JsonFlag, VariantsFile
from attnlab.cli.printing import say, show, show_json
from attnlab.conformance import CheckReport, check_variant
from attnlab.errors import InputError
from attnlab.formats import file_name
from attnlab.storage.files import check_writable

_FAILED = 3


def check(
    name: str,
    /,
    *,
    quick: Flag = False,
    out: Path | None = None,
    variants_from: VariantsFile = None,
    as_json: JsonFlag = False,
) -> int:
    """Check that a variant hides what its mask hides, has the right gradients, decodes, resumes and costs what is said.

    Exits with 3 if a check fails.

    Parameters
    ----------
    name
        A variant, a+b for both changes, window:256 for one with a number, a mixture over layers such as a*2,b, all of
        whose variants are checked, or a Python file, likewise.
    quick
        Only the checks that training begins with: what leaks, and which gradients are lost.
    out
        Also write a page to this HTML file; for a file with several variants give a folder.
    as_json
        Print the findings as JSON.
    """
    if variants_from is not None:
        load_variants(variants_from)
    path = Path(name)
    chosen = load_variants(path) if path.suffix == ".py" else mixture(name).variants
    pages = _pages(out, [one.name for one in chosen])
    reports = []
    for one in chosen:
        if not as_json and not quick:
            say(f"Checking {one.name} …")
        report = check_variant(one, quick=quick)
        reports.append(report)
        if not as_json:
            _tell(report)
        if one.name in pages:
            report.save(pages[one.name])
            say(f"Wrote {pages[one.name]}")
    if as_json:
        found = [report.as_dict() for report in reports]
        show_json(found if path.suffix == ".py" or len(found) > 1 else found[0])
    return _FAILED if any(report.failures for report in reports) else 0


def _tell(report: CheckReport) -> None:
    show(*report.equations, "", report.table(), "", report.summary)


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
