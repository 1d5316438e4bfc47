"""The site, built once without what trains: tutorials have no output, and the gallery has no pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from website.__main__ import build

from support.browser import open_browser


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(pages_only=True, site_dir=str(folder))
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from open_browser()
