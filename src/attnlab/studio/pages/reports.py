"""Reports: any two reports side by side."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from attnlab.studio.frame import Frame, guarded, page
from attnlab.studio.studio import Studio
from attnlab.studio.widgets import choice, markup

_LEAD = "Two reports side by side, each as it was written."
_NOTHING = (
    'Nothing here has a report yet. <a href="/compare">Start a comparison</a>; its report is written when it ends.'
)
_NONE = "no report"


def register(studio: Studio) -> None:
    @page(studio, "/reports", "Reports side by side", under="/compare")
    async def reports(frame: Frame, left: str = "", right: str = "") -> None:
        await ReportsPage(frame, studio).build(left, right)


class ReportsPage:
    """The two reports that one visitor has chosen."""

    def __init__(self, frame: Frame, studio: Studio) -> None:
        self.frame, self.studio = frame, studio
        self.chosen = {"left": "", "right": ""}

    async def build(self, left: str, right: str) -> None:
        found = [one for one in await self.studio.experiments() if one["status"] == "finished"]
        markup(escape(_LEAD), "p").classes("lead")
        if not found:
            markup(_NOTHING, "p").classes("empty")
            return
        names = {one["name"]: _named(one) for one in found}
        first, *others = names
        self.chosen["left"] = left if left in names else first
        self.chosen["right"] = right if right in names else (others[0] if others else "")
        with ui.element("div").classes("pair"):
            for side in self.chosen:
                with ui.element("section"):
                    options = {"": _NONE, **names}
                    choice(f"{side} report", options, self.chosen[side], guarded(self.frame, self._choosing(side)))
        self._places = ui.element("div").classes("pair")
        self._draw()

    def _choosing(self, side: str) -> Any:
        async def choose(name: str) -> None:
            self.chosen[side] = name
            self._draw()

        return choose

    def _draw(self) -> None:
        self._places.clear()
        with self._places:
            for side, name in self.chosen.items():
                if name:
                    place = markup("", "iframe").props('sandbox="allow-scripts"').classes("report")
                    place.props["src"], place.props["title"] = self.studio.report_address(name), f"{side} report"
        ui.navigate.history.replace(f"/reports?{urlencode(self.chosen)}")


def _named(one: Mapping[str, Any]) -> str:
    return f"{one['title']} ({one['setting']}, {one['made'][:16].replace('T', ' ')})"
