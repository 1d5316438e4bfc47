"""The studio as a browser shows it: every page legible and reachable, and everything on it works."""

from __future__ import annotations

import base64
import csv
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from attnlab.studio.folders import opaque_id, study_folders
from support.browser import findings
from support.studio import READY, StudioServer, Visit


def comparison_of(server: StudioServer) -> str:
    """The address of the comparison that is there."""
    (folder,) = server.runs.glob("compare-*")
    return f"/compare/{opaque_id(folder.name)}"


def retrofit_of(server: StudioServer) -> str:
    """The address of the retrofit that is there."""
    (folder,) = server.runs.glob("retrofit-*")
    return f"/retrofit/{opaque_id(folder.name)}"


def study_of(server: StudioServer) -> str:
    """The address of the study that is there."""
    (folder,) = study_folders(server.runs)
    return f"/scale/{opaque_id(folder)}"


PAGES = {
    "/": "Latest comparisons and studies",
    "/playground": "Row by row",
    "/seen": "Residual stream",
    "/compare": "minutes",
    "/scale": "trials of learning rates",
    "/retrofit": "What it takes",
    "/heads": "What comes next",
    "/cost": "Along the context",
    "/ask": "It answers from memory",
    "/facts": "imported by Bob",
    "/reports": "right report",
    "/exhibits": "Attention by hand",
    "/exhibits/worked-example": "checks hold",
}


def test_every_page_loads_fits_and_is_accessible(browser: Any, server: StudioServer) -> None:
    """Each is loaded once, light and wide, and then shown dark and narrow: loading takes longer than all else."""
    visit = Visit(browser, server)
    page = visit.page
    found = {
        comparison_of(server): "Against softmax",
        study_of(server): "is an extrapolation, not a finding",
        retrofit_of(server): "Cost of each layer",
    }
    for path, words in {**PAGES, **found}.items():
        visit.open(path)
        visit.see(words)
        assert page.get_by_role("navigation").count() == 1
        backgrounds = set()
        for scheme, width in (("light", 1280), ("dark", 390)):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 900})
            assert visit.fits(), f"{path} is wider than {width}"
            assert findings(page) == [], f"{path} {scheme}"
            backgrounds.add(page.evaluate("() => getComputedStyle(document.body).backgroundColor"))
        assert len(backgrounds) == 2, f"{path} follows the system's colours"
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 1280, "height": 900})
    visit.finish()


def cells(visit: Visit, result: str) -> list[list[str]]:
    rows = visit.page.locator(f"[data-result={result}] tbody tr")
    return [row.locator("td").all_inner_texts() for row in rows.all()]


