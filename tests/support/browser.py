"""Chromium, and what axe-core has against a page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
_FINDINGS = {"serious", "critical"}


def open_browser() -> Iterator[Any]:
    """Yield a browser, and close it."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium on the PATH to open pages with")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def findings(page: Any) -> list[str]:
    """Return what axe-core has against a page, the serious and worse.

    Frames are left out: a report in the studio has an origin of its own, which axe's messages cannot enter.
    """
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    found = axe.Axe().run(page, options={"iframes": False}).response["violations"]
    return [
        f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes'][:3]]}"
        for one in found
        if one["impact"] in _FINDINGS
    ]
