"""A page with maps of attention holds all that the script needs, and says in words what it shows."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from attnlab.errors import InputError
from attnlab.pages import HeadMap, MapGrid, MapRow, Page, Section, render
from attnlab.pages.maps import PackedMap, spans, unpack

N = 5
CAUSAL = np.tril(np.ones((N, N), dtype=bool))
EVEN = CAUSAL / CAUSAL.sum(-1, keepdims=True)
NAMES = ["to", "␣be", "⏎", "<b>", "</script>"]


def grid(*rows: MapRow, label: str = "decoder") -> MapGrid:
    return MapGrid(
        label, NAMES, NAMES, rows or [MapRow("layer 0", [HeadMap("head 0", EVEN, {"entropy": "1"})], CAUSAL)]
    )


def html_of(*grids: MapGrid) -> str:
    return render(Page("Title", "Lead.", [Section("Maps", grids)]))


def data_of(html: str) -> list[dict]:
    return [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', html, re.DOTALL)]


def test_the_weights_are_in_the_page() -> None:
    weights = np.random.default_rng(0).random((N, N)) * CAUSAL
    heads = [HeadMap("head 0", EVEN), HeadMap("head 1", weights)]
    (data,) = data_of(html_of(grid(MapRow("layer 0", heads, CAUSAL))))
    assert data["queries"] == data["keys"] == NAMES
    (row,) = data["rows"]
    assert row["low"] == [0] * N
    assert row["high"] == list(range(1, N + 1))
    for head, wanted in zip(row["heads"], (EVEN, weights), strict=True):
        packed = PackedMap(head["data"], head["scale"], head["signed"])
        read = unpack(packed, CAUSAL, data["steps"]["levels"])
        np.testing.assert_allclose(read[CAUSAL], wanted[CAUSAL], atol=5e-4)
    assert row["heads"][0]["mass"] is None
    np.testing.assert_allclose(row["heads"][1]["mass"], weights.sum(-1), rtol=1e-3)


def test_the_full_colour_is_the_usual_largest_weight() -> None:
    sharp = np.eye(N, k=-1)
    sharp[0, 0] = 1
    small = 0.01 * sharp
    (data,) = data_of(html_of(grid(MapRow("layer 0", [HeadMap("a", sharp), HeadMap("b", small)], CAUSAL))))
    assert [head["full"] for head in data["rows"][0]["heads"]] == [1.0, 0.01]
    (nothing,) = data_of(html_of(grid(MapRow("layer 0", [HeadMap("a", 0 * sharp)], CAUSAL))))
    assert nothing["rows"][0]["heads"][0]["full"] == 1.0


def test_it_is_marked_up_for_those_who_cannot_see_it() -> None:
    html = html_of(grid())
    assert 'role="grid" aria-label="decoder"' in html
    assert 'aria-label="layer 0, head 0; entropy 1"' in html
    assert 'role="rowheader"' in html
    assert 'aria-live="polite"' in html
    assert re.search(r'class="maps-view" tabindex="0" role="application"[^>]*aria-describedby="maps-help"', html)
    assert "within ±0.0005 of the true one, one of 0.01 within ±0.00006 and" in html


def test_a_layer_without_a_map_says_so() -> None:
    html = html_of(grid(MapRow("layer 0", [], CAUSAL, "no map: it keeps sums")))
    assert "no map: it keeps sums" in html
    assert data_of(html)[0]["rows"][0]["heads"] == []


def test_text_stays_text() -> None:
    attack = "</script><script>alert(1)</script><!--"
    rows = [MapRow(attack, [HeadMap(attack, EVEN, {attack: attack})], CAUSAL), MapRow("x", [], CAUSAL, attack)]
    html = html_of(MapGrid(attack, [attack] * N, [attack] * N, rows))
    assert html.count("<script") == html_of(grid()).count("<script")
    assert "alert(1)</script>" not in html
    assert data_of(html)[0]["queries"] == [attack] * N


def test_the_script_is_there_once_and_only_if_needed() -> None:
    assert html_of(grid(), grid(label="encoder")).count("class HeadMap") == 1
    assert html_of(grid(), grid(label="encoder")).count("<dialog") == 1
    assert "maps" not in render(Page("Title", "Lead.", [Section("Words", ["None."])]))


def test_nothing_is_loaded_from_anywhere() -> None:
    html = html_of(grid())
    assert not re.search(r"https?:|\bsrc=|\bhref=|@import|url\(|\bfetch\(|XMLHttpRequest|import\(", html)
    assert "default-src 'none'" in html


def test_the_same_page_is_the_same_file() -> None:
    assert html_of(grid()) == html_of(grid())


def test_weights_that_are_no_numbers_have_a_place() -> None:
    (data,) = data_of(html_of(grid(MapRow("layer 0", [HeadMap("head 0", np.full((N, N), np.nan))], CAUSAL))))
    assert data["rows"][0]["heads"][0]["mass"] == [None] * N


def test_spans() -> None:
    window = CAUSAL & ~np.tril(CAUSAL, -2)
    assert spans(window) == ([0, 0, 1, 2, 3], [1, 2, 3, 4, 5])
    assert spans(np.zeros((2, 3), dtype=bool)) == ([0, 0], [0, 0])
    gaps = CAUSAL.copy()
    gaps[4, 2] = False
    with pytest.raises(InputError, match="gaps"):
        spans(gaps)


def test_weights_of_another_shape_are_refused() -> None:
    with pytest.raises(InputError, match=r"shape \(2, 2\)"):
        grid(MapRow("layer 0", [HeadMap("head 0", np.ones((2, 2)))], CAUSAL))
    with pytest.raises(InputError, match="5 queries and 5 keys"):
        grid(MapRow("layer 0", [], CAUSAL[:3]))
