"""A page: one HTML file that needs nothing else, neither a server nor a network.

Its fonts are the system's, its script is inside, and its policy forbids the browser to load anything from anywhere. It
follows the reader's choice of light or dark, fits a telephone, and prints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jinja2
import plotly.graph_objects as go
import plotly.offline

from attnlab.pages.figures import figure_html
from attnlab.pages.files import write_whole


@dataclass(frozen=True)
class Figure:
    """A chart with what it shows, in words."""

    chart: go.Figure
    caption: str


@dataclass(frozen=True)
class Table:
    """Rows of text under headings; the first column names its row, and the others are aligned to the right."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    text_columns: Sequence[int] = (0,)  # those aligned to the left


@dataclass(frozen=True)
class Section:
    """A heading with paragraphs, figures and tables below it."""

    heading: str
    content: Sequence[str | Figure | Table]


@dataclass(frozen=True)
class Page:
    """A title, one sentence on what the page shows, facts by name, and sections."""

    title: str
    lead: str
    sections: Sequence[Section]
    facts: Mapping[str, str] = field(default_factory=dict)


def render(page: Page) -> str:
    """The page as HTML."""
    charts = [part.chart for section in page.sections for part in section.content if isinstance(part, Figure)]
    # Named by their order, so that the same page is the same file.
    drawn = iter([figure_html(chart, f"figure-{number}") for number, chart in enumerate(charts, start=1)])
    sections = [
        {"heading": section.heading, "parts": [_part(part, drawn) for part in section.content]}
        for section in page.sections
    ]
    script = plotly.offline.get_plotlyjs() if charts else ""
    return _environment().get_template("page.html").render(page=page, sections=sections, script=script)


def _part(part: str | Figure | Table, drawn: Iterator[str]) -> dict[str, object]:
    """What the template wants to know of a paragraph, a figure or a table."""
    if isinstance(part, str):
        return {"kind": "text", "text": part}
    if isinstance(part, Figure):
        return {"kind": "figure", "html": next(drawn), "caption": part.caption}
    return {"kind": "table", "table": part}


def write_page(page: Page, path: Path) -> None:
    """Write the page as a whole or not at all."""
    write_whole(path, render(page))


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("attnlab.pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
