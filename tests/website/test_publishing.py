"""A study in docs/: its report, its runs and the figures that a page shows."""

from __future__ import annotations

from pathlib import Path

from website.publishing import publish
from website.shared import NAME, library


def test_a_study_is_published(tmp_path: Path) -> None:
    words = "scale tied-kv --corpus kinship --rungs 6k,14k,25k --tokens-per-parameter 0.3 --no-half-tokens --seeds 2"
    rates = "--rate-seeds 1 --rate-count 3"
    options = "--change context_length=16 --change validation_rows=16 --target 1M --quiet --out"
    to = tmp_path / "docs" / "study"
    to.mkdir(parents=True)
    shown = {"kinship-difference-against-size.svg", "kinship-forecast.svg"}
    page = "".join(f"![](study/{name})" for name in shown) + "![](other/kinship-learning-rates.svg)"
    (tmp_path / "docs" / "study.md").write_text(page, encoding="utf-8")
    publish(to, [*words.split(), *rates.split(), *options.split(), str(tmp_path / "runs")])
    html = (to / "report.html").read_text(encoding="utf-8")
    assert f'<script src="../assets/{NAME}"></script>' in html
    assert library() not in html
    assert (to / "runs.csv").read_text(encoding="utf-8").count("tied-kv") >= 2 * 3
    assert {file.name for file in to.glob("*.svg")} == shown
