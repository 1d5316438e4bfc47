"""Pages of other packages as parts that the studio draws in its own frame: a model's cost, and exhibits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, NotRequired, TypedDict

import plotly.graph_objects as go
import plotly.io
from markupsafe import escape

from attnlab.attention import variants
from attnlab.cost import CostEstimate, CostTable, Question, Sweep
from attnlab.exhibits import Check, exhibit_named, exhibits
from attnlab.exhibits.blocks import Block
from attnlab.models.sizes import SIZES
from attnlab.models.sizes import size as size_by_name
from attnlab.pages import Details, Equations, Figure, Gallery, Note, Page, Part, Points, Table, equations_html, prose
from attnlab.pages.figures import CHART_CONFIG
from attnlab.processes.child import report_progress

_BASELINE = "softmax"


class DrawnPart(TypedDict):
    """A part of a page: an element of HTML, a chart with a caption, or an element with parts inside."""

    kind: Literal["html", "figure", "gallery", "details"]
    html: str  # inside the element; the caption of a chart, the summary of details
    tag: NotRequired[str]
    classes: NotRequired[str]
    figure: NotRequired[object]
    parts: NotRequired[list[DrawnPart]]


def drawn_parts(page: Page, without: Sequence[str] = ()) -> list[DrawnPart]:
    """Return the facts and the sections of a page, except those with the headings `without`.

    The frame draws the title and the lead. Text is converted to HTML here, by the same rules as on a separate page.
    """
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(fact)}</dd>" for name, fact in page.facts.items())
    parts = [_html("dl", facts)] if facts else []
    for section in page.sections:
        if section.heading not in without:
            parts += [_html("h2", escape(section.heading)), *map(_drawn, section.content)]
    return parts


def _drawn(part: Part) -> DrawnPart:
    match part:
        case str():
            return _html("p", prose(part))
        case Note():
            return _html("p", prose(part.text), "note")
        case Points():
            return _html("ul", "".join(f"<li>{prose(item)}</li>" for item in part.items), "points")
        case Equations():
            return _html("div", equations_html(part.text))
        case Table():
            return _html("div", part.to_html())
        case Figure():
            return {"kind": "figure", "figure": drawn_figure(part.chart), "html": str(prose(part.caption))}
        case Gallery():
            return {"kind": "gallery", "html": "", "parts": [_drawn(one) for one in part.figures]}
        case Details():
            inner = [_drawn(one) for one in part.content]
            return {"kind": "details", "html": str(escape(part.summary)), "parts": inner}
    raise TypeError(f"the studio does not draw {type(part).__name__}")


def drawn_figure(chart: go.Figure) -> dict[str, Any]:
    """Return a chart as plotly's own JSON, in which arrays are lists and what is no number is null."""
    plain: dict[str, Any] = json.loads(plotly.io.to_json(chart, engine="json"))
    return plain | {"config": CHART_CONFIG}


def _html(tag: str, html: str, classes: str = "") -> DrawnPart:
    return {"kind": "html", "tag": tag, "html": str(html), "classes": classes}


def cost_choices() -> dict[str, object]:
    """Return the sizes to begin with, and the variants."""
    return {
        "sizes": {name: size.dimensions() for name, size in SIZES.items()},
        "variants": [one.name for one in variants()],
    }


def cost(question: Mapping[str, object]) -> dict[str, object]:
    """Return the cost of the model that a question names, beside softmax at the same size."""
    size_by_name(str(question.get("size", "gpt2")))  # by name only: a visitor may not name files of this machine
    asked = Question(**question)
    names = dict.fromkeys((_BASELINE, asked.variant))
    estimates = tuple(CostEstimate(one, one.model()) for one in (asked.replace(variant=name) for name in names))
    sweeps = tuple(Sweep.over(axis, asked) for axis in ("context", "width"))
    return {"page": drawn_parts(CostTable(estimates, sweeps=sweeps).page(), ("By part", "How it is counted"))}


def course() -> dict[str, object]:
    """Return every exhibit, chapter by chapter."""
    described = [one.describe() for one in exhibits()]
    chapters = groupby(described, key=lambda one: one["chapter"])
    return {"chapters": [{"chapter": chapter, "exhibits": list(members)} for chapter, members in chapters]}


def exhibit(name: str) -> dict[str, object]:
    """Return what there is to know of an exhibit without running it."""
    return {"exhibit": exhibit_named(name).describe()}


def run_exhibit(name: str, settings: Mapping[str, str]) -> dict[str, object]:
    """Run an exhibit with parameters of the visitor's own."""
    outcome = exhibit_named(name).run(listener=_ProgressListener(), **settings)
    return {
        "page": drawn_parts(outcome.page(), ("Equation",)),
        "ok": outcome.ok,
        "held": sum(check.ok for check in outcome.checks),
        "checks": len(outcome.checks),
    }


class _ProgressListener:
    def shown(self, block: Block | Check) -> None:
        del block

    def progress(self, what: str, done: int, total: int | None) -> None:
        report_progress(what, done, total)
