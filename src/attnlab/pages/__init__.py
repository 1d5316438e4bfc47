"""Offline HTML pages, figures and tables.

figures       one style for all charts
tables        a table for terminal, page, notebook and Markdown
mathematics   equations as MathML
maps          attention maps on a page, with compressed weights
page          a page: one self-contained HTML file
vector        charts and maps as SVG and PDF
papers        the figures and tables of a page as files for a paper

A name is imported when it is first used, so that a table for the terminal needs neither plotly nor NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnlab.pages.figures import BLUE, GREEN, GREY, ORANGE, PALETTE, THEME, new_figure
    from attnlab.pages.maps import HeadMap, MapGrid, MapRow
    from attnlab.pages.mathematics import equation_html, equations_html
    from attnlab.pages.page import (
        Details,
        Equations,
        Figure,
        Gallery,
        HasPage,
        Note,
        Page,
        Part,
        Points,
        Section,
        render,
        write_page,
    )
    from attnlab.pages.papers import check_figures, write_figures
    from attnlab.pages.tables import Table, Tone, prose

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "PALETTE",
    "THEME",
    "Details",
    "Equations",
    "Figure",
    "Gallery",
    "HasPage",
    "HeadMap",
    "MapGrid",
    "MapRow",
    "Note",
    "Page",
    "Part",
    "Points",
    "Section",
    "Table",
    "Tone",
    "check_figures",
    "equation_html",
    "equations_html",
    "new_figure",
    "prose",
    "render",
    "write_figures",
    "write_page",
]

_MODULES = ("tables", "mathematics", "maps", "figures", "page", "papers")  # modules with few imports first


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in _MODULES:
            found = vars(import_module(f"{__name__}.{module}"))
            if name in found:
                return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
