"""One design system: the style sheets of the studio and of pages have the colours that docs/design.md lists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STYLES = ("src/attnlab/studio/static/studio.css", "src/attnlab/pages/templates/page.html")
ROW = re.compile(r"^\| `--(\w+)` \| `(#[0-9a-f]{6})` \| `(#[0-9a-f]{6})` \|", re.MULTILINE)
LISTED = {name: (light, dark) for name, light, dark in ROW.findall((ROOT / "docs/design.md").read_text("utf-8"))}


def test_the_page_lists_the_colours() -> None:
    assert set(LISTED) == {"back", "text", "soft", "line", "stripe", "good", "bad", "even"}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", LISTED)
def test_style_sheets_agree_with_the_page(style: str, name: str) -> None:
    text = (ROOT / style).read_text("utf-8")
    light, dark = re.findall(rf"--{name}: (#[0-9a-f]{{6}})", text)[:2]
    assert (light, dark) == LISTED[name]
