"""The report as a browser shows it: no error, nothing loaded from anywhere, legible on any screen and on paper."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from attnlab.experiments.reporting.exports import repr_html
from attnlab.experiments.reporting.report import write_report
from support.comparisons import EFFECTS, make_comparison

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the PATH to open the report with")

COLOURS = """() => [
  getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('.main-svg text')).fill
]"""
# Words that stick out of their figure.
OUTSIDE = """() => [...document.querySelectorAll('.js-plotly-plot')].flatMap(figure => {
  const box = figure.getBoundingClientRect();
  return [...figure.querySelectorAll('.main-svg text')].filter(text => {
    const own = text.getBoundingClientRect();
    return own.width > 0 && (own.left < box.left - 1 || own.right > box.right + 1);
  }).map(text => text.textContent);
})"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    names = tuple(EFFECTS)[:8]
    write_report(make_comparison(names, seeds=10, diverged={"relu": (3, 5)}, tuned=True), path)
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """A page that was opened, with all that went wrong."""

    def __init__(self, browser: sync_api.Browser, path: Path, *, scheme: str = "light", width: int = 1280) -> None:
        self.problems: list[str] = []
        self.page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        self.page.on("request", self._request)
        self.page.goto(path.as_uri())
        self.page.wait_for_load_state("load")

    def _console(self, message: sync_api.ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.problems.append(f"{message.type}: {message.text}")

    def _request(self, request: sync_api.Request) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.problems.append(f"request: {request.url}")


# Opening the page takes seconds, so that each visit looks at everything.
@pytest.mark.parametrize(
    ("scheme", "width", "colours"),
    [
        ("light", 1280, ["rgb(255, 255, 255)", "rgb(28, 33, 40)"]),
        ("dark", 390, ["rgb(20, 23, 28)", "rgb(230, 233, 237)"]),
    ],
)
def test_it_opens_without_an_error_fits_and_prints(
    browser: sync_api.Browser, report: Path, scheme: str, width: int, colours: list[str]
) -> None:
    visit = Visit(browser, report, scheme=scheme, width=width)
    page = visit.page
    drawn = page.evaluate(
        "() => [...document.querySelectorAll('.js-plotly-plot')].map(one => one.querySelectorAll('.main-svg').length)"
    )
    assert len(drawn) == 1 + 8 + 8 + 1 + 5 + 9  # differences, curves, differences along the run, cost, measures, rates
    assert all(drawn)
    assert page.evaluate(COLOURS) == colours
    assert page.evaluate(OUTSIDE) == []
    for other in (width, 390 if width > 390 else 1280):
        page.set_viewport_size({"width": other, "height": 900})
        page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=other)
    page.locator("summary").first.click()
    assert page.locator("details[open] table").count() == 1
    page.emulate_media(media="print")
    assert page.evaluate(COLOURS) == ["rgb(255, 255, 255)", "rgb(0, 0, 0)"]
    assert page.pdf(format="A4").startswith(b"%PDF")
    assert visit.problems == []
    page.close()


def test_the_drawing_for_notebooks_fits_into_one(browser: sync_api.Browser, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    path.write_text(f"<meta charset='utf-8'><body>{repr_html(make_comparison())}</body>", encoding="utf-8")
    visit = Visit(browser, path, width=900)
    assert visit.page.locator("svg circle").count() == 24
    assert visit.page.evaluate("() => document.documentElement.scrollWidth") <= 900
    assert visit.problems == []
    visit.page.close()
