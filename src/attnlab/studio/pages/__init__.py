"""The studio's pages: one file each, drawn in one frame."""

from __future__ import annotations

from attnlab.studio.pages import ask, compare, comparison, cost, exhibits, heads, playground
from attnlab.studio.studio import Studio


def register(studio: Studio) -> None:
    """Make every page known to NiceGUI."""
    for page in (playground, compare, comparison, heads, cost, ask, exhibits):
        page.register(studio)
