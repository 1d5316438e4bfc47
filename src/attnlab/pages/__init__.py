"""The one writer of offline HTML pages and figures."""

from attnlab.pages.figures import BLUE, GREEN, GREY, ORANGE, PALETTE, THEME, new_figure
from attnlab.pages.maps import HeadMap, MapGrid, MapRow
from attnlab.pages.page import (
    Details,
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
from attnlab.pages.tables import Table, Tone, prose

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "PALETTE",
    "THEME",
    "Details",
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
    "new_figure",
    "prose",
    "render",
    "write_page",
]
