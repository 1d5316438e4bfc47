"""One table in a terminal, on a page and in Markdown."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO

import pytest
from rich.console import Console

from attnlab import pages
from attnlab.pages import Table

TABLE = Table(
    ("variant", "loss\n(nats)", "verdict"),
    [("soft<max>", "1.50", ""), ("a|b", "1.75", "worse")],
    caption="Losses & verdicts",
    text_columns=(0, 2),
    tones={"worse": "bad"},
    shades=((None, 0.5, None), (None, None, None)),
)


def test_terminal() -> None:
    console = Console(width=60, record=True, file=StringIO())
    console.print(TABLE.to_terminal())
    lines = [line.rstrip() for line in console.export_text(styles=True).splitlines()]
    assert any("\x1b[31mworse" in line for line in lines)
    assert "soft<max>" in "".join(lines)


def test_html_is_escaped_and_shaped() -> None:
    html = TABLE.to_html()
    assert '<th scope="row" class="text">soft&lt;max&gt;</th>' in html
    assert '<td style="--shade: 0.50">1.50</td>' in html
    assert '<td class="text bad">worse</td>' in html
    assert "<caption>Losses &amp; verdicts</caption>" in html
    assert "loss<br>(nats)" in html
    assert "<thead>" not in Table(("", ""), [("a", "b")]).to_html()


def test_inline_html_needs_no_style_sheet() -> None:
    html = TABLE.to_html(inline=True)
    assert "class=" not in html
    assert '<td style="text-align:left;padding:.15em .6em;white-space:nowrap;color:#d9730d;font-weight:600">' in html


def test_markdown() -> None:
    assert TABLE.to_markdown().splitlines() == [
        "| variant | loss (nats) | verdict |",
        "| :-- | --: | :-- |",
        "| soft<max> | 1.50 |  |",
        "| a\\|b | 1.75 | **worse** |",
    ]


def test_a_table_needs_nothing_that_draws() -> None:
    heavy = "{'plotly', 'jinja2', 'numpy'} & set(sys.modules)"
    code = f"import sys; from attnlab.pages import Table; sys.exit(str({heavy} or ''))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_every_name_of_the_package_is_there() -> None:
    assert all(hasattr(pages, name) for name in pages.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Tabel'"):
        pages.Tabel  # noqa: B018
