"""The one writer of offline HTML pages and figures."""

from attnlab.pages.figures import BLUE, GREEN, GREY, ORANGE, PALETTE, THEME, new_figure
from attnlab.pages.files import check_writable, write_whole
from attnlab.pages.page import Figure, Page, Section, Table, render, write_page

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "PALETTE",
    "THEME",
    "Figure",
    "Page",
    "Section",
    "Table",
    "check_writable",
    "new_figure",
    "render",
    "write_page",
    "write_whole",
]
