"""A page: one self-contained HTML file, without a server or a network.

It uses system fonts and an inline script, and its content security policy forbids the browser to load anything. It has
a light and a dark theme, and works on phones and in print.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import jinja2
import plotly.graph_objects as go
import plotly.offline

from attnlab.pages.figures import figure_html
from attnlab.pages.maps import MapGrid, grid_data, levels_for, precision_words
from attnlab.pages.mathematics import equations_html
from attnlab.pages.tables import Table, prose
from attnlab.storage.files import write_whole

_NOTEBOOK_LIMIT = 8_000_000  # characters of the largest page that is embedded in a notebook


@dataclass(frozen=True)
class Figure:
    """A chart with a description in words."""

    chart: go.Figure
    caption: str


@dataclass(frozen=True)
class Gallery:
    """Small figures side by side, as many per row as fit."""

    figures: Sequence[Figure]
    caption: str


@dataclass(frozen=True)
class Note:
    """A highlighted note."""

    text: str


@dataclass(frozen=True)
class Points:
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True)
class Equations:
    """Equations as attnlab writes them in plain text, one on each line; the page shows them as mathematics."""

    text: str


@dataclass(frozen=True)
class Details:
    """Content that is collapsed by default. If closed, only the summary is printed."""

    summary: str
    content: Sequence[str | Table | Points | Equations]


Part = str | Figure | Table | Gallery | Note | Points | Equations | Details | MapGrid


@dataclass(frozen=True)
class Section:
    """A heading with paragraphs, figures and tables below it."""

    heading: str
    content: Sequence[Part]


@dataclass(frozen=True)
class Page:
    """A title, a one-sentence summary, facts by name, and sections."""

    title: str
    lead: str
    sections: Sequence[Section]
    facts: Mapping[str, str] = field(default_factory=dict)


def render(page: Page) -> str:
    """Return the page as HTML."""
    charts = [chart for section in page.sections for part in section.content for chart in _charts(part)]
    # Named by their order, so that the same page gives the same file.
    drawn = iter([figure_html(chart, f"figure-{number}") for number, chart in enumerate(charts, start=1)])
    grids = [part for section in page.sections for part in section.content if isinstance(part, MapGrid)]
    levels = levels_for(grids)
    sections = [
        {"heading": section.heading, "parts": [_part(part, drawn, levels) for part in section.content]}
        for section in page.sections
    ]
    script = plotly.offline.get_plotlyjs() if charts else ""
    template = _environment().get_template("page.html")
    words = precision_words(levels) if grids else ""
    saving = bool(charts) or any(_has_table(part) for section in page.sections for part in section.content)
    return template.render(page=page, sections=sections, script=script, maps_words=words, saving=saving)


def _has_table(part: Part) -> bool:
    return isinstance(part, Table) or (isinstance(part, Details) and any(map(_has_table, part.content)))


def _charts(part: Part) -> list[go.Figure]:
    if isinstance(part, Gallery):
        return [figure.chart for figure in part.figures]
    return [part.chart] if isinstance(part, Figure) else []


def _part(part: Part, drawn: Iterator[str], levels: int) -> dict[str, object]:
    """Return the variables of a part for the template."""
    match part:
        case str():
            return {"kind": "text", "text": part}
        case Figure():
            return {"kind": "figure", "html": next(drawn), "caption": part.caption}
        case Gallery():
            figures = [{"html": next(drawn), "caption": figure.caption} for figure in part.figures]
            return {"kind": "gallery", "figures": figures, "caption": part.caption}
        case Note():
            return {"kind": "note", "text": part.text}
        case Points():
            return {"kind": "points", "items": part.items}
        case Equations():
            return {"kind": "equations", "html": equations_html(part.text)}
        case Details():
            inner = [_part(one, drawn, levels) for one in part.content]
            return {"kind": "details", "summary": part.summary, "parts": inner}
        case MapGrid():
            return {"kind": "maps", "grid": part, "data": grid_data(part, levels)}
        case Table():
            return {"kind": "table", "table": part}


def write_page(page: Page, path: Path) -> None:
    """Write the page as a whole or not at all.

    Parameters
    ----------
    page
        The page.
    path
        The HTML file.
    """
    write_whole(path, render(page))


class HasPage:
    """Results that have a page: `write` saves it to a file, and a notebook displays it."""

    def page(self) -> Page:
        """Return the page."""
        raise NotImplementedError

    def write(self, path: Path) -> None:
        """Write the page as a whole or not at all."""
        write_page(self.page(), path)

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own, so that neither it nor the notebook disturbs the other."""
        page = self.page()
        inner, title = render(page), escape(page.title)
        if len(inner) > _NOTEBOOK_LIMIT:
            return (
                f"<p>{title}: a page of {len(inner) / 1e6:.0f} MB, too large for a notebook. "
                "<code>.write(Path('page.html'))</code> makes a file of it.</p>"
            )
        given = 'sandbox="allow-scripts allow-downloads" style="width:100%;height:720px;border:1px solid #7d8590"'
        return f'<iframe {given} title="{title}" srcdoc="{escape(inner)}"></iframe>'


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("attnlab.pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = prose
    return environment
