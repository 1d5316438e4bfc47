"""The studio's own timing: visitors without a browser are answered, and figures are judged."""

from __future__ import annotations

import json
import shutil

import pytest

from attnlab.bench.products.studio import BARS, StudioPlan
from attnlab.bench.products.studio.serving import at
from attnlab.bench.products.studio.usage import LongUse
from attnlab.bench.timing import percentile
from attnlab.cli import main
from attnlab.errors import InputError

CHROMIUM = any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert percentile(values, 0.95) == 96
    assert percentile([3.0], 0.95) == 3


def test_growth_is_that_of_the_last_half_and_a_moment_does_not_decide_it() -> None:
    steady = [100] * 50 + [200] * 50
    assert LongUse.over(steady) == LongUse(200, 1.0)
    assert LongUse.over([*steady[:-1], 900]) == LongUse(900, 1.0)
    assert LongUse.over([100 + number for number in range(100)]).growth == pytest.approx(194.5 / 154.5)


def test_addresses_keep_the_token() -> None:
    assert at("http://localhost:1/?token=a", "/seen?text=b") == "http://localhost:1/seen?text=b&token=a"
    assert at("http://localhost:1/?token=a", "/ask") == "http://localhost:1/ask?token=a"


@pytest.mark.parametrize("minutes", [0, -1, float("nan"), float("inf")])
def test_impossible_minutes_are_refused(minutes: float) -> None:
    with pytest.raises(InputError, match="minutes must be above 0"):
        StudioPlan(minutes=minutes)


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="there is no chromium on the PATH")
def test_every_figure_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    assert main(["bench", "studio", "--smoke", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert all(figure > 0 for figure in found["figures"].values())
    assert [bar["name"] for bar in found["bars"]] == [bar.name for bar in BARS]
    assert all(bar["verdict"] != "not measured" for bar in found["bars"])
