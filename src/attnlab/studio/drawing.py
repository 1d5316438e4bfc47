"""The parts of a page of attnlab (`work/parts.py`), drawn in the studio's frame."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from nicegui import ui

from attnlab.studio.widgets import heading, markup

Data = dict[str, Any]


def draw_page(page: Data, *, without: Sequence[str] = ()) -> None:
    """Facts and sections; the title and its lead are the frame's, and so may be some of the sections."""
    if page["facts"]:
        markup(facts_html(page["facts"]), "dl")
    for section in page["sections"]:
        if section["heading"] in without:
            continue
        heading(section["heading"])
        draw_parts(section["parts"])


def facts_html(facts: Sequence[Sequence[str]]) -> str:
    return "".join(f"<dt>{escape(name)}</dt><dd>{escape(fact)}</dd>" for name, fact in facts)


def draw_parts(parts: Sequence[Data]) -> None:
    for part in parts:
        match part["kind"]:
            case "text":
                markup(part["html"], "p")
            case "note":
                markup(part["html"], "p").classes("note")
            case "points":
                markup("".join(f"<li>{item}</li>" for item in part["items"]), "ul").classes("points")
            case "figure":
                draw_figure(part)
            case "gallery":
                with ui.element("div").classes("gallery"):
                    for one in part["figures"]:
                        draw_figure(one)
            case "table":
                markup(_table_html(part))
            case "details":
                with ui.element("details"):
                    markup(escape(part["summary"]), "summary")
                    draw_parts(part["parts"])


def draw_figure(part: Data) -> ui.plotly:
    """A chart with its caption, which also says it to those who do not see."""
    with ui.element("figure"):
        chart = ui.plotly(part["figure"]).classes("plot").props("role=img")
        chart.props["aria-label"] = _plain(part["caption"]) or "a chart"
        if part["caption"]:
            markup(part["caption"], "figcaption")
    return chart


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
        body += f"<tr>{first}" + "".join(
            f'<td class="{side(column)}">{cell}</td>' for column, cell in enumerate(cells[1:], start=1)
        )
        body += "</tr>"
    caption = f"<caption>{escape(part['caption'])}</caption>" if part["caption"] else ""
    thead = f"<thead><tr>{head}</tr></thead>" if any(part["headings"]) else ""
    return f'<div class="wide" tabindex="0"><table>{caption}{thead}<tbody>{body}</tbody></table></div>'
