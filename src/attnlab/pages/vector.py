"""Charts and attention maps as SVG and PDF, drawn by matplotlib (the extra `figures`) from the same data as on a page.

    vector_files(figure.chart)     {"svg": b"…", "pdf": b"…"}
    map_files(grid)

Text is black and the background transparent, for print. Lengths of a chart are in pixels of 0.75 points. The same chart
gives the same bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from itertools import zip_longest
from typing import Any

import plotly.graph_objects as go

from attnlab.errors import import_extra
from attnlab.pages.figures import GREY, PALETTE
from attnlab.pages.maps import MapGrid

EXTRA = ("matplotlib", "figures")
WIDTH, HALF = 680, 340  # pixels of a figure, and of one in a gallery
_POINT = 0.75  # points per pixel
_DPI = 100  # pixels per inch
_MAP = 1.1  # inches per map, including its name
_INK = "#1c2128"
_DASHES: Mapping[str, Any] = {
    "dash": (0, (5, 3)),
    "dot": (0, (1, 2)),
    "dashdot": (0, (5, 2, 1, 2)),
    "longdash": (0, (9, 3)),
}
_MARKERS = {"circle": "o", "x": "X", "cross": "P", "diamond": "D", "square": "s", "triangle-up": "^"}
_HATCHES = {"/": "////", "\\": "\\\\\\\\", ".": "...", "x": "xxxx", "-": "---", "|": "|||", "+": "+++"}
_RGBA = re.compile(r"rgba?\(([^)]*)\)")
_STYLE: Any = {"font.size": 9.5, "hatch.linewidth": 0.6, "pdf.fonttype": 42, "svg.hashsalt": "attnlab"}
_METADATA = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def vector_files(chart: go.Figure, width: int = WIDTH) -> dict[str, bytes]:
    """Return a chart as a file of each format.

    Parameters
    ----------
    chart
        A figure of `new_figure` with lines, points, bars or a heatmap.
    width
        Width in pixels; the height is the chart's own.

    Returns
    -------
    dict
        Bytes by the ending of the file, svg and pdf.
    """
    import_extra(*EXTRA)
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        size = (width / _DPI, (chart.layout.height or 400) / _DPI)
        figure = Figure(figsize=size, dpi=_DPI, layout="constrained")
        _Drawing(chart, figure).draw()
        return _saved(figure)


def map_files(grid: MapGrid) -> dict[str, bytes]:
    """Return the attention maps of a grid as one figure, as a file of each format.

    Parameters
    ----------
    grid
        Maps by layer and head. Cells that the mask hides are white.

    Returns
    -------
    dict
        Bytes by the ending of the file, svg and pdf.
    """
    import_extra(*EXTRA)
    import matplotlib as mpl
    import numpy as np
    from matplotlib.figure import Figure

    with mpl.rc_context({**_STYLE, "font.size": 6.5}):
        shape = (len(grid.rows), grid.columns)
        figure = Figure(figsize=(_MAP * shape[1] + 0.5, _MAP * shape[0]), dpi=_DPI, layout="constrained")
        for row, places in zip(grid.rows, figure.subplots(*shape, squeeze=False), strict=True):
            for head, axes in zip_longest(row.heads, places):
                axes.set(xticks=[], yticks=[])
                if head is None:
                    axes.set_axis_off()
                    continue
                weights = np.ma.masked_array(np.abs(head.weights), ~row.visible)
                axes.imshow(weights, cmap="Blues", vmin=0, interpolation="nearest", aspect="auto")
                axes.set_title(head.name, fontsize=6.5, pad=2)
            places[0].set_ylabel(row.name)
        return _saved(figure)


def _saved(figure: Any) -> dict[str, bytes]:
    files = {}
    for kind, metadata in _METADATA.items():
        stream = io.BytesIO()
        figure.savefig(stream, format=kind, metadata=metadata, transparent=True)
        files[kind] = stream.getvalue()
    return files


class _Axis:
    """One axis of a chart: category positions, logarithms, ticks and limits."""

    def __init__(self, given: Any, letter: str, traces: Sequence[Any]) -> None:
        self.given, self.letter = given, letter
        self.log = given.type == "log"
        found = [value for trace in traces for value in _values(getattr(trace, letter))]
        named = [value for value in found if isinstance(value, str)]
        self.names: list[str] = list(dict.fromkeys([*(given.categoryarray or ()), *named]))

    def places(self, values: Any) -> list[float]:
        return [self.names.index(one) if isinstance(one, str) else _number(one) for one in _values(values)]

    def stated(self, value: float) -> float:
        """Return a place that plotly states as a power of ten where the axis is logarithmic."""
        return 10.0**value if self.log else value

    def finish(self, axes: Any) -> None:
        """Set scale, limits, ticks and title, after everything has been drawn."""
        axis = getattr(axes, f"{self.letter}axis")
        if self.log:
            getattr(axes, f"set_{self.letter}scale")("log")
        self._set_ticks(axis)
        if self.given.range is not None:
            getattr(axes, f"set_{self.letter}lim")(*(self.stated(one) for one in self.given.range))
        elif self.given.autorange == "reversed":
            axis.set_inverted(True)
        if self.given.showgrid is not False:
            axis.grid(True, color=GREY, alpha=0.25, linewidth=0.6)
        axis.set_label_text(_plain(self.given.title.text or ""))

    def _set_ticks(self, axis: Any) -> None:
        from matplotlib.ticker import EngFormatter, NullFormatter, NullLocator

        if self.given.showticklabels is False:
            axis.set_ticks([])
        elif self.given.tickvals is not None:
            axis.set_ticks(list(self.given.tickvals), [_plain(str(text)) for text in self.given.ticktext])
            axis.set_minor_locator(NullLocator())
        elif self.names:
            axis.set_ticks(range(len(self.names)), [_plain(name) for name in self.names])
        elif self.given.exponentformat == "SI":
            axis.set_major_formatter(EngFormatter(sep=""))
            axis.set_minor_formatter(NullFormatter())


class _Drawing:
    """A chart on the axes of matplotlib."""

    def __init__(self, chart: go.Figure, figure: Any) -> None:
        self.layout, self.traces = chart.layout, list(chart.data)
        self.figure, self.axes = figure, figure.subplots()
        self.x, self.y = (_Axis(getattr(chart.layout, f"{one}axis"), one, self.traces) for one in ("x", "y"))

    def draw(self) -> None:
        self.axes.set_axisbelow(True)
        self.axes.spines[["top", "right"]].set_visible(False)
        self.axes.spines[:].set_color(GREY)
        self.axes.tick_params(color=GREY)
        bars = [trace for trace in self.traces if trace.type == "bar"]
        ends: dict[float, float] = {}  # of the bars on which others are stacked
        for number, trace in enumerate(self.traces):
            if trace.type == "bar":
                self._draw_bars(trace, bars.index(trace), len(bars), ends)
            elif trace.type == "heatmap":
                self._draw_heatmap(trace)
            else:
                self._draw_scatter(trace, number)
        for shape in self.layout.shapes:
            self._draw_shape(shape)
        for axis in (self.x, self.y):
            axis.finish(self.axes)
        if self.layout.yaxis.scaleanchor:
            self.axes.set_aspect("equal", adjustable="box")
        for note in self.layout.annotations:
            self._annotate(note)
        self._add_legend()

    def _draw_scatter(self, trace: Any, number: int) -> None:
        x, y, mode = self.x.places(trace.x), self.y.places(trace.y), trace.mode or "lines"
        colour = _colour(trace.line.color or trace.marker.color, PALETTE[number % len(PALETTE)])
        if trace.fill == "toself":
            self.axes.fill(x, y, color=_colour(trace.fillcolor), linewidth=0)
        elif trace.fill == "tonexty":
            before = self.y.places(self.traces[number - 1].y)
            self.axes.fill_between(x, before, y, color=_colour(trace.fillcolor), linewidth=0)
        width = 2 if trace.line.width is None else trace.line.width
        if "lines" in mode and width:
            stepped = {"drawstyle": "steps-pre"} if trace.line.shape == "vh" else {}
            style = _DASHES.get(trace.line.dash or "solid", "-")
            self.axes.plot(x, y, color=colour, linewidth=width * _POINT, linestyle=style, label=_name(trace), **stepped)
        for name, error in (("xerr", trace.error_x), ("yerr", trace.error_y)):
            if (reach := _error(error)) is not None:
                look = {"ecolor": _colour(error.color, colour), "elinewidth": (error.thickness or 2) * _POINT}
                self.axes.errorbar(x, y, **{name: reach}, fmt="none", capsize=(error.width or 4) / 2, **look)
        if "markers" in mode:
            self._draw_markers(trace, x, y, colour, named="lines" not in mode)
        if "text" in mode:
            for one, other, text in zip(x, y, trace.text, strict=True):
                self._write(text, (one, other), trace.textposition or "middle center")

    def _draw_markers(self, trace: Any, x: list[float], y: list[float], colour: Any, *, named: bool) -> None:
        symbols = _each(trace.marker.symbol or "circle", len(x))
        sizes = [(one * _POINT) ** 2 for one in _each(trace.marker.size or 6, len(x))]
        name = _name(trace) if named else None
        for symbol in dict.fromkeys(symbols):
            chosen = [place for place, one in enumerate(symbols) if one == symbol]
            self.axes.scatter(
                [x[place] for place in chosen],
                [y[place] for place in chosen],
                s=[sizes[place] for place in chosen],
                marker=_MARKERS[symbol.removesuffix("-open")],
                facecolors="none" if symbol.endswith("-open") else _colour(trace.marker.color, colour),
                edgecolors=_colour(trace.marker.color, colour),
                linewidths=1,
                label=name,
                zorder=3,
                clip_on=trace.cliponaxis is not False,
            )
            name = None

    def _draw_bars(self, trace: Any, number: int, count: int, ends: dict[float, float]) -> None:
        lying = trace.orientation == "h"
        along, across = (self.x, self.y) if lying else (self.y, self.x)
        lengths, places = along.places(getattr(trace, along.letter)), across.places(getattr(trace, across.letter))
        stacked = self.layout.barmode == "stack"
        share = 1 - (self.layout.bargap if self.layout.bargap is not None else 0.2)
        beside = 1 if stacked or trace.width is not None else count
        widths = _each(trace.width if trace.width is not None else share / beside, len(places))
        shift = (number - (beside - 1) / 2) * share / beside if beside > 1 else 0
        starts = [ends.get(place, 0.0) if stacked else 0.0 for place in places]
        ends.update({place: start + length for place, start, length in zip(places, starts, lengths, strict=True)})
        shape = trace.marker.pattern.shape or ""
        look: dict[str, Any] = {
            "color": "none" if shape and trace.marker.pattern.fillmode == "replace" else _colour(trace.marker.color),
            "edgecolor": _colour(trace.marker.color) if shape else "none",
            "hatch": _HATCHES.get(shape),
            "alpha": trace.marker.opacity,
            "label": _name(trace),
        }
        moved = [place + shift for place in places]
        if lying:
            self.axes.barh(moved, lengths, height=widths, left=starts, **look)
        else:
            self.axes.bar(moved, lengths, width=widths, bottom=starts, **look)
        for place, length, text in zip(moved, lengths, _values(trace.text), strict=False):
            side = "middle left" if length < 0 else "middle right"
            self._write(text, (length, place) if lying else (place, length), side if lying else "top center")

    def _draw_heatmap(self, trace: Any) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        colours = [(place, _colour(colour)) for place, colour in trace.colorscale]
        scheme = LinearSegmentedColormap.from_list("chart", colours)
        cells = [[_number(value) for value in row] for row in trace.z]
        drawn = self.axes.imshow(cells, cmap=scheme, aspect="auto", interpolation="nearest")
        if trace.texttemplate:
            for row, texts in enumerate(trace.text):
                for column, text in enumerate(texts):
                    self._write(text, (column, row), "middle center")
        self.figure.colorbar(drawn, ax=self.axes, label=_plain(trace.colorbar.title.text or ""))

    def _draw_shape(self, shape: Any) -> None:
        """Draw a line across the axes, or a band."""
        upright = not str(shape.yref).startswith("y") or str(shape.yref).endswith("domain")
        places = (shape.x0, shape.x1) if upright else (shape.y0, shape.y1)
        if shape.type == "rect":
            draw = self.axes.axvspan if upright else self.axes.axhspan
            draw(*places, color=_colour(shape.fillcolor), linewidth=0, zorder=0)
            return
        draw = self.axes.axvline if upright else self.axes.axhline
        look = {"linestyle": _DASHES.get(shape.line.dash or "solid", "-"), "color": _colour(shape.line.color, _INK)}
        draw(places[0], linewidth=(shape.line.width or 2) * _POINT, zorder=0.5, **look)

    def _annotate(self, note: Any) -> None:
        place, systems = [], []
        for axis, value, reference in ((self.x, note.x, note.xref), (self.y, note.y, note.yref)):
            inside = reference in (None, axis.letter)
            place.append(axis.stated(value) if inside else value)
            systems.append("data" if inside else "axes fraction")
        anchors = {
            "ha": note.xanchor or "center",
            "va": {"middle": "center"}.get(note.yanchor, note.yanchor or "center"),
        }
        look = {"fontsize": (note.font.size or 12) * _POINT, **anchors}
        if note.showarrow is False:
            shift = ((note.xshift or 0) * _POINT, (note.yshift or 0) * _POINT)
            self.axes.annotate(
                _plain(note.text), place, xycoords=tuple(systems), xytext=shift, textcoords="offset points", **look
            )
            return
        across, up = (_number(one) for one in (note.ax or 0, -(note.ay or 0) * _POINT))
        if note.axref == "x":
            from matplotlib.transforms import offset_copy

            system: Any = offset_copy(self.axes.transData, fig=self.figure, y=up, units="points")
            target: tuple[float, float] = (self.x.stated(across), place[1])
        else:
            system, target = "offset points", (across * _POINT, up)
        line = {"arrowstyle": "-", "color": GREY, "linewidth": 0.75, "shrinkA": 0, "shrinkB": 4}
        look["va"] = "center"
        self.axes.annotate(
            _plain(note.text), place, xycoords=tuple(systems), xytext=target, textcoords=system, arrowprops=line, **look
        )

    def _write(self, text: str, place: tuple[float, float], side: str) -> None:
        """Write a text at a place, on that side of it."""
        up, _, across = side.partition(" ")
        shift = ({"left": -4, "right": 4}.get(across, 0), {"top": 4, "bottom": -4}.get(up, 0))
        ha = {"left": "right", "right": "left"}.get(across, "center")
        va = {"top": "bottom", "bottom": "top"}.get(up, "center")
        self.axes.annotate(_plain(text), place, xytext=shift, textcoords="offset points", ha=ha, va=va, fontsize=8)

    def _add_legend(self) -> None:
        handles, names = self.axes.get_legend_handles_labels()
        shown = self.layout.showlegend if self.layout.showlegend is not None else len(names) > 1
        if shown and names:
            self.figure.legend(handles, names, loc="outside upper left", ncols=min(4, len(names)), frameon=False)


def _values(values: Any) -> Iterator[Any]:
    yield from (() if values is None else values)


def _each(value: Any, count: int) -> list[Any]:
    """Return one value for each point, where one may stand for all."""
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value] * count


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def _error(given: Any) -> list[list[float]] | None:
    """Return how far error bars reach down and up."""
    if given.array is None:
        return None
    above = [_number(one) for one in given.array]
    return [above if given.arrayminus is None else [_number(one) for one in given.arrayminus], above]


def _colour(text: Any, otherwise: Any = PALETTE[0]) -> Any:
    """Return a colour as matplotlib takes it; of several, the first."""
    if text is None:
        return otherwise
    if not isinstance(text, str):
        return _colour(text[0], otherwise)
    if (found := _RGBA.fullmatch(text)) is None:
        return text
    *rgb, opacity = (float(one) for one in (found[1] + (",1" if found[1].count(",") == 2 else "")).split(","))
    return (*(one / 255 for one in rgb), opacity)


def _name(trace: Any) -> str | None:
    return None if trace.showlegend is False or not trace.name else _plain(trace.name)


def _plain(text: str) -> str:
    """Return text without plotly's tags, and with dollars that begin no formula."""
    return unescape(re.sub(r"<br ?/?>", "\n", text).replace("<b>", "").replace("</b>", "")).replace("$", r"\$")
