"""Outcomes as one offline page: the claim, the equation, the blocks shown, and every check with its figure.

Series of a plot differ in dash, marker or pattern as well as in colour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, pairwise

import plotly.graph_objects as go

from attnlab.exhibits import blocks
from attnlab.exhibits.gallery import Outcome, setting_text
from attnlab.exhibits.stage import Check
from attnlab.formats import general
from attnlab.pages import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    Equations,
    Figure,
    Note,
    Page,
    Part,
    Section,
    Table,
    Tone,
    new_figure,
)

_TONES: dict[str, Tone] = {"holds": "good", "FAILS": "bad"}
_HEADINGS = ("claim", "", "what was checked, and the figure")


def outcome_page(outcomes: Sequence[Outcome]) -> Page:
    """Return the page of one exhibit with its sections, or of several, each as a section."""
    if len(outcomes) > 1:
        return _several(outcomes)
    outcome = outcomes[0]
    one = outcome.exhibit
    given = outcome.parameters.model_dump(mode="json")
    settings = "; ".join(f"{name} = {setting_text(value)}" for name, value in given.items())
    facts = {
        "Exhibit": f"{one.name}, of the chapter “{one.chapter}”",
        "Claims": ", ".join(one.claims),
        "Parameters": settings or "none",
        "Checks": checks_words(outcome),
    }
    sections = [Section("Equation", [Equations(one.equation)]), Section("Computed", _content(outcome.blocks))]
    return Page(one.title, one.claim, sections, facts)


def checks_words(outcome: Outcome) -> str:
    held = sum(check.ok for check in outcome.checks)
    return f"{held} of {len(outcome.checks)} hold; {outcome.seconds:.1f} s"


def _several(outcomes: Sequence[Outcome]) -> Page:
    held = sum(outcome.ok for outcome in outcomes)
    rows = [
        (
            outcome.exhibit.name,
            "holds" if outcome.ok else "FAILS",
            ", ".join(outcome.exhibit.claims),
            checks_words(outcome),
        )
        for outcome in outcomes
    ]
    table = Table(("exhibit", "", "claims", "checks"), rows, text_columns=(0, 1, 2, 3), wrap_columns=(2,), tones=_TONES)
    sections = [Section("All", [table])]
    for outcome in outcomes:
        one = outcome.exhibit
        parts: list[Part] = [one.claim, Equations(one.equation), *_content(outcome.blocks)]
        sections.append(Section(f"{one.name} · {one.title}", parts))
    seconds = sum(outcome.seconds for outcome in outcomes)
    facts = {"Exhibits": f"{held} of {len(outcomes)} hold; {seconds:.0f} s"}
    return Page("Exhibits", "Every claim, computed and checked.", sections, facts)


def _content(shown: Sequence[blocks.Block | Check]) -> list[Part]:
    """Return the parts in order; checks that follow each other share a table."""
    parts: list[Part] = []
    for _, group in groupby(shown, key=lambda block: isinstance(block, Check)):
        members = list(group)
        if checks := [one for one in members if isinstance(one, Check)]:
            parts.append(_check_table(checks))
        parts += [part for one in members if not isinstance(one, Check) for part in _part(one)]
    return parts


def _part(block: blocks.Block) -> list[Part]:
    match block:
        case blocks.Words():
            return [block.text]
        case blocks.Formula():
            return [Equations(block.text)]
        case blocks.TableBlock():
            return [block.table(caption=block.title)]
        case blocks.Slip():
            return [Note(f"The source of claim {block.claim} says: {block.says}. Computed: {block.computed}.")]
        case blocks.Plot():
            return [plot_figure(block)]
        case blocks.Heatmap():
            return [heatmap_figure(block)]


def _check_table(checks: Sequence[Check]) -> Table:
    rows = [(check.claim, "holds" if check.ok else "FAILS", f"{check.what}: {check.figure}") for check in checks]
    return Table(_HEADINGS, rows, text_columns=(0, 1, 2), wrap_columns=(2,), tones=_TONES)


_COLOURS = (BLUE, ORANGE, GREEN, GREY)
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_MARKS = ("circle", "x", "diamond-open", "triangle-up", "square-open", "cross")
_TITLE = 32  # characters of an axis title that fit a narrow page
_PATTERNS = ("", "/", ".", "x")
# From transparent to a blue on which the page's text is readable in dark and light mode.
_SHADES = ((0.0, "rgba(61,133,198,0.04)"), (1.0, "rgba(61,133,198,0.75)"))


def plot_figure(plot: blocks.Plot) -> Figure:
    """Return a figure of series over two axes."""
    height = 130 + 30 * len(plot.labels) * len(plot.series) if plot.labels else 380
    # Bars are horizontal, so that their labels are readable.
    across, up = (plot.y, plot.x) if plot.labels else (plot.x, plot.y)
    figure = new_figure(x=_wrapped(across), y=_wrapped(up), height=max(220, height))
    for number, one in enumerate(plot.series):
        figure.add_trace(_trace(one, number, plot))
    if plot.labels:
        figure.update_layout(barmode="group", bargap=0.25)
        figure.update_yaxes(autorange="reversed", showgrid=False, ticks="")
        figure.update_xaxes(range=_room(plot))
    for axis, update in zip(blocks.AXES, (figure.update_xaxes, figure.update_yaxes), strict=True):
        if plot.log_x if axis == "x" else plot.log_y:
            places = blocks.powers(blocks.extent(plot, axis))
            update(type="log", tickvals=places, ticktext=[f"{place:g}" for place in places])
    if plot.equal:
        figure.update_yaxes(scaleanchor="x", constrain="domain")
        figure.update_xaxes(constrain="domain")
    figure.update_layout(showlegend=len(plot.series) > 1, bargap=figure.layout.bargap or 0)
    return Figure(figure, _caption(plot.title, plot.caption))


def heatmap_figure(drawn: blocks.Heatmap) -> Figure:
    """Return a heatmap of a matrix, with the number in each cell as long as there are few."""
    figure = new_figure(x=_wrapped(drawn.x), y=_wrapped(drawn.y), height=140 + 34 * max(3, min(14, len(drawn.rows))))
    few = len(drawn.rows) <= 12 and len(drawn.columns) <= 12
    texts = [[general(value, 3) for value in row] for row in drawn.cells]
    figure.add_trace(
        go.Heatmap(
            z=drawn.cells,
            x=_unique(drawn.columns),
            y=_unique(drawn.rows),
            text=texts,
            texttemplate="%{text}" if few else None,
            colorscale=_SHADES,
            xgap=1,
            ygap=1,
            colorbar={"title": {"text": drawn.unit, "side": "right"}, "thickness": 12, "outlinewidth": 0},
            hovertemplate=f"{drawn.y}: %{{y}}<br>{drawn.x}: %{{x}}<br>{drawn.unit}: %{{text}}<extra></extra>",
        )
    )
    figure.update_xaxes(type="category", showgrid=False, ticks="")
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False, ticks="")
    return Figure(figure, _caption(drawn.title, drawn.caption))


def _trace(one: blocks.Series, number: int, plot: blocks.Plot) -> go.Scatter | go.Bar:
    colour = _COLOURS[number % len(_COLOURS)]
    if one.kind == "line":
        dash = _DASHES[number % len(_DASHES)]
        return go.Scatter(
            name=one.name, x=one.x, y=one.y, mode="lines", line={"color": colour, "dash": dash, "width": 2.5}
        )
    if one.kind == "points":
        mark = {
            "color": colour,
            "symbol": _MARKS[number % len(_MARKS)],
            "size": 8,
            "line": {"color": colour, "width": 1.5},
        }
        spread = {"type": "data", "array": one.error, "color": colour, "thickness": 1.2} if one.error else None
        return go.Scatter(name=one.name, x=one.x, y=one.y, mode="markers", marker=mark, error_y=spread)
    pattern = {"shape": _PATTERNS[number % len(_PATTERNS)], "fillmode": "replace", "size": 5, "solidity": 0.4}
    look = {"color": colour, "line": {"color": colour, "width": 1}, "pattern": pattern}
    if one.kind == "bars":
        texts = [general(value, 4) for value in one.y]
        return go.Bar(
            name=one.name,
            orientation="h",
            x=one.y,
            y=_unique(plot.labels),
            marker=look,
            text=texts,
            textposition="outside",
            cliponaxis=False,
        )
    edges = list(one.x)
    centres = [(low + high) / 2 for low, high in pairwise(edges)]
    widths = [high - low for low, high in pairwise(edges)]
    return go.Bar(
        name=one.name, x=centres, y=one.y, width=widths, marker={**look, "opacity": 0.6, "line": {"width": 0}}
    )


def _room(plot: blocks.Plot) -> list[float]:
    """Return the range from the smallest to the largest bar, with space beyond for their numbers on a narrow page."""
    values = [value for one in plot.series for value in one.y if math.isfinite(value)]
    low, high = min([0.0, *values]), max([0.0, *values])
    spare = 0.45 * ((high - low) or 1.0)
    return [low - spare if low < 0 else 0.0, high + spare if high > 0 or low == 0 else 0.0]


def _wrapped(title: str) -> str:
    """Return the title of an axis, a long one on two lines, so that it fits a narrow page."""
    if len(title) <= _TITLE:
        return title
    blanks = [place for place, letter in enumerate(title) if letter == " "]
    middle = min(blanks, key=lambda place: abs(place - len(title) / 2), default=len(title))
    return f"{title[:middle]}<br>{title[middle + 1 :]}"


def _unique(names: tuple[str, ...]) -> list[str]:
    """Return names that plotly keeps apart: the second x becomes x with a zero-width space."""
    return [name + "\u200b" * names[:place].count(name) for place, name in enumerate(names)]


def _caption(title: str, caption: str) -> str:
    return f"{title}. {caption}" if caption else f"{title}."
