"""Pages of exhibits as a browser shows them: no error, nothing loaded from anywhere, light, dark, wide and narrow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from attnlab.exhibits import Outcome, exhibit_named
from attnlab.exhibits.pages import outcome_page
from attnlab.pages import write_page
from support.browser import findings

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the PATH to open a page with")

# Words of figures that stick out of them.
OUTSIDE = """() => [...document.querySelectorAll('.js-plotly-plot')].flatMap(figure => {
  const box = figure.getBoundingClientRect();
  return [...figure.querySelectorAll('.main-svg text')].filter(text => {
    const own = text.getBoundingClientRect();
    return own.width > 0 && (own.left < box.left - 1 || own.right > box.right + 1);
  }).map(text => text.textContent);
})"""


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    names = ("worked-example", "movies", "copying", "kqv-construction", "scaling", "analogy")
    return [exhibit_named(name).run() for name in names]


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_pages_open_without_an_error_and_fit(
    browser: sync_api.Browser, outcomes: list[Outcome], tmp_path: Path, scheme: str, width: int
) -> None:
    problems: list[str] = []
    page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    page.on("console", lambda message: problems.append(message.text) if message.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request", lambda sent: None if sent.url.startswith(("file:", "data:", "blob:")) else problems.append(sent.url)
    )
    path = tmp_path / "all.html"
    write_page(outcome_page(outcomes), path)
    page.goto(path.as_uri())
    page.wait_for_load_state("load")
    figures = page.evaluate(
        "() => [...document.querySelectorAll('.js-plotly-plot')].map(one => !!one.querySelector('svg'))"
    )
    assert len(figures) == 1 + 2 + 1 + 2 + 3 + 3
    assert all(figures)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert page.evaluate(OUTSIDE) == []
    titles = page.evaluate("() => [...document.querySelectorAll('.xtitle, .ytitle')].map(one => one.textContent)")
    assert "entropy (nats)" in titles
    assert problems == []
    assert findings(page) == []
    page.close()


def test_one_exhibit_in_a_notebook(browser: sync_api.Browser, outcomes: list[Outcome], tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    path.write_text(f"<meta charset='utf-8'><body>{outcomes[0]._repr_html_()}</body>", encoding="utf-8")
    page = browser.new_page(viewport={"width": 900, "height": 900})
    page.goto(path.as_uri())
    frame = page.frame_locator("iframe")
    assert frame.locator("h1").inner_text() == "Attention by hand"
    assert frame.locator(".js-plotly-plot svg").count() > 0
    page.close()
