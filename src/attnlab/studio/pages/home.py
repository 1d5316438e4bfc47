"""Home: an overview of the pages, current runs, the latest verdicts, and a tour."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from attnlab.errors import AttnlabError
from attnlab.formats import percent
from attnlab.pages import prose
from attnlab.studio.frame import Frame, page
from attnlab.studio.matrices import number_text
from attnlab.studio.pictures import intervals_svg, page_icon, weights_svg
from attnlab.studio.studio import RUNNING, Studio
from attnlab.studio.tour import STEPS, step_address
from attnlab.studio.widgets import heading, markup
from attnlab.studio.work.first import first_answer

_LEAD = "A laboratory for attention: change one thing about it, and find out with evidence what that does."
_CARDS = {
    "/seen": ("Attention, seen", "A text flows through a trained model: every head, every weight, the next token."),
    "/playground": ("Playground", "Attention on matrices of your own, every number at once, any variant."),
    "/compare": ("Compare", "Train variants against a baseline on paired seeds, and get a verdict."),
    "/scale": ("Scale", "The same on a ladder of sizes: the trend, and a forecast for a larger model."),
    "/retrofit": ("Retrofit", "Another attention for a trained model: what each layer costs, and what heals it."),
    "/heads": ("Heads", "The maps of a run's heads, two runs beside each other, heads taken away."),
    "/cost": ("Cost", "Parameters, FLOPs, memory and cache of any variant at any shape."),
    "/ask": ("Ask", "Questions to a model that says when it does not know."),
    "/exhibits": ("Exhibits", "Claims about attention as small programs that check themselves."),
}
_LATEST = 6  # comparisons and studies
_REFRESH = 5.0  # seconds between two updates
_NOTHING = 'Nothing was compared here yet. <a href="/compare">Start with one variant</a>; it takes minutes.'


def register(studio: Studio) -> None:
    @page(studio, "/", "Home")
    async def home(frame: Frame, s: str = "") -> None:
        if s:  # a state of the playground
            ui.navigate.to(f"/playground?{urlencode({'s': s})}")
            return
        await HomePage(frame, studio).build()


class HomePage:
    """The home page for one visitor."""

    def __init__(self, frame: Frame, studio: Studio) -> None:
        self.frame, self.studio = frame, studio
        self._shown: Sequence[Mapping[str, Any]] | None = None

    async def build(self) -> None:
        self.frame.entitle("attnlab studio")
        markup(escape(_LEAD), "p").classes("lead")
        with ui.element("div").classes("entrance"):
            markup(_example_html())
            markup(_tour_html())
        markup("".join(_card_html(address) for address in _CARDS)).classes("cards")
        self._running = markup("").props("role=status")
        heading("Latest comparisons and studies")
        self._latest = markup('<p class="soft">looking …</p>')
        ui.timer(_REFRESH, self._refresh, immediate=True)

    async def _refresh(self) -> None:
        with contextlib.suppress(AttnlabError):  # the next update may succeed
            found = await self.studio.latest(_LATEST)
            if found == self._shown:
                return
            self._shown = found
            self._running.set_content(_running_html([one for one in found if one["status"] in RUNNING]))
            ended = [one for one in found if one["status"] not in RUNNING]
            rows = "".join(_experiment_html(one) for one in ended)
            self._latest.set_content(f'<ul class="latest">{rows}</ul>' if rows else f'<p class="empty">{_NOTHING}</p>')


def _example_html() -> str:
    """Return the worked example in small: its last row of weights, computed at once."""
    answer = first_answer()
    weights = answer["steps"]["weights"][0]
    picture = weights_svg(weights, "the weights of the worked example")
    tokens, last = answer["state"]["tokens"], weights[-1]
    numbers = ", ".join(f"{escape(name)} {number_text(weight)}" for name, weight in zip(tokens, last, strict=True))
    return (
        f'<h2>Attention by hand</h2><div class="example">{picture}<p>{escape(tokens[-1])} attends to <b>{numbers}</b>. '
        '<a href="/playground">Change any number</a></p></div>'
    )


def _tour_html() -> str:
    steps = "".join(
        f'<li><a href="{step_address(number)}">{escape(step.title)}</a></li>' for number, step in enumerate(STEPS, 1)
    )
    return f'<h2>A tour in five steps</h2><ol class="steps">{steps}</ol>'


def _card_html(address: str) -> str:
    title, words = _CARDS[address]
    said = f"<div><b>{escape(title)}</b><span>{escape(words)}</span></div>"
    return f'<a class="card" href="{address}">{page_icon(address)}{said}</a>'


def _running_html(found: Sequence[Mapping[str, Any]]) -> str:
    if not found:
        return ""
    rows = "".join(
        f'<li><a href="{one["address"]}">{escape(one["title"])}</a> <span>{escape(one["status"])}, '
        f"{percent(one.get('share', 0.0))}{', ' + escape(one['left']) if one.get('left') else ''}</span>"
        f'<progress max="1" value="{one.get("share", 0.0):.4f}" aria-label="share that is done"></progress></li>'
        for one in found
    )
    return f'<h2>Running now</h2><ul class="latest">{rows}</ul>'


def _experiment_html(one: Mapping[str, Any]) -> str:
    picture = intervals_svg(one.get("intervals", []), one.get("margin", 0.03))
    words = prose(one["verdict"]) if one["verdict"] else f"{escape(one['status'])}."
    made = one["made"][:16].replace("T", " ")
    return (
        f'<li>{picture}<div><a href="{one["address"]}">{escape(one["title"])}</a> '
        f"<small>{escape(one['setting'])} · {made}</small><p>{words}</p></div></li>"
    )
