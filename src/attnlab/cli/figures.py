"""`--figures`: the figures and tables of a page as files for a paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from attnlab.cli.printing import say

if TYPE_CHECKING:
    from attnlab.pages import Page

FIGURES_HELP = "Also write every figure as SVG and PDF, and every table as CSV and LaTeX, into this folder."
FiguresFolder = Annotated[Path | None, Parameter(help=FIGURES_HELP)]


def check_figures_folder(folder: Path | None) -> None:
    """Refuse a folder that figures cannot be written to, before any work."""
    if folder is not None:
        from attnlab.pages import check_figures

        check_figures(folder)


def save_figures(page: Page, folder: Path) -> None:
    """Write the figures and tables of a page, and say how many files they are."""
    from attnlab.pages import write_figures

    say(f"wrote {len(write_figures(page, folder))} files into {folder}")
