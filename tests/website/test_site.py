"""The site: links lead somewhere, nothing comes from another host, pages are legible and searchable from disk."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from website.hooks import complete
from website.paths import ROOT
from website.reference import public_packages

from attnlab.attention import variants
from attnlab.cli.examples import EXAMPLES
from attnlab.exhibits import exhibits
from support.browser import findings

ELSEWHERE = ("http://", "https://", "//")
# One page of each kind.
KINDS = ("index.html", "claims.html", "variants.html", "tutorials/2-propose-a-variant.html", "reference/cost.html")


class Links(HTMLParser):
    """The ids of a page, what it links to, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.targets: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.targets.append(given["href"])
        if "src" in given or (tag == "link" and given.get("rel") in {"stylesheet", "icon", "preconnect"}):
            self.loaded.append(given.get("src") or given.get("href", ""))


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    return {path: Links(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}


def test_every_link_leads_somewhere(pages: dict[Path, Links]) -> None:
    broken = []
    for path, links in pages.items():
        for target in (*links.targets, *links.loaded):
            place = urlsplit(target)
            if place.scheme or target.startswith("//"):
                continue
            file = (path.parent / unquote(place.path)).resolve() if place.path else path
            file = file / "index.html" if file.is_dir() else file
            anchor = unquote(place.fragment)
            if not file.exists() or (anchor and file in pages and anchor not in pages[file].ids | {"__toc"}):
                broken.append(f"{path.name}: {target}")
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, Links], site: Path) -> None:
    loaded = {target for links in pages.values() for target in links.loaded if target.startswith(ELSEWHERE)}
    assert loaded == set()
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//", style.read_text(encoding="utf-8"))


def test_two_clicks_from_home(pages: dict[Path, Links], site: Path) -> None:
    """From home to the definition of sigmoid attention, to adding a variant, and to what "equivalent" means."""
    home = {(site / urlsplit(target).path).resolve() for target in pages[site / "index.html"].targets}
    for page, words in {
        "glossary.html": "σ(s_j − log n)",
        "own-attention.html": "add_variant",
        "variants.html": "σ(s_j − log n)",
    }.items():
        assert site / page in home
        html = (site / page).read_text(encoding="utf-8")
        assert words in html or words in re.sub(r"<[^>]+>", "", html)
    assert "two one-sided tests" in (site / "glossary.html").read_text(encoding="utf-8")


def test_equations_of_the_tables_are_mathematics(site: Path) -> None:
    for name, least in (("variants", len(variants())), ("exhibits", len(exhibits()))):
        assert (site / f"{name}.html").read_text(encoding="utf-8").count("<math ") > least


def test_the_reference_has_every_public_package_and_the_command_line(site: Path) -> None:
    for name in public_packages():
        assert (site / "reference" / f"{name.removeprefix('attnlab.')}.html").exists()
    text = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    assert "attnlab knowledge facts import" in text
    assert "--tokens-per-parameter" in text
    assert text.count("Example: <code>attnlab ") == len(EXAMPLES)


def test_the_reference_needs_no_other_extra() -> None:
    missing = ("nicegui", "ray", "submitit", "tensorboard", "transformers")
    code = (
        "import sys; sys.path.insert(0, '.'); sys.modules.update(dict.fromkeys(sys.argv[1:])); "
        "from website.reference import reference_pages; reference_pages()"
    )
    subprocess.run([sys.executable, "-c", code, *missing], cwd=ROOT, check=True)


def test_a_page_that_the_navigation_does_not_name_becomes_a_guide() -> None:
    nav = [{"Home": "index.md"}, {"Guides": ["compare.md", {"How to": "how-to/"}]}, {"Project": ["log.md"]}]
    found = complete(nav, ["compare.md", "how-to/a.md", "index.md", "log.md", "verify.md"])
    assert found[1] == {"Guides": ["compare.md", "verify.md", {"How to": ["how-to/a.md"]}]}


class Reader:
    """A reader of the site from disk, with all that went wrong."""

    def __init__(self, browser: Any, scheme: str, width: int) -> None:
        self.problems: list[str] = []
        self.page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
        self.page.set_default_timeout(120_000)
        self.page.on("request", self._request)
        self.page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))

    def _request(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:", "about:")):
            self.problems.append(f"request: {request.url}")

    def open(self, path: Path) -> None:
        self.page.goto(path.as_uri())
        self.page.wait_for_load_state("load")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_pages_are_legible_fit_and_load_nothing(browser: Any, site: Path, scheme: str, width: int) -> None:
    reader = Reader(browser, scheme, width)
    for name in KINDS:
        reader.open(site / name)
        assert reader.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        assert findings(reader.page) == [], f"{name} {scheme}"
    assert reader.problems == []
    reader.page.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_legible(browser: Any, pages: dict[Path, Links], site: Path, scheme: str) -> None:
    reader = Reader(browser, scheme, 1280)
    for path in pages:
        reader.open(path)
        assert findings(reader.page) == [], f"{path.relative_to(site)} {scheme}"
    assert reader.problems == []


def test_search_works_from_disk(browser: Any, site: Path) -> None:
    reader = Reader(browser, "light", 1280)
    reader.open(site / "index.html")
    reader.page.locator("input.md-search__input").click()
    reader.page.keyboard.type("stick breaking")
    reader.page.locator(".md-search-result__item a").first.wait_for()
    assert "variants" in reader.page.locator(".md-search-result__list").inner_html()
    assert reader.problems == []
    reader.page.close()
