"""The page of a look as a browser shows it: maps are drawn, values are true, the keyboard reaches everything."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from attnlab.corpora import ByteTokenizer, SymbolTokenizer
from attnlab.lens import Look, look_at
from attnlab.lens.pages.look import More
from attnlab.models import LanguageModel, ModelSpec, build_model
from support.browser import findings

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the PATH to open the page with")

# Those that are in sight, as the others wait until they are.
DRAWN = """() => [...document.querySelectorAll('.maps-small canvas')]
  .every(canvas => canvas.width > 1 || canvas.getBoundingClientRect().top > innerHeight)"""
CHANGED = "before => document.querySelector('.maps-small canvas').toDataURL() !== before"
# How many colours a canvas shows, and how much of it is left clear.
COLOURS = """canvas => {
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  const cells = Array.from({ length: data.length / 4 }, (_, place) => data.slice(4 * place, 4 * place + 4).join());
  return [new Set(cells).size, cells.filter(cell => cell.endsWith(',0')).length / cells.length];
}"""
FOCUS = "() => document.activeElement.getAttribute('aria-label')"
CELL = re.compile(r"“(.*)” \((\d+)\) → “(.*)” \((\d+)\): (\S+)(?: · row mass (\S+))?")


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def make_model(variant: str = "softmax", **changes: object) -> LanguageModel:
    torch.manual_seed(1)
    shape = {"num_layers": 3, "model_width": 16, "num_heads": 4, "context_length": 24, **changes}
    model = build_model(ModelSpec.build("nano", **{"vocabulary_size": 256, "variant": variant, **shape}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return model.eval()


class Visit:
    """A page that was opened, with all that went wrong."""

    def __init__(
        self, browser: sync_api.Browser, found: Look, folder: Path, *, scheme: str = "light", width: int = 1280
    ) -> None:
        path = folder / "look.html"
        found.write(path)
        self.problems: list[str] = []
        self.page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
        self.page.on("console", lambda message: self.problems.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        self.page.on("request", self._request)
        self.page.goto(path.as_uri())
        self.page.wait_for_function(DRAWN)

    def _request(self, request: sync_api.Request) -> None:
        if not request.url.startswith("file:"):
            self.problems.append(f"request: {request.url}")

    def open(self, label: str) -> None:
        self.page.get_by_role("button", name=re.compile(f"^{label}(;|$)")).click()
        self.page.wait_for_function("() => document.querySelector('.maps-cell').textContent")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    @property
    def cell(self) -> tuple[int, int, str, str | None]:
        """Query, key, weight and mass, as they are said."""
        match = CELL.fullmatch(self.page.locator(".maps-cell").inner_text())
        assert match is not None
        return int(match[2]), int(match[4]), match[5], match[6]

    @property
    def title(self) -> str:
        return self.page.locator("#maps-title").inner_text()

    def fits(self) -> bool:
        return bool(self.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"))

    def finish(self) -> None:
        assert self.problems == []
        self.page.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_every_head_is_drawn_and_fits(browser: sync_api.Browser, tmp_path: Path, scheme: str, width: int) -> None:
    model = make_model("sigmoid,linear,softmax")
    visit = Visit(
        browser, look_at(model, "to be or not to be", tokenizer=ByteTokenizer()), tmp_path, scheme=scheme, width=width
    )
    small = visit.page.locator(".maps-small canvas")
    assert small.count() == 8
    for place in range(8):
        colours, clear = small.nth(place).evaluate(COLOURS)
        assert colours > 5
        assert clear == pytest.approx(17 / 36, abs=0.01), "what is masked stays clear"
    assert "no map: linear attention" in visit.page.locator(".maps-none").inner_text()
    assert visit.fits()
    assert findings(visit.page) == []
    first = small.first.evaluate("canvas => canvas.toDataURL()")
    visit.page.emulate_media(color_scheme="dark" if scheme == "light" else "light")
    visit.page.wait_for_function(
        "before => document.querySelector('.maps-small canvas').toDataURL() !== before", arg=first
    )
    visit.open("layer 0, head 2")
    assert visit.fits()
    colours, _ = visit.page.locator(".maps-space canvas").evaluate(COLOURS)
    assert colours > 20
    visit.finish()


def test_values_are_true_and_the_keyboard_reaches_them(browser: sync_api.Browser, tmp_path: Path) -> None:
    found = look_at(make_model("sigmoid,linear,softmax"), "to be or not to be", tokenizer=ByteTokenizer())
    visit = Visit(browser, found, tmp_path)
    page = visit.page
    page.get_by_role("button", name=re.compile("^layer 0, head 0;")).focus()
    visit.press("ArrowRight", "ArrowRight", "ArrowDown")  # past the layer that has no map
    assert page.evaluate(FOCUS).startswith("layer 2, head 2;")
    assert page.locator(".maps-small[tabindex='0']").count() == 1
    outline = "() => getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid", "one sees where one is"
    visit.press("Enter")
    page.wait_for_function("() => document.querySelector('.maps-cell').textContent")
    assert visit.title == "layer 2, head 2"
    assert page.evaluate("() => document.activeElement.getAttribute('role')") == "application"
    assert visit.cell[:2] == (17, 17)
    visit.press("Home")
    assert visit.cell[:2] == (17, 0)
    for step in range(17):
        query, key, value, mass = visit.cell
        wanted = found.layers[2].weights[2, query, key].item()
        assert float(value) == pytest.approx(wanted, abs=1e-3)
        assert mass is None, "softmax's rows sum to 1"
        assert key == min(step, 17)
        visit.press("ArrowRight")
    visit.press("ArrowUp")
    assert page.locator(".maps-cell").inner_text().endswith("(16) → “e” (17): not visible")
    visit.press("Shift+ArrowUp", "Shift+ArrowLeft")
    page.wait_for_function("() => document.querySelector('#maps-title').textContent === 'layer 0, head 1'")
    visit.press("ArrowLeft", "ArrowLeft", "ArrowLeft")
    query, key, value, mass = visit.cell
    assert float(value) == pytest.approx(found.layers[0].weights[1, query, key].item(), abs=1e-3)
    assert mass is not None
    assert float(mass) == pytest.approx(found.layers[0].row_mass[1, query].item(), rel=1e-3)
    visit.press("Escape")
    assert not page.locator("dialog").evaluate("dialog => dialog.open")
    assert page.evaluate(FOCUS).startswith("layer 0, head 1;")
    visit.finish()


def test_what_the_pointer_is_on_is_said(browser: sync_api.Browser, tmp_path: Path) -> None:
    found = look_at(make_model(), "to be or not to be", tokenizer=ByteTokenizer())
    visit = Visit(browser, found, tmp_path)
    visit.open("layer 1, head 3")
    visit.press("+", "+")
    view = visit.page.locator(".maps-view")
    assert view.evaluate("view => view.scrollHeight > view.clientHeight"), "larger than there is room for"
    visit.press("-", "-")
    visit.page.wait_for_timeout(100)
    box = view.bounding_box()
    assert box is not None
    seen = set()
    for across in range(40, 600, 60):
        for down in range(40, 560, 70):
            visit.page.mouse.move(box["x"] + across, box["y"] + down)
            words = visit.page.locator(".maps-cell").inner_text()
            if "not visible" in words:
                continue
            query, key, value, _ = visit.cell
            seen.add((query, key))
            assert float(value) == pytest.approx(found.layers[1].weights[3, query, key].item(), abs=1e-3)
    assert len(seen) > 15
    most = visit.page.locator(".maps-most").inner_text()
    best = found.layers[1].weights[3, query].max().item()
    assert float(most.split(") ")[1].split(",")[0]) == pytest.approx(best, abs=1e-3)
    visit.page.locator(".maps-buttons [aria-label='back to all heads']").click()
    before = visit.page.locator(".maps-small canvas").first.evaluate("canvas => canvas.toDataURL()")
    visit.page.locator(".maps-scale").select_option("row")
    visit.page.wait_for_function(CHANGED, arg=before)
    visit.finish()


def test_cross_attention_has_both_sequences(browser: sync_api.Browser, tmp_path: Path) -> None:
    words = SymbolTokenizer(["a", "b", "c", "d", "<b>"])
    model = make_model(family="encoder-decoder", vocabulary_size=5)
    found = look_at(model, "a b c d", source="<b> d a c b a", tokenizer=words)
    visit = Visit(browser, found, tmp_path, width=390)
    assert visit.page.get_by_role("grid").count() == 3
    visit.page.locator("[role=grid][aria-label=cross-attention] .maps-small").nth(5).click()
    visit.page.wait_for_function("() => document.querySelector('.maps-cell').textContent")
    assert visit.title == "cross-attention, layer 1, head 1"
    visit.press("Home")
    text = visit.page.locator(".maps-cell").inner_text()
    assert text.startswith("“d” (3) → “<b>” (0): ")
    (cross,) = [layer for layer in found.of("cross") if layer.layer == 1]
    assert float(visit.cell[2]) == pytest.approx(cross.weights[1, 3, 0].item(), abs=1e-3)
    assert visit.fits()
    visit.finish()


def test_a_notebook_shows_it(browser: sync_api.Browser, tmp_path: Path) -> None:
    found = look_at(make_model(), "to be", tokenizer=ByteTokenizer())
    path = tmp_path / "notebook.html"
    path.write_text(f"<meta charset='utf-8'><body>{found._repr_html_()}</body>", encoding="utf-8")
    problems: list[str] = []
    page = browser.new_page(viewport={"width": 900, "height": 900})
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(path.as_uri())
    frame = page.frames[1]
    frame.wait_for_function("() => document.querySelector('.maps-small canvas').width > 1")
    frame.locator(".maps-small").first.click()
    frame.wait_for_function("() => document.querySelector('.maps-cell').textContent")
    assert problems == []
    page.close()


@pytest.mark.slow
def test_a_page_of_gpt2_size(browser: sync_api.Browser, tmp_path: Path) -> None:
    torch.manual_seed(1)
    spec = ModelSpec.build("gpt2", vocabulary_size=256, context_length=512, model_width=96)
    model = build_model(spec).eval()
    with torch.no_grad():
        for block in model.stack.blocks:
            block.attention.projections["query"].weight.mul_(60)  # some heads sharp, some even
    found = look_at(model, "to be or not to be " * 27, tokenizer=ByteTokenizer())
    visit = Visit(browser, found, tmp_path, width=390)
    assert (tmp_path / "look.html").stat().st_size <= 15_000_000
    assert visit.page.locator(".maps-small").count() == 144
    assert visit.fits()
    visit.open("layer 11, head 7")
    visit.press("Shift+ArrowLeft", "ArrowLeft", "+", "+", "+")
    visit.page.wait_for_function("() => document.querySelector('#maps-title').textContent === 'layer 11, head 6'")
    visit.press("Home", "ArrowUp")
    query, key, value, _ = visit.cell
    assert (query, key) == (510, 0)
    assert float(value) == pytest.approx(found.layers[11].weights[6, query, key].item(), abs=1e-3)
    visit.press("Escape")
    visit.page.locator(".maps-scale").select_option("row")
    visit.page.wait_for_function(DRAWN)
    visit.finish()


@pytest.mark.parametrize(("scheme", "width"), [("dark", 1280), ("light", 390)])
def test_tables_and_names_of_roles_fit(browser: sync_api.Browser, tmp_path: Path, scheme: str, width: int) -> None:
    (tmp_path / "text.txt").write_text("to be or not to be, that is the question: " * 8, encoding="utf-8")
    more = More(on=tmp_path / "text.txt", embeddings=True, neurons=True, beside="not so")
    found = look_at(make_model(), "to be or not", tokenizer=ByteTokenizer(), more=more)
    found = replace(found, tags={("self", 0, 2): "previous token", ("self", 2, 1): "induction"})
    visit = Visit(browser, found, tmp_path, scheme=scheme, width=width)
    tags = visit.page.locator(".maps-tag")
    assert [text for text in tags.all_inner_texts() if text] == ["previous token", "induction"]
    assert visit.fits()
    headings = visit.page.locator("h2").all_inner_texts()
    assert {"What each head does", "Importance of each head", "Embeddings", "Single neurons"} <= set(headings)
    shaded = visit.page.locator("td[style]").first
    assert shaded.evaluate("cell => getComputedStyle(cell).backgroundColor") != "rgba(0, 0, 0, 0)"
    visit.finish()