def test_the_sheet_on_screen_edited_linked_and_exported(browser: Any, server: StudioServer, tmp_path: Path) -> None:
    visit = Visit(browser, server, "/playground")
    page = visit.page
    assert cells(visit, "scores")[2] == ["2", "8", "−20"]
    assert cells(visit, "weights")[2] == ["0.00247", "0.99753", "6.90e−13"]
    assert cells(visit, "output")[2] == ["−7.94066", "0.06676"]
    assert page.locator(".equations msub").first.is_visible()
    page.locator("[data-result=weights] tbody td").first.hover()
    sources = page.locator("td.source")
    assert sources.all_inner_texts() == ["−17", "−5", "23"], "a weight is made of the scores of its row"
    page.locator("[data-result=query] tbody td").first.hover()
    assert sources.locator("input").evaluate_all("(all) => all.map((one) => one.value)") == ["2", "3", "1", "0"]

    page.get_by_label("W_K, row 2, column 1").fill("-1")
    page.wait_for_function("() => document.querySelector('[data-result=key] td.changed')")
    assert [row[0] for row in cells(visit, "key")] == ["−3", "0", "2"]
    changed = page.locator("[data-result=key] td.changed")
    assert changed.all_inner_texts() == ["−3", "2"], "what changed stands out, and nothing else"
    page.get_by_label("W_K, row 2, column 1").press("ArrowDown")
    page.get_by_label("X, row 3, column 2").press("ArrowUp")
    assert page.evaluate("() => document.activeElement.getAttribute('aria-label')") == "X, row 2, column 2"

    before = cells(visit, "weights")
    cell = page.get_by_label("X, row 1, column 1")
    cell.fill("two")
    visit.see("'two' is no number")
    page.wait_for_selector("[data-cell='x 0 0'][aria-invalid=true]")
    assert cells(visit, "weights") == before, "nothing is lost"
    cell.fill("2")
    page.get_by_text("is no number").wait_for(state="detached")
    page.wait_for_selector("[data-cell='x 0 0']:not([aria-invalid])")

    visit.type("tokens", "8")
    page.wait_for_function("() => document.querySelector('[data-cell=\"x 7 0\"]')")
    visit.type("width of x", "99")
    visit.see("the width of x is '99'")
    assert visit.field("width of x").get_attribute("aria-invalid") == "true"
    assert page.locator(".message").inner_text() == "", "an error stands at the field that caused it"
    visit.type("width of x", "16")
    page.wait_for_function("() => document.querySelector('[data-cell=\"x 7 15\"]')")
    assert visit.fits(), "8 × 16 fits"
    visit.field("a preset").select_option(label="Worked example")
    page.wait_for_function("() => !document.querySelector('[data-cell=\"x 7 0\"]')")

    visit.field("normaliser").select_option("sparsemax")
    page.wait_for_function("() => document.querySelector('[data-result=weights]').innerText.includes('\\t0\\t')")
    visit.field("a variant").select_option("tied-kv")
    visit.see("That is what is shown now.")
    page.wait_for_function("() => !document.querySelector('[data-cell^=value]')")
    shown = cells(visit, "output")

    other = Visit(browser, server, page.url.removeprefix(server.base))
    assert cells(other, "output") == shown, "the address holds everything"
    other.open("/playground?s=rubbish")
    other.see("holds no state of the playground")
    assert cells(other, "weights")[2][1] == "0.99753"
    other.finish()

    page.get_by_role("button", name="Undo").click()
    page.wait_for_function("() => document.querySelector('[data-cell^=value]')")
    visit.field("a variant").select_option("tied-kv")
    page.wait_for_function("() => !document.querySelector('[data-cell^=value]')")
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
    page.wait_for_selector(".seen[data-shown]")
    page.locator(".seen-heads .seen-scroll").press("ArrowRight")
    page.locator(".seen-said", has_text="Layer 0, head 1").wait_for()
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
    beside = page.locator("fieldset.picker", has_text="beside it")
    beside.get_by_label("search").fill("no such run")
    beside.get_by_text("(0 runs)").wait_for(state="attached")
    beside.get_by_label("search").fill("kinship tied-kv")
    beside.get_by_label("comparison").select_option(index=1)
    two = "() => document.querySelectorAll('.seen[data-shown]').length === 2"
    page.wait_for_function(two)
    assert beside.get_by_label("variant").input_value().startswith("tied-kv")
    page.wait_for_function("() => location.search.includes('other=')")
    other = Visit(browser, server, page.url.removeprefix(server.base))
    other.page.wait_for_function(two)
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

    visit.see("1 fact was told that this model has not learned")
    page.get_by_role("button", name="Learn them").click()
    visit.see("It has learned.")
    cells = page.locator("tr", has_text="Where was Ada Lovelace born?").locator("td").all_inner_texts()
    assert cells[0] == "London"
    visit.see("what it was taught before")
    page.get_by_role("link", name="Ask the model that has learned").click()
    visit.see("Nothing was told that this model has not learned.")
    visit.finish()


def test_a_fact_is_found_corrected_and_retracted_with_undo(browser: Any, server: StudioServer) -> None:
    visit = Visit(browser, server, "/facts")
    page = visit.page
    visit.see("facts")
    page.get_by_role("button", name="Older").click()
    page.get_by_role("button", name="Newer").click()
    visit.type("search", "zoe 7")
    rows = page.locator("ul.facts li")
    page.wait_for_function("() => document.querySelectorAll('ul.facts li').length === 1")
    assert "imported by Bob" in rows.inner_text()
    page.get_by_role("button", name="Correct fact").click()
    visit.field("the right answer").fill("Dunmere")
    visit.field("how you know it").fill("a letter")
    page.get_by_role("button", name="Keep the correction").click()
    page.wait_for_function("() => document.querySelectorAll('ul.facts li').length === 2")
    assert "Dunmere" in rows.first.inner_text()
    assert "a letter · told by" in rows.first.inner_text()
    assert "retracted by" in rows.last.inner_text()
    page.get_by_role("button", name="Undo").click()
    page.locator("ul.facts li", has_text="Dunmere").get_by_text("retracted by").wait_for()
    page.get_by_role("button", name="Retract fact").click()
    page.get_by_text("is retracted.").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Retract fact").wait_for()
    visit.type("search", "?!")
    visit.see("nothing to search for")
    assert visit.field("search").get_attribute("aria-invalid") == "true"
    visit.finish()


