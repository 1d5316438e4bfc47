"""Buttons of a page: one saves a figure as SVG, one a table as CSV, from disk and without a network."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab.pages import Figure, Page, Section, Table, new_figure, write_page
from support.browser import findings, open_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from open_browser()


def test_figures_and_tables_can_be_saved(browser: Any, tmp_path: Path) -> None:
    figure = new_figure(x="steps", y="loss", height=200)
    figure.add_scatter(x=[1, 2], y=[3, 4], name="über 50 %")
    figure.add_scatter(x=[1, 2], y=[4, 3], name="other")
    table = Table(("name", "loss\n(nats)"), [('a "quoted" one', "−1.0"), ("b, c", "2")])
    page = Page("A title", "A lead.", [Section("First & last", [Figure(figure, "A caption."), table])])
    write_page(page, tmp_path / "page.html")
    tab = browser.new_page(viewport={"width": 390, "height": 800})
    tab.goto((tmp_path / "page.html").as_uri())
    saved = {}
    for words in ("Save as SVG", "Save as CSV"):
        with tab.expect_download() as download:
            tab.get_by_text(words).click()
        name = download.value.suggested_filename
        download.value.save_as(tmp_path / name)
        saved[name] = (tmp_path / name).read_text(encoding="utf-8")
    assert sorted(saved) == ["first-last-figure-1.svg", "first-last-table-1.csv"]
    drawing = ET.fromstring(saved["first-last-figure-1.svg"])
    assert "über 50 %" in "".join(drawing.itertext())
    rows = list(csv.reader(saved["first-last-table-1.csv"].splitlines()))
    assert rows == [["name", "loss (nats)"], ['a "quoted" one', "−1.0"], ["b, c", "2"]]
    caption, button = (tab.locator(one).bounding_box() for one in ("figcaption", "figure .save"))
    assert button["y"] >= caption["y"] + caption["height"]
    assert findings(tab) == []
    tab.close()
