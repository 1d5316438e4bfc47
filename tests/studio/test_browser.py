"""The studio as a browser shows it: every page legible and reachable, and everything on it works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from support.browser import findings
from support.studio import StudioServer, Visit


def comparison_of(server: StudioServer) -> str:
    """The address of the comparison that is there."""
    found = re.search(r"/compare/[0-9a-f]{16}", "".join(_links(server)))
    assert found is not None
    return found[0]


def _links(server: StudioServer) -> list[str]:
    import hashlib

    return [f"/compare/{hashlib.sha256(path.name.encode()).hexdigest()[:16]}" for path in server.runs.glob("compare-*")]


PAGES = {
    "/": "Row by row",
    "/compare": "minutes",
    "/heads": "What comes next",
    "/cost": "Along the context",
    "/ask": "It answers from memory",
    "/exhibits": "Attention by hand",
    "/exhibits/worked-example": "checks hold",
}


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_every_page_loads_fits_and_is_accessible(browser: Any, server: StudioServer, scheme: str, width: int) -> None:
    visit = Visit(browser, server, scheme=scheme, width=width)
    other_scheme, other_width = ("dark", 390) if scheme == "light" else ("light", 1280)
    for path, words in {**PAGES, comparison_of(server): "Against softmax"}.items():
        visit.open(path)
        visit.see(words)
        assert visit.page.get_by_role("navigation").count() == 1
        assert visit.fits(), f"{path} is wider than {width}"
        assert findings(visit.page) == [], f"{path} {scheme}"
        background = visit.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        visit.page.emulate_media(color_scheme=other_scheme)
        visit.page.set_viewport_size({"width": other_width, "height": 900})
        assert visit.page.evaluate("() => getComputedStyle(document.body).backgroundColor") != background
        assert visit.fits(), f"{path} is wider than {other_width}"
        visit.page.emulate_media(color_scheme=scheme)
        visit.page.set_viewport_size({"width": width, "height": 900})
    visit.finish()


def cells(visit: Visit, result: str) -> list[list[str]]:
    rows = visit.page.locator(f"[data-result={result}] tbody tr")
    return [row.locator("td").all_inner_texts() for row in rows.all()]


def test_the_sheet_on_screen_edited_linked_and_exported(browser: Any, server: StudioServer, tmp_path: Path) -> None:
    visit = Visit(browser, server)
    page = visit.page
    assert cells(visit, "scores")[2] == ["2", "8", "−20"]
    assert cells(visit, "weights")[2] == ["0.00247", "0.99753", "6.90e−13"]
    assert cells(visit, "output")[2] == ["−7.94066", "0.06676"]
    visit.see("q = x W_Q")

    page.get_by_label("W_K, row 2, column 1").fill("-1")
    page.wait_for_function("() => document.querySelector('[data-result=key] td.changed')")
    assert [row[0] for row in cells(visit, "key")] == ["−3", "0", "2"]
    changed = page.locator("[data-result=key] td.changed")
    assert changed.all_inner_texts() == ["−3", "2"], "what changed stands out, and nothing else"
    page.get_by_label("W_K, row 2, column 1").press("ArrowDown")
    page.get_by_label("X, row 3, column 2").press("ArrowUp")
    assert page.evaluate("() => document.activeElement.getAttribute('aria-label')") == "X, row 2, column 2"

    before = cells(visit, "weights")
    page.get_by_label("X, row 1, column 1").fill("two")
    visit.see("'two' is no number")
    assert cells(visit, "weights") == before, "nothing is lost"
    page.get_by_label("X, row 1, column 1").fill("2")
    page.get_by_text("is no number").wait_for(state="detached")

    visit.field("normaliser").select_option("sparsemax")
    page.wait_for_function("() => document.querySelector('[data-result=weights]').innerText.includes('\\t0\\t')")
    visit.field("a variant").select_option("tied-kv")
    visit.see("That is what is shown now.")
    page.wait_for_function("() => !document.querySelector('[data-cell^=value]')")
    shown = cells(visit, "output")

    other = Visit(browser, server, page.url.removeprefix(server.base))
    assert cells(other, "output") == shown, "the address holds everything"
    other.open("/?s=rubbish")
    other.see("holds no state of the playground")
    assert cells(other, "weights")[2][1] == "0.99753"
    other.finish()

    with page.expect_download() as download:
        page.get_by_role("button", name="Export as Python").click()
    path = tmp_path / "attention.py"
    download.value.save_as(path)
    program: dict[str, Any] = {"__name__": "exported"}
    exec(path.read_text(encoding="utf-8"), program)
    wanted = [[float(cell.replace("−", "-")) for cell in row] for row in shown]
    assert program["steps"].output[0].tolist() == [pytest.approx(row, abs=1e-5) for row in wanted]
    visit.finish()


def test_heads_are_taken_away(browser: Any, server: StudioServer) -> None:
    visit = Visit(browser, server, "/heads")
    page = visit.page
    visit.see("What comes next")
    frame = page.frame_locator("iframe")
    frame.locator(".maps-small").first.click()
    frame.locator("#maps-title", has_text="layer 0, head 0").wait_for()
    rows = page.locator("table", has_text="next token").locator("tbody tr")
    before = rows.all_inner_texts()
    assert before
    take = page.get_by_label("take away head 1 of layer 0")
    take.click()
    visit.see("difference (points)")
    assert take.get_attribute("aria-pressed") == "true"
    take.click()
    page.get_by_text("difference (points)").wait_for(state="detached")
    assert rows.all_inner_texts() == before
    visit.field("beside it").select_option(index=2)
    page.wait_for_function("() => document.querySelectorAll('iframe').length === 2")
    page.wait_for_function("() => location.search.includes('other=')")
    other = Visit(browser, server, page.url.removeprefix(server.base))
    other.page.wait_for_function("() => document.querySelectorAll('iframe').length === 2")
    other.finish()
    visit.type("text", "")
    page.get_by_role("button", name="Look", exact=True).click()
    visit.see("there is nothing to look at")
    visit.finish()


def test_a_question_is_refused_taught_and_answered(browser: Any, server: StudioServer) -> None:
    visit = Visit(browser, server, "/ask")
    page = visit.page
    visit.see("It answers from memory")
    visit.field("question").fill("Where was Ada Lovelace born?")
    page.get_by_role("button", name="Ask", exact=True).click()
    visit.see("I do not know.")
    visit.field("the answer").fill("London")
    page.get_by_role("button", name="Keep it").click()
    page.get_by_text("London looked up", exact=True).wait_for()
    visit.finish()


def test_sliders_move_the_cost_and_controls_the_exhibit(browser: Any, server: StudioServer) -> None:
    visit = Visit(browser, server, "/cost")
    page = visit.page
    visit.see("Along the context")
    visit.field("begin with").select_option("gpt3")
    page.wait_for_function("() => location.search.includes('size=gpt3')")
    slider = visit.field("context N (tokens)")
    slider.focus()
    slider.press("ArrowRight")
    page.wait_for_function("() => location.search.includes('n=2896')")
    visit.open("/exhibits/masking")
    visit.see("checks hold")
    visit.type("tokens", "1")
    visit.see("tokens = 1 is impossible")
    visit.type("tokens", "4")
    page.wait_for_function("() => location.search.includes('tokens')")
    visit.see("checks hold")
    visit.open("/exhibits/worked-exampel")
    visit.see("did you mean 'worked-example'?")
    visit.finish()
