"""The browser that pages and the studio are timed in."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attnlab.errors import AttnlabError
from attnlab.experiments.launching.extras import import_extra

_NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def open_chromium() -> Iterator[Any]:
    """Start the Chromium of this machine, under playwright; refuse where one of them is missing."""
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        raise AttnlabError("there is no Chromium on the PATH", hint="install one to time pages in it")
    with import_extra("playwright.sync_api", "test").sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def open_page(browser: Any) -> Any:
    """Return a new, blank page of the size that all are timed at."""
    return browser.new_page(viewport={"width": 1280, "height": 900})
