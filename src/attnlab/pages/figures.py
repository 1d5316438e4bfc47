"""The style of all figures.

Series differ in marker or dash pattern as well as in colour, so that they can be distinguished without colour vision
and in print. The colours have enough contrast on white and on near-black; text, grid and lines inherit theirs from the
page, which has a light and a dark theme.
"""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

BLUE, ORANGE, GREEN, GREY = "#3d85c6", "#d9730d", "#2a9d76", "#7d8590"
# Neighbours also differ in lightness; beyond four series, markers and dashes help to distinguish them.
PALETTE = (BLUE, ORANGE, GREEN, GREY, "#b0628f", "#8d6bd6", "#938410", "#d1495b", "#1a98b0", "#a06a42")

CHART_CONFIG = {"displayModeBar": False, "displaylogo": False, "showTips": False}

_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif'
_CLEAR = "rgba(0,0,0,0)"
_AXIS: Mapping[str, object] = {
    "gridcolor": "rgba(128,128,128,0.25)",
    "linecolor": GREY,
    "zeroline": False,
    "ticks": "outside",
    "tickcolor": GREY,
    "automargin": True,
    "title": {"font": {"size": 13}, "standoff": 8},
    "fixedrange": True,  # wheel and touch scroll the page, not the axes
}

THEME = go.layout.Template(
    layout={
        "font": {"family": _FONT, "size": 13, "color": GREY},
        "paper_bgcolor": _CLEAR,
        "plot_bgcolor": _CLEAR,
        "colorway": list(PALETTE),
        "margin": {"l": 8, "r": 16, "t": 8, "b": 8},
        "xaxis": _AXIS,
        "yaxis": _AXIS,
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "yref": "paper"},
        "hoverlabel": {"font": {"family": _FONT}},
        "barcornerradius": 2,
    }
)


def new_figure(*, x: str, y: str = "", height: int) -> go.Figure:
    """Return an empty figure in the style of all figures.

    Parameters
    ----------
    x
        Label of the horizontal axis, with its unit.
    y
        Label of the vertical axis.
    height
        Height in pixels.
    """
    figure = go.Figure()
    figure.update_layout(template=THEME, height=height, xaxis_title=x or None, yaxis_title=y or None)
    return figure


def figure_html(figure: go.Figure, name: str) -> str:
    """Return the figure as HTML that needs plotly.js in the same page; `name` is its id there."""
    config = {**CHART_CONFIG, "responsive": True}
    html: str = figure.to_html(full_html=False, include_plotlyjs=False, div_id=name, config=config)
    return html
