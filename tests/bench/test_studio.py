"""The studio's own timing: visitors without a browser are answered, and figures are judged."""

from __future__ import annotations

import json
import shutil

import pytest

from attnlab.bench.products.studio import CROWD, EDIT, MEMORY, START
from attnlab.bench.timing import percentile
from attnlab.cli import main

CHROMIUM = any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert percentile(values, 0.95) == 96
    assert percentile([3.0], 0.95) == 3


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="there is no chromium on the PATH")
def test_every_figure_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    assert main(["bench", "studio", "--smoke", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert all(figure > 0 for figure in found["figures"].values())
    names = {bar["claim"]["name"] for bar in found["bars"]} if "claim" in found["bars"][0] else set()
    assert names <= {claim.name for claim in (START, EDIT, CROWD, MEMORY)}
