"""The few controls that all forms are made of: plain HTML, each with its label, so that any keyboard and any reader of
screens knows them. A control tells its handler the new value, and keeps what is typed until it is drawn anew."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape

from nicegui import ui
from nicegui.events import GenericEventArguments

Handler = Callable[[str], Awaitable[None]]

_VALUE = "(event) => emit(event.target.value)"
_CHECKED = "(event) => emit(event.target.checked ? 'yes' : '')"


def _listening(element: ui.element, event: str, handler: Handler, script: str = _VALUE) -> ui.element:
    async def heard(arguments: GenericEventArguments) -> None:
        await handler(str(arguments.args))

    return element.on(event, heard, js_handler=script)


@contextmanager
def _labelled(label: str, hint: str = "") -> Iterator[None]:
    with ui.element("label").classes("field"):
        ui.html(escape(label), tag="span", sanitize=False).classes("label")
        yield
        if hint:
            ui.html(escape(hint), tag="span", sanitize=False).classes("hint")


def choice(
    label: str, options: Mapping[str, str] | Sequence[str], value: str, handler: Handler, *, hint: str = ""
) -> ui.element:
    """One of several: names by their values, or the values themselves."""
    named = dict(options) if isinstance(options, Mapping) else {one: one for one in options}
    with _labelled(label, hint):
        return _listening(ui.html(options_html(named, value), tag="select", sanitize=False), "change", handler)


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
    """A line to type into."""
    with _labelled(label, hint):
        mode = "numeric" if whole else "text"
        element = ui.element("input").props(f"type=text inputmode={mode} autocomplete=off spellcheck=false")
        element.props["^value"] = value
        element.classes("wide" if wide else "narrow")
        return _listening(element, event, handler)


def area(label: str, value: str, handler: Handler, *, rows: int = 2, most: int = 2000) -> ui.element:
    """Several lines to type into."""
    with _labelled(label):
        html = escape(value)
        element = ui.html(html, tag="textarea", sanitize=False)
        element.props(f"rows={rows} maxlength={most} spellcheck=false").classes("wide")
        return _listening(element, "input", handler)


def slider(
    label: str, least: float, most: float, step: float, value: float, handler: Handler, *, event: str = "input"
) -> ui.html:
    """A number to drag; what it stands for is shown beside it, and returned to be changed."""
    with _labelled(label):
        element = ui.element("input").props(f"type=range min={least:g} max={most:g} step={step:g}")
        element.props["^value"] = f"{value:g}"
        _listening(element, event, handler)
        return ui.html("", tag="output", sanitize=False)


def switch(label: str, value: bool, handler: Handler) -> ui.element:
    """Yes or no."""
    with ui.element("label").classes("switch"):
        element = ui.element("input").props("type=checkbox")
        if value:
            element.props["^checked"] = ""
        _listening(element, "change", handler, _CHECKED)
        ui.html(escape(label), tag="span", sanitize=False)
    return element


def button(label: str, handler: Callable[[], Awaitable[None]], *, main: bool = False) -> ui.element:
    """Something to do."""

    async def heard() -> None:
        await handler()

    element = ui.html(escape(label), tag="button", sanitize=False).props("type=button")
    if main:
        element.classes("main")
    return element.on("click", heard, args=[])


def markup(html: str, tag: str = "div") -> ui.html:
    """HTML of the studio's own making; what comes from elsewhere was escaped before."""
    return ui.html(html, tag=tag, sanitize=False)


def heading(text: str, level: int = 2) -> ui.html:
    return markup(escape(text), f"h{level}")


def table_html(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    text: Sequence[int] = (0,),
    safe: bool = False,
) -> str:
    """A table; cells are escaped unless they are `safe`."""
    sides = ["text" if number in text else "" for number in range(len(headings))]
    head = "".join(
        f'<th scope="col" class="{side}">{escape(one).replace(chr(10), "<br>")}</th>'
        for one, side in zip(headings, sides, strict=True)
    )
    body = ""
    for row in rows:
        cells = [cell if safe else escape(cell) for cell in row]
        first = f'<th scope="row" class="{sides[0]}">{cells[0]}</th>'
        rest = "".join(f'<td class="{side}">{cell}</td>' for cell, side in zip(cells[1:], sides[1:], strict=True))
        body += f"<tr>{first}{rest}</tr>"
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide" tabindex="0">{table}</div>'
