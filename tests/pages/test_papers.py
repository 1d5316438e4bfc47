"""Figures and tables for papers: SVG and PDF of every kind of chart, CSV and LaTeX of tables."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from attnlab.errors import AttnlabError
from attnlab.pages import (
    Details,
    Figure,
    Gallery,
    HeadMap,
    MapGrid,
    MapRow,
    Page,
    Section,
    Table,
    check_figures,
    new_figure,
    write_figures,
)
from attnlab.pages.vector import map_files, vector_files

SVG = "{http://www.w3.org/2000/svg}"


def lines() -> go.Figure:
    figure = new_figure(x="tokens<br>seen", y="loss ($)", height=200)
    figure.add_scatter(x=[1, 10, 100], y=[3, None, 1], name="one", mode="lines+markers", error_y={"array": [1, 1, 1]})
    figure.add_scatter(
        x=[1, 10, 100], y=[1, 2, 2], name="two", fill="tonexty", fillcolor="rgba(1,2,3,0.5)", mode="lines"
    )
    marker = {"symbol": ["x", "circle-open"], "size": [4, 9]}
    figure.add_scatter(x=[1, 10], y=[1, 2], mode="markers+text", text=["a", "b"], marker=marker)
    figure.add_vline(x=10, line_dash="dot")
    figure.add_hrect(y0=1, y1=2, fillcolor="rgba(1,2,3,0.1)")
    figure.add_annotation(text="<b>far</b>", x=1, y=2, ax=20, ay=-10)
    figure.add_annotation(text="near", x=0, xref="paper", y=1, showarrow=False)
    figure.update_xaxes(type="log", tickvals=[1, 10, 100], ticktext=["1", "10", "100"], range=[0, 2])
    return figure


def bars() -> go.Figure:
    figure = new_figure(x="parameters", height=200)
    for name, shape in (("attention", ""), ("mlp", "/")):
        pattern = {"shape": shape, "fillmode": "replace"}
        figure.add_bar(
            y=["a", "b"], x=[1e6, -2e6], name=name, orientation="h", marker={"pattern": pattern}, text=["x", "y"]
        )
    figure.update_layout(barmode="stack")
    figure.update_xaxes(exponentformat="SI")
    figure.update_yaxes(autorange="reversed")
    return figure


def heatmap() -> go.Figure:
    figure = new_figure(x="key", y="query", height=200)
    scale = ((0.0, "rgba(0,0,0,0)"), (1.0, "#3d85c6"))
    texts = [["0", "1"], ["2", "3"]]
    figure.add_heatmap(
        z=[[0, 1], [2, None]], x=["k", "l"], y=["q", "r"], text=texts, texttemplate="%{text}", colorscale=scale
    )
    return figure


def grid() -> MapGrid:
    visible = np.tril(np.ones((3, 3), dtype=bool))
    heads = [HeadMap(f"head {number}", visible / 3.0) for number in range(2)]
    return MapGrid("decoder", "abc", "abc", [MapRow("layer 0", heads, visible), MapRow("layer 1", heads[:1], visible)])


@pytest.mark.parametrize("chart", [lines(), bars(), heatmap()], ids=["lines", "bars", "heatmap"])
def test_a_chart_becomes_the_same_drawing_twice(chart: go.Figure) -> None:
    files = vector_files(chart)
    assert files["pdf"].startswith(b"%PDF")
    root = ET.fromstring(files["svg"])
    assert root.get("viewBox", "").startswith("0 0 489.6 144")  # 680 × 200 pixels, in points
    assert len(list(root.iter(f"{SVG}path"))) > 10
    assert vector_files(chart) == files


def test_what_a_chart_says_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("attnlab.pages.vector").pages.vector._STYLE, "svg.fonttype", "none")
    text = vector_files(lines())["svg"].decode()
    for words in ("tokens", "loss ($)", "one", "two", "far", "near", "100"):
        assert f"{words}</text>" in text or f"{words}</tspan>" in text
    assert "<b>" not in text


def test_maps_become_one_drawing() -> None:
    files = map_files(grid())
    assert len(list(ET.fromstring(files["svg"]).iter(f"{SVG}image"))) == 3
    assert files["pdf"].startswith(b"%PDF")


def test_every_figure_and_table_of_a_page_has_its_files(tmp_path: Path) -> None:
    table = Table(("name", "loss\n(nats)"), [("a & b", "−1.0"), ("50 %, “c_d”", "±2")], "A caption.")
    small = Gallery([Figure(bars(), "One"), Figure(heatmap(), "Two")], "Two figures.")
    page = Page("T", "L", [Section("First & last", [Figure(lines(), "C"), table, "Words."]),
                           Section("More", [small, Details("All", [table]), grid()])])  # fmt: skip
    written = write_figures(page, tmp_path / "figures")
    assert [path.name for path in written] == [
        *("first-last-figure-1.svg", "first-last-figure-1.pdf", "first-last-table-1.csv", "first-last-table-1.tex"),
        *("more-figure-1.svg", "more-figure-1.pdf", "more-figure-2.svg", "more-figure-2.pdf"),
        *("more-table-1.csv", "more-table-1.tex", "more-maps-1.svg", "more-maps-1.pdf"),
    ]
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == sorted(path.name for path in written)
    with (tmp_path / "figures" / "more-table-1.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [["name", "loss (nats)"], ["a & b", "−1.0"], ["50 %, “c_d”", "±2"]]
    assert (tmp_path / "figures" / "more-table-1.tex").read_text(encoding="utf-8") == (
        "% A caption.\n\\begin{tabular}{lr}\n\\toprule\nname & loss (nats) \\\\\n\\midrule\n"
        "a \\& b & $-$1.0 \\\\\n50 \\%, ``c\\_d'' & $\\pm$2 \\\\\n\\bottomrule\n\\end{tabular}\n"
    )


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    check_figures(tmp_path)
    check_figures(tmp_path / "new")
    file = tmp_path / "file"
    file.write_text("x")
    for path, words in ((file, "is no folder"), (tmp_path / "missing" / "new", "there is no folder")):
        with pytest.raises(AttnlabError, match=words):
            check_figures(path)
