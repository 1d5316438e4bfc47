"""One copy of plotly.js for all pages of the site. A page that attnlab writes carries its own, which is 4.5 MB."""

from __future__ import annotations

import plotly.offline

NAME = "plotly.js"
_POLICY = "script-src 'unsafe-inline'"


def library() -> str:
    """Return the text of plotly.js."""
    return str(plotly.offline.get_plotlyjs())


def share(html: str, up: str) -> str:
    """Return a page that reads plotly.js from the folder of assets; `up` leads from the page to the top of the site."""
    return html.replace(f"<script>{library()}</script>", f'<script src="{up}assets/{NAME}"></script>').replace(
        _POLICY, "script-src 'self' 'unsafe-inline'"
    )
