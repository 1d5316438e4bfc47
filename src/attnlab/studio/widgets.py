"""Controls, and parts of pages.

All forms use a few controls in plain HTML, each with its label, so that keyboards and screen readers can use them. A
control passes the new value to its handler, and keeps the typed text until it is redrawn. Errors are shown beside the
control into which the value was typed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from nicegui import ui
from nicegui.events import GenericEventArguments

from attnlab.pages import prose

if TYPE_CHECKING:  # only the worker processes import the module that makes them
    from attnlab.studio.work.pages import DrawnPart

Handler = Callable[[str], Awaitable[None]]

_VALUE = "(event) => emit(event.target.value)"
_CHECKED = "(event) => emit(event.target.checked ? 'yes' : '')"


@dataclass
class Field:
    """A control, and the element beside it that shows what is wrong with its value."""

    problem: ui.html
    control: ui.element | None = None

    def refuse(self, html: str) -> None:
        """Say what is wrong with the value."""
        self._mark(html)

    def accept(self) -> None:
        """Take back what was said about an earlier value."""
        if self.problem.content:
            self._mark("")

    @property
    def is_gone(self) -> bool:
        """Return whether the control was redrawn since."""
        return self.problem.is_deleted

    def _mark(self, html: str) -> None:
        if self.is_gone or self.control is None:
            return
        self.problem.set_content(html)
        self.control.props("aria-invalid=true" if html else "aria-invalid=false")


changed_field: ContextVar[Field | None] = ContextVar("changed_field", default=None)  # the one whose handler is running


def _listening(
    element: ui.element, event: str, handler: Handler, script: str = _VALUE, field: Field | None = None
) -> ui.element:
    async def heard(arguments: GenericEventArguments) -> None:
        changed_field.set(field)
        await handler(str(arguments.args))

    if field is not None:
        field.control = element
    return element.on(event, heard, js_handler=script)


@contextmanager
def _labelled(label: str, hint: str = "") -> Iterator[Field]:
    with ui.element("label").classes("field"):
        ui.html(escape(label), tag="span", sanitize=False).classes("label")
        place = ui.element("span").classes("control")
        problem = ui.html("", tag="span", sanitize=False).classes("problem").props("role=alert")
        if hint:
            ui.html(escape(hint), tag="span", sanitize=False).classes("hint")
        with place:
            yield Field(problem)


def choice(
    label: str, options: Mapping[str, str] | Sequence[str], value: str, handler: Handler, *, hint: str = ""
) -> ui.element:
    """Draw a choice of one of several: names by their values, or the values themselves."""
    named = dict(options) if isinstance(options, Mapping) else {one: one for one in options}
    with _labelled(label, hint) as field:
        element = ui.html(options_html(named, value), tag="select", sanitize=False)
        return _listening(element, "change", handler, field=field)


def options_html(named: Mapping[str, str], value: str) -> str:
    return "".join(
        f'<option value="{escape(one, quote=True)}"{" selected" if one == value else ""}>{escape(name)}</option>'
        for one, name in named.items()
    )


def entry(
    label: str,
    value: str,
    handler: Handler,
    *,
    hint: str = "",
    whole: bool = False,
    event: str = "change",
    wide: bool = False,
) -> ui.element:
    """Draw a line to type into."""
    with _labelled(label, hint) as field:
        mode = "numeric" if whole else "text"
        element = ui.element("input").props(f"type=text inputmode={mode} autocomplete=off spellcheck=false")
        element.props["^value"] = value
        element.classes("wide" if wide else "narrow")
        return _listening(element, event, handler, field=field)


def area(
    label: str, value: str, handler: Handler, *, rows: int = 2, most: int = 2000, event: str = "input"
) -> ui.element:
    """Draw several lines to type into."""
    with _labelled(label) as field:
        html = escape(value)
        element = ui.html(html, tag="textarea", sanitize=False)
        element.props(f"rows={rows} maxlength={most} spellcheck=false").classes("wide")
        return _listening(element, event, handler, field=field)


def slider(
    label: str, least: float, most: float, step: float, value: float, handler: Handler, *, event: str = "input"
) -> ui.html:
    """Draw a slider; return the output beside it, where the caller shows what the number stands for."""
    with _labelled(label) as field:
        element = ui.element("input").props(f"type=range min={least:g} max={most:g} step={step:g}")
        element.props["^value"] = f"{value:g}"
        _listening(element, event, handler, field=field)
        return ui.html("", tag="output", sanitize=False)


def switch(label: str, value: bool, handler: Handler) -> ui.element:
    """Draw a checkbox with its label."""
    with ui.element("label").classes("switch"):
        element = ui.element("input").props("type=checkbox")
        if value:
            element.props["^checked"] = ""
        _listening(element, "change", handler, _CHECKED)
        ui.html(escape(label), tag="span", sanitize=False)
    return element


def button(label: str, handler: Callable[[], Awaitable[None]], *, main: bool = False) -> ui.element:
    """Draw a button."""

    async def heard() -> None:
        await handler()

    element = ui.html(escape(label), tag="button", sanitize=False).props("type=button")
    if main:
        element.classes("main")
    return element.on("click", heard, args=[])


def markup(html: str, tag: str = "div") -> ui.html:
    """Draw HTML of the studio's own making; what comes from elsewhere was escaped before."""
    return ui.html(html, tag=tag, sanitize=False)


def heading(text: str, level: int = 2) -> ui.html:
    return markup(escape(text), f"h{level}")


def facts_html(facts: Iterable[tuple[str, str]]) -> str:
    """Return names with their facts as a list of definitions."""
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{prose(fact)}</dd>' for name, fact in facts)}</dl>"


class Canvas:
    """An element that shows one page after another, each as parts (`work/pages.py`).

    A page with the same parts and other numbers is updated in place, so that the layout does not jump.
    """

    def __init__(self) -> None:
        self._place = ui.element("div")
        self._drawn: list[ui.html | ui.plotly] = []
        self._shape: Sequence[tuple[str, str]] = ()

    def clear(self) -> None:
        self._place.clear()
        self._drawn, self._shape = [], ()

    def show(self, parts: Sequence[DrawnPart]) -> None:
        shape = [(part["kind"], part.get("tag", "")) for part in parts]
        if shape == self._shape:
            drawn = iter(self._drawn)
            for part in parts:
                _change(part, drawn)
            return
        self.clear()
        self._shape = shape
        with self._place:
            self._drawn = [element for part in parts for element in _draw(part)]


def _draw(part: DrawnPart) -> list[ui.html | ui.plotly]:
    """Draw one part, and return those of its elements that can change."""
    if part["kind"] == "html":
        return [markup(part["html"], part["tag"]).classes(part["classes"])]
    if part["kind"] == "gallery":
        with ui.element("div").classes("gallery"):
            return [element for one in part["parts"] for element in _draw(one)]
    if part["kind"] == "details":
        with ui.element("details"):
            return [markup(part["html"], "summary"), *(element for one in part["parts"] for element in _draw(one))]
    with ui.element("figure"):
        chart = ui.plotly(part["figure"]).classes("plot").props("role=img")
        # The caption is the label for screen readers.
        chart.props["aria-label"] = part["html"].replace("<code>", "").replace("</code>", "") or "a chart"
        return [chart, markup(part["html"], "figcaption")]


def _change(part: DrawnPart, drawn: Iterator[Any]) -> None:
    if part["kind"] == "figure":
        next(drawn).update_figure(part["figure"])
    if part["kind"] != "gallery":
        next(drawn).set_content(part["html"])
    for one in part.get("parts", ()):
        _change(one, drawn)
