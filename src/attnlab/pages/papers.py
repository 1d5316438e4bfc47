"""The figures and tables of a page as files for a paper: SVG and PDF, CSV and LaTeX.

Files are named by their section: paired-differences-figure-1.pdf, verdict-table-1.tex.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from attnlab.errors import FileError, check_extra
from attnlab.pages.maps import MapGrid
from attnlab.pages.page import Details, Figure, Gallery, Page, Part
from attnlab.pages.tables import Table
from attnlab.pages.vector import EXTRA, HALF, WIDTH, map_files, vector_files
from attnlab.storage.files import check_writable, write_whole

_NO_NAME = re.compile(r"[^a-z0-9]+")
_LONGEST = 60  # characters of a section's name in a file name


def check_figures(folder: Path) -> None:
    """Refuse a folder that figures cannot be written to, and a missing library, before any work.

    Parameters
    ----------
    folder
        The folder of the files; its parent must exist.
    """
    check_extra(*EXTRA)
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder} is no folder", hint="name a folder for the figures")
    check_writable(folder / "figure.svg" if folder.exists() else folder)


def write_figures(page: Page, folder: Path) -> list[Path]:
    """Write every figure of a page as SVG and PDF, and every table as CSV and LaTeX.

    Parameters
    ----------
    page
        The page; captions and texts are not written.
    folder
        The folder of the files. It is created if it does not exist; files of the same names are replaced.

    Returns
    -------
    list of Path
        The files, in the order of the page.
    """
    folder.mkdir(exist_ok=True)
    written, counted = [], Counter[str]()
    for section in page.sections:
        name = _NO_NAME.sub("-", section.heading.lower()).strip("-")[:_LONGEST] or "section"
        for part in section.content:
            for kind, files in _files(part):
                counted[f"{name}-{kind}"] += 1
                for suffix, content in files.items():
                    path = folder / f"{name}-{kind}-{counted[f'{name}-{kind}']}.{suffix}"
                    write_whole(path, content)
                    written.append(path)
    return written


def _files(part: Part) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the kind of a part, with its files by extension."""
    match part:
        case Figure():
            yield "figure", vector_files(part.chart, WIDTH)
        case Gallery():
            yield from (("figure", vector_files(figure.chart, HALF)) for figure in part.figures)
        case MapGrid() if part.columns:
            yield "maps", map_files(part)
        case Table():
            yield "table", {"csv": part.to_csv().encode(), "tex": part.to_latex().encode()}
        case Details():
            for inner in part.content:
                yield from _files(inner)
