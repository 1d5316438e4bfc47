"""The finding of a check, and the report of all checks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from attnlab.formats import count
from attnlab.pages import Table, Tone

if TYPE_CHECKING:
    from attnlab.pages import Page

Outcome = Literal["pass", "fail", "not applicable", "measured"]
_TONES: dict[str, Tone] = {"pass": "good", "fail": "bad", "not applicable": "open", "measured": "even"}


@dataclass(frozen=True)
class Finding:
    """The outcome of one check; if it failed, `detail` describes the failing input."""

    check: str
    outcome: Outcome
    detail: str
    seconds: float = 0.0


@dataclass(frozen=True)
class CheckReport:
    """All findings about a variant."""

    variant: str
    equations: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def failures(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.outcome == "fail")

    @property
    def summary(self) -> str:
        """Return one sentence: which checks fail, or how many pass."""
        passed = sum(finding.outcome == "pass" for finding in self.findings)
        if self.failures:
            names = ", ".join(finding.check for finding in self.failures)
            return f"{self.variant} fails {count(len(self.failures))} of its checks: {names}."
        return f"{self.variant} passes all {count(passed)} checks that apply."

    def table(self) -> Table:
        rows = [[finding.check, finding.outcome, finding.detail] for finding in self.findings]
        headings = ("check", "outcome", "what was found")
        return Table(headings, rows, text_columns=(0, 1, 2), wrap_columns=(2,), tones=_TONES)

    def as_dict(self) -> dict[str, object]:
        """Return everything as plain data, for JSON."""
        findings = [asdict(finding) for finding in self.findings]
        return {"variant": self.variant, "passes": not self.failures, "findings": findings}

    def page(self) -> Page:
        from attnlab.pages import Page, Points, Section  # here: training runs checks, but needs no pages

        return Page(
            f"Check of {self.variant}",
            self.summary,
            sections=(Section("What it computes", (Points(self.equations),)), Section("Checks", (self.table(),))),
        )

    def write(self, path: Path) -> None:
        """Write the page."""
        from attnlab.pages import write_page

        write_page(self.page(), path)

    def _repr_html_(self) -> str:
        return str(self.table().to_html(inline=True))
