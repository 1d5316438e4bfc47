"""A picker of runs: a text filter, then a comparison, a variant and a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from nicegui import ui

from attnlab.studio.widgets import Handler, choice, entry, markup

_CHOOSE = "choose …"


class RunPicker:
    """Selection of one run; each has a `name`, a `group`, a `variant` and a `seed` (`work/runs.py`)."""

    def __init__(
        self, label: str, runs: Sequence[Mapping[str, Any]], chosen: str, handler: Handler, *, none: str = ""
    ) -> None:
        """Draw the picker; `handler` is told the name of the run, `none` are the words for no run, where allowed."""
        self._runs = {one["name"]: one for one in runs}
        self._chosen, self._handler, self._none = chosen, handler, none
        self._words: list[str] = []
        with ui.element("fieldset").classes("picker"):
            markup(escape(label), "legend")
            with ui.element("div").classes("fields"):
                entry("search", "", self._searched, event="input")
                self._place = ui.element("div").classes("choices")
        self._draw()

    def _found(self) -> list[Mapping[str, Any]]:
        return [one for one in self._runs.values() if all(word in _haystack(one) for word in self._words)]

    def _draw(self) -> None:
        found, now = self._found(), self._runs.get(self._chosen)
        shown = now if now in found else None
        self._place.clear()
        with self._place:
            groups = {one["group"]: one["group"] for one in found}
            first = {"": self._none if self._none and not self._words else f"{_CHOOSE} ({len(found)} runs)"}
            begin = first if shown is None or self._none else {}
            choice("comparison", {**begin, **groups}, shown["group"] if shown else "", self._choose_group)
            if shown is None:
                return
            within = [one for one in found if one["group"] == shown["group"]]
            variants = list(dict.fromkeys(one["variant"] for one in within))
            choice("variant", variants, shown["variant"], self._choose_variant)
            seeds = {one["name"]: one["seed"] or "–" for one in within if one["variant"] == shown["variant"]}
            choice("seed", seeds, self._chosen, self._choose)

    async def _searched(self, text: str) -> None:
        self._words = text.lower().split()
        self._draw()

    async def _choose_group(self, group: str) -> None:
        within = [one for one in self._found() if one["group"] == group]
        await self._choose(self._alike(within)["name"] if within else "")

    async def _choose_variant(self, variant: str) -> None:
        group = self._runs[self._chosen]["group"]
        within = [one for one in self._found() if one["group"] == group and one["variant"] == variant]
        await self._choose(self._alike(within)["name"])

    def _alike(self, runs: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the run that has most in common with the one that is chosen."""
        now = self._runs.get(self._chosen, {})
        return max(runs, key=lambda one: sum(one[part] == now.get(part) for part in ("variant", "seed")))

    async def _choose(self, name: str) -> None:
        self._chosen = name
        self._draw()
        await self._handler(name)


def _haystack(one: Mapping[str, Any]) -> str:
    return " ".join([one["group"], one["variant"], one["seed"]]).lower()
