"""The parts of a page of attnlab (`work/parts.py`), drawn in the studio's frame.

A page that is shown again with other numbers is changed in place, so that nothing jumps under the reader's eyes.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from nicegui import ui

from attnlab.studio.widgets import heading, markup

Data = dict[str, Any]


class Canvas:
    """A place that shows one page after another. The title and its lead are the frame's, as may be some sections."""

    def __init__(self, *, without: Sequence[str] = ()) -> None:
        self._without = without
        self._place = ui.element("div")
        self._drawn: list[ui.html | ui.plotly] = []
        self._shape: list[str] = []

    def clear(self) -> None:
        self._place.clear()
        self._drawn, self._shape = [], []

    def show(self, page: Data) -> None:
        parts = self._flat(page)
        shape = [part["kind"] for part in parts]
        if shape != self._shape:
            self.clear()
            self._shape = shape
            with self._place:
                self._drawn = [element for part in parts for element in _draw(part)]
            return
        changed = iter(self._drawn)
        for part in parts:
            _change(part, changed)

    def _flat(self, page: Data) -> list[Data]:
        parts: list[Data] = [{"kind": "facts", "facts": page["facts"]}] if page["facts"] else []
        for section in page["sections"]:
            if section["heading"] not in self._without:
                parts += [{"kind": "heading", "text": section["heading"]}, *section["parts"]]
        return parts


def _draw(part: Data) -> list[ui.html | ui.plotly]:
    """The elements of one part that can change."""
    match part["kind"]:
        case "heading":
            return [heading(part["text"])]
        case "figure":
            return _draw_figure(part)
        case "gallery":
            with ui.element("div").classes("gallery"):
                return [element for one in part["figures"] for element in _draw_figure(one)]
        case "details":
            with ui.element("details"):
                summary = markup(escape(part["summary"]), "summary")
                return [summary, *(element for one in part["parts"] for element in _draw(one))]
    element = markup(_html(part), {"facts": "dl", "text": "p", "note": "p", "points": "ul"}.get(part["kind"], "div"))
    return [element.classes(part["kind"] if part["kind"] in {"note", "points"} else "")]


def _draw_figure(part: Data) -> list[ui.html | ui.plotly]:
    """A chart with its caption, which also says it to those who do not see."""
    with ui.element("figure"):
        chart = ui.plotly(part["figure"]).classes("plot").props("role=img")
        chart.props["aria-label"] = _plain(part["caption"]) or "a chart"
        return [chart, markup(part["caption"], "figcaption")]


def _change(part: Data, drawn: Any) -> None:
    match part["kind"]:
        case "figure":
            next(drawn).update_figure(part["figure"])
            next(drawn).set_content(part["caption"])
        case "gallery":
            for one in part["figures"]:
                _change(one, drawn)
        case "details":
            next(drawn).set_content(escape(part["summary"]))
            for one in part["parts"]:
                _change(one, drawn)
        case "heading":
            next(drawn).set_content(escape(part["text"]))
        case _:
            next(drawn).set_content(_html(part))


def _html(part: Data) -> str:
    match part["kind"]:
        case "facts":
            return "".join(f"<dt>{escape(name)}</dt><dd>{escape(fact)}</dd>" for name, fact in part["facts"])
        case "points":
            return "".join(f"<li>{item}</li>" for item in part["items"])
        case "table":
            return _table_html(part)
    html: str = part["html"]
    return html


def _plain(html: str) -> str:
    return html.replace("<code>", "").replace("</code>", "")


def _table_html(part: Data) -> str:
    def side(column: int) -> str:
        return " ".join(name for name, columns in (("text", part["text"]), ("wrap", part["wrap"])) if column in columns)

    head = "".join(
        f'<th scope="col" class="{side(column)}">{escape(name).replace(chr(10), "<br>")}</th>'
        for column, name in enumerate(part["headings"])
    )
    body = ""
    for row, tones in zip(part["rows"], part["tones"], strict=True):
        cells = [f'<span class="{tone}">{cell}</span>' if tone else cell for cell, tone in zip(row, tones, strict=True)]
        first = f'<th scope="row" class="{side(0)}">{cells[0]}</th>'
        rest = "".join(f'<td class="{side(column)}">{cell}</td>' for column, cell in enumerate(cells[1:], start=1))
        body += f"<tr>{first}{rest}</tr>"
    caption = f"<caption>{escape(part['caption'])}</caption>" if part["caption"] else ""
    thead = f"<thead><tr>{head}</tr></thead>" if any(part["headings"]) else ""
    return f'<div class="wide" tabindex="0"><table>{caption}{thead}<tbody>{body}</tbody></table></div>'
