"""Cost: sliders for the shape of a model; bars, sweeps and crossovers follow them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from html import escape
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from attnlab.studio.frame import Frame, guarded, page, soon
from attnlab.studio.matrices import read_number
from attnlab.studio.studio import Studio
from attnlab.studio.widgets import Canvas, choice, heading, markup, slider

_LEAD = "Parameters, FLOPs, memory and cache of any variant at any shape, and where attention overtakes the rest."
# The values of each slider: powers of two, or integers.
_CONTEXT, _WIDTH, _LAYERS, _HEADS, _BATCH = (4, 20), (5, 14), (1, 96), (1, 128), (0, 10)


def register(studio: Studio) -> None:
    @page(studio, "/cost", "Cost")
    async def cost(frame: Frame, size: str = "gpt2", variant: str = "tied-kv", n: int = 0, d: int = 0) -> None:
        await CostPage(frame, studio).build(size, variant, n, d)


class CostPage:
    """One visitor's model."""

    def __init__(self, frame: Frame, studio: Studio) -> None:
        self.frame, self.studio = frame, studio
        self.asked: dict[str, Any] = {}
        self._sizes: dict[str, dict[str, int]] = {}
        self._turn = 0

    async def build(self, size: str, variant: str, context: int, width: int) -> None:
        known = await self.studio.desk.ask("cost_choices")
        self._sizes = known["sizes"]
        size = size if size in self._sizes else "gpt2"
        variant = variant if variant in known["variants"] else "tied-kv"
        self.asked = {"size": size, "variant": variant, "batch_size": 1, **self._sizes[size]}
        self.asked |= {name: n for name, n in (("context_length", context), ("model_width", width)) if n > 0}
        markup(escape(_LEAD), "p").classes("lead")
        with ui.element("div").classes("columns"):
            with ui.element("div"):
                heading("Model")
                with ui.element("div").classes("fields"):
                    choice("begin with", list(self._sizes), size, guarded(self.frame, self._begin_with))
                    choice("variant", known["variants"], variant, guarded(self.frame, self._vary))
                self._sliders = ui.element("div").classes("fields")
                self._draw_sliders()
            with ui.element("div"):
                self._canvas = Canvas()
        soon(self.frame, self._compute)

    def _draw_sliders(self) -> None:
        self._sliders.clear()
        with self._sliders:
            self._shown = {
                "context_length": self._power("context N (tokens)", "context_length", _CONTEXT),
                "model_width": self._power("width D", "model_width", _WIDTH),
                "num_layers": self._whole("layers", "num_layers", _LAYERS),
                "num_heads": self._whole("heads", "num_heads", _HEADS),
                "batch_size": self._power("batch (texts)", "batch_size", _BATCH),
            }
        self._label()

    def _power(self, label: str, field: str, ends: tuple[int, int]) -> ui.html:
        """Draw a slider whose steps are half powers of two."""
        return slider(label, *ends, 0.5, math.log2(self.asked[field]), self._moved(field, lambda at: round(2**at)))

    def _whole(self, label: str, field: str, ends: tuple[int, int]) -> ui.html:
        return slider(label, *ends, 1, self.asked[field], self._moved(field, round))

    def _moved(self, field: str, value_at: Callable[[float], int]) -> Callable[[str], Awaitable[None]]:
        async def moved(text: str) -> None:
            self.asked = {**self.asked, field: value_at(read_number(text))}
            await self._compute()

        return guarded(self.frame, moved)

    async def _begin_with(self, size: str) -> None:
        self.asked = {**self.asked, "size": size, **self._sizes[size]}
        self._draw_sliders()
        await self._compute()

    async def _vary(self, variant: str) -> None:
        self.asked = {**self.asked, "variant": variant}
        await self._compute()

    def _question(self) -> dict[str, str | int]:
        """Return the question, with a width that the heads divide."""
        heads = self.asked["num_heads"]
        width = max(2, round(self.asked["model_width"] / heads / 2) * 2) * heads
        return {**self.asked, "model_width": width}

    def _label(self) -> None:
        question = self._question()
        for field, shown in self._shown.items():
            shown.set_content(f"{question[field]:,}")

    async def _compute(self) -> None:
        """Ask for what the sliders say; while they move, only the last is answered."""
        self._turn += 1
        turn = self._turn
        self._label()
        await asyncio.sleep(0.03)
        if turn != self._turn:
            return
        question = self._question()
        found = await self.studio.cost(question, self.frame.owner("cost"))
        if turn != self._turn:
            return
        self._canvas.show(found["page"])
        fields = {"size": question["size"], "variant": question["variant"]}
        fields |= {"n": question["context_length"], "d": question["model_width"]}
        ui.navigate.history.replace(f"/cost?{urlencode(fields)}")
