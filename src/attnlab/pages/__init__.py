"""The one writer of offline HTML pages and figures.

figures   one style for all charts
tables    a table for terminal, page, notebook and Markdown
packing   attention weights as few letters
maps      attention maps on a page
page      a page: one HTML file that needs nothing else
"""

from attnlab.pages.figures import BLUE, GREEN, GREY, ORANGE, PALETTE, THEME, new_figure
from attnlab.pages.maps import HeadMap, MapGrid, MapRow
from attnlab.pages.page import (
    Details,
    Figure,
    Gallery,
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
