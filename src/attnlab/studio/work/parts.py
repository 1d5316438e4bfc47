"""A page of attnlab as plain data, so that the studio can draw it in its own frame."""

from __future__ import annotations

import json
from typing import Any

import plotly.io

from attnlab.pages import Details, Figure, Gallery, Note, Page, Part, Points, Table, prose


def page_data(page: Page) -> dict[str, Any]:
    """Title, lead, facts and sections. Words become HTML here, by the same rules as on a page of its own."""
    return {
        "title": page.title,
        "lead": str(prose(page.lead)),
        "facts": [[name, fact] for name, fact in page.facts.items()],
        "sections": [
            {"heading": one.heading, "parts": [part_data(part) for part in one.content]} for one in page.sections
        ],
    }


def part_data(part: Part) -> dict[str, Any]:
    match part:
        case str():
            return {"kind": "text", "html": str(prose(part))}
        case Note():
            return {"kind": "note", "html": str(prose(part.text))}
        case Points():
            return {"kind": "points", "items": [str(prose(item)) for item in part.items]}
        case Figure():
            return _figure(part)
        case Gallery():
            return {"kind": "gallery", "figures": [_figure(one) for one in part.figures], "caption": part.caption}
        case Table():
            return _table(part)
        case Details():
            inner = [part_data(one) for one in part.content]
            return {"kind": "details", "summary": part.summary, "parts": inner}
    raise TypeError(f"the studio does not draw {type(part).__name__}")


def _figure(part: Figure) -> dict[str, Any]:
    # Plotly's own JSON, in which arrays are lists and what is no number is null.
    drawn = json.loads(plotly.io.to_json(part.chart, engine="json"))
    drawn["config"] = {"displayModeBar": False, "displaylogo": False, "showTips": False}
    return {"kind": "figure", "figure": drawn, "caption": str(prose(part.caption))}


def _table(part: Table) -> dict[str, Any]:
    return {
        "kind": "table",
        "headings": list(part.headings),
        "rows": [[str(prose(cell)) for cell in row] for row in part.rows],
        "tones": [[part.tones.get(cell, "") for cell in row] for row in part.rows],
        "caption": part.caption,
        "text": list(part.text_columns),
        "wrap": list(part.wrap_columns),
    }