def test_a_study_is_planned_started_and_stopped(browser: Any, server: StudioServer) -> None:
    known = study_folders(server.runs)
    visit = Visit(browser, server, "/scale")
    page = visit.page
    page.get_by_role("checkbox", name="kinship").click()
    page.get_by_role("checkbox", name="pydoc").click()
    visit.type("tokens per parameter", "1")
    visit.type("changes of all arms alike", "context_length=8 validation_rows=8")
    visit.type("sizes, ascending", "6k 14k")
    visit.see("a trend needs at least 3 rungs")
    assert visit.field("sizes, ascending").get_attribute("aria-invalid") == "true"
    visit.type("sizes, ascending", "6k 14k 25k")
    visit.type("seeds", "2")
    visit.see("for 20 runs and about 114 trials of learning rates")
    page.get_by_role("button", name="Start the study").click()
    page.wait_for_url(re.compile("/scale/[0-9a-f]{16}$"))
    visit.see("searching learning rates on kinship")
    page.get_by_role("button", name="Stop").click()
    visit.see("It was stopped")
    page.get_by_role("button", name="Resume").wait_for()
    visit.finish()
    (made,) = {*study_folders(server.runs)} - {*known}
    shutil.rmtree((server.runs / made).parent)


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


def big_flow(layers: int = 12, heads: int = 12, count: int = 64) -> dict[str, Any]:
    """A text of 64 tokens in a model of GPT-2's shape, whose every token attends evenly to all before it."""
    rows = [[65_535 // (query + 1) if key <= query else 0 for key in range(count)] for query in range(count)]
    data = b"".join(cell.to_bytes(2, "little") for row in rows for cell in row) * heads
    layer = {"heads": heads, "low": [0.0] * heads, "high": [1.0] * heads, "absence": ""}
    layer["data"] = base64.b64encode(data).decode()
    stream = {"rows": ["embedding"], "norms": [[1.0] * count], "says": [["a"] * count], "chances": [[0.5] * count]}
    following = [{"id": 1, "token": "b", "before": 0.25, "after": 0.75}]
    tokens = [f"t{number}" for number in range(count)]
    return {"tokens": tokens, "layers": [layer] * layers, "stream": stream, "next": following}


def test_a_text_flows_through_a_model(browser: Any, server: StudioServer) -> None:
    visit = Visit(browser, server, "/seen")
    page = visit.page
    page.wait_for_selector(".seen[data-shown]")
    first = page.locator(".seen-token").all_inner_texts()
    page.locator(".seen-token").last.click()
    page.locator(".seen-said", has_text=f"“{first[-1]}” attends to").wait_for()
    page.locator(".seen-map canvas").click(position={"x": 90, "y": 170})
    visit.see("in layer 0, head 0")
    visit.field("text").fill("the")
    page.get_by_role("button", name="Look", exact=True).click()
    page.wait_for_function("() => document.querySelectorAll('.seen-token').length === 3")
    page.get_by_role("button", name="Next token").click()
    page.wait_for_function("() => document.querySelectorAll('.seen-token').length === 4")
    shown = page.locator(".seen").get_attribute("data-shown")
    visit.field("normaliser").select_option("sparsemax")
    page.wait_for_selector(f".seen:not([data-shown='{shown}'])")
    assert visit.field("normaliser").input_value() == "sparsemax"
    page.get_by_role("button", name="Undo").click()
    page.wait_for_function("() => document.querySelectorAll('.seen-token').length === 3")
    visit.type("only the k likeliest", "none")
    visit.see("k is 'none'")
    assert visit.field("only the k likeliest").get_attribute("aria-invalid") == "true"
    visit.finish()


def test_pointing_at_heads_is_drawn_once_a_frame_and_asks_nobody(browser: Any, server: StudioServer) -> None:
    """12 layers × 12 heads × 64 tokens: what pointing costs is counted, as times would depend on the machine."""
    visit = Visit(browser, server, "/seen")
    page = visit.page
    page.wait_for_selector(".seen[data-shown]")
    page.route("**/data/big", lambda route: route.fulfill(json=big_flow()))
    page.evaluate("async () => { window.id = document.querySelector('.seen').id; await seen.show(id, '/data/big'); }")
    frame = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    page.evaluate(frame)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    counts = "() => ({ ...seen.views.get(id).counts, ...seen.views.get(id).state })"
    before = page.evaluate(counts)
    page.evaluate(
        """() => {
          const canvas = document.querySelector(".seen-heads canvas"), { left, top } = canvas.getBoundingClientRect();
          const step = seen.views.get(id).panels.heads.cell + 3;
          for (let layer = 0; layer < 12; layer += 1)
            for (let head = 0; head < 12; head += 1)
              canvas.dispatchEvent(new PointerEvent("pointermove", { bubbles: true,
                clientX: left + 22 + step * (head + 0.4), clientY: top + 22 + step * (layer + 0.4) }));
        }"""
    )
    page.evaluate(frame)
    after = page.evaluate(counts)
    assert (after["layer"], after["head"]) == (11, 11), "the last one is shown"
    assert after["frames"] - before["frames"] <= 2, "144 movements are drawn together"
    assert after["strokes"] - before["strokes"] <= 2 * 6 * 64
    assert after["pictures"] == before["pictures"], "the small maps are not drawn again"
    assert asked == [], "the server is not asked"
    page.locator(".seen-token").nth(63).hover()
    page.locator(".seen-said", has_text="Layer 11, head 11: “t63” attends to").wait_for()
    assert page.evaluate(counts)["strokes"] - after["strokes"] <= 2 * 6 * 64
    visit.finish()


def test_a_page_of_a_studio_that_was_restarted_says_so(browser: Any, server: StudioServer) -> None:
    visit = Visit(browser, server)
    page = visit.page
    page.route("**/static/icon.svg", lambda route: route.fulfill(status=401))
    page.evaluate("() => socket.disconnect()")
    visit.see("The studio was restarted, and this page shows the state before. Open the new address")
    assert page.evaluate("() => document.body.classList.contains('stale')")
    page.unroute("**/static/icon.svg")
    page.evaluate("() => socket.connect()")
    page.wait_for_function("() => !document.body.classList.contains('stale')")
    visit.page.close()


def test_the_tour_leads_through_the_pages_and_old_links_to_the_playground(browser: Any, server: StudioServer) -> None:
    visit = Visit(browser, server)
    page = visit.page
    page.get_by_role("link", name="Attention by hand").click()
    for step, words in ((1, "Attention by hand"), (2, "Attention in a trained model"), (3, "Change one thing")):
        page.get_by_text(f"{step} of 5: {words}").wait_for()
        page.get_by_role("link", name="Next", exact=True).click()
    page.get_by_text("4 of 5: What it costs").wait_for()
    visit.open("/?s=rubbish")
    page.wait_for_url("**/playground?s=*")
    visit.see("holds no state of the playground")
    visit.finish()


def test_comfort_theme_shortcuts_help_and_exports(browser: Any, server: StudioServer) -> None:
    visit = Visit(browser, server, comparison_of(server))
    page = visit.page
    visit.see("Against softmax")
    theme = "() => document.documentElement.dataset.theme"
    assert page.evaluate(theme) == "light"
    page.keyboard.press("t")
    assert page.evaluate(theme) == "dark"
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("this sheet").wait_for()
    assert findings(page) == []
    page.locator("[data-choice=theme]").select_option("light")
    page.locator("[data-choice=density]").select_option("compact")
    assert page.evaluate("() => getComputedStyle(document.body).fontSize") == "13px"
    page.keyboard.press("Escape")
    page.reload()
    page.wait_for_selector(READY, state="attached")
    assert page.evaluate("() => document.documentElement.dataset.density") == "compact", "choices are remembered"

    page.locator("main svg.main-svg").first.wait_for()
    page.keyboard.press("x")
    with page.expect_download() as download:
        page.get_by_role("dialog").get_by_role("button", name="CSV").first.click()
    with Path(download.value.path()).open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0][:2] == ["variant", "verdict"]
    assert rows[1][:2] == ["softmax", "baseline"]
    for kind, begin in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        with page.expect_download() as download:
            page.get_by_role("dialog").get_by_role("button", name=kind).first.click()
        assert Path(download.value.path()).read_bytes().startswith(begin)
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    # Both at once: on a busy machine the second would come too late.
    press = "document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }))"
    page.evaluate(f"() => ['g', 'c'].forEach((key) => {press})")
    page.wait_for_url("**/compare")
    page.wait_for_selector(READY, state="attached")
    page.keyboard.press("/")
    assert page.evaluate("() => document.activeElement.closest('label').innerText").startswith("search")
    visit.finish()


def test_a_comparison_is_renamed_starred_deleted_and_restored(browser: Any, server: StudioServer) -> None:
    visit = Visit(browser, server, comparison_of(server))
    page = visit.page
    page.get_by_text("Title, note and marks").click()
    visit.type("title", "One projection for both")
    page.get_by_role("heading", level=1, name="One projection for both").wait_for()
    page.get_by_label("starred").click()
    page.get_by_role("button", name="Delete").click()
    page.wait_for_url("**/compare")
    page.get_by_text("Deleted (1)").click()
    page.get_by_role("button", name="Restore").click()
    page.get_by_role("link", name="★ One projection for both").wait_for()
    visit.open(comparison_of(server))
    page.get_by_text("Title, note and marks").click()
    visit.type("title", "")
    page.get_by_role("heading", level=1, name="tied-kv against softmax").wait_for()
    visit.finish()
