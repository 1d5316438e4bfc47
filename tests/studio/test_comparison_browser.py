"""A comparison from the form to the verdict, with a studio that is killed on the way."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

from attnlab.storage.locks import find_holder
from support.studio import StudioServer, Visit
from support.training import children_of

TINY = "num_layers=1 model_width=16 num_heads=2 context_length=8 batch_size=4 validation_rows=4 evaluate_every=300"


def start(visit: Visit) -> None:
    visit.see("minutes")
    visit.field("corpus").select_option("kinship")
    visit.type("steps", "1500")
    visit.type("changes of all arms alike", TINY)
    visit.page.get_by_text("How it is judged").click()
    visit.type("pilot seeds", "0")
    visit.type("seeds", "1")
    visit.see("seeds is '1'")
    visit.type("seeds", "2")
    visit.see("for 4 runs")
    visit.page.get_by_role("button", name="Start the comparison").click()
    visit.page.wait_for_url(re.compile("/compare/[0-9a-f]{16}$"))


def pause(runs: Path) -> list[int]:
    """Stop the processes of the comparison, so that it cannot end before the next studio has been seen."""
    (folder,) = (path.parent for path in runs.glob("*/plan.json"))
    holder = find_holder(folder)
    assert holder is not None
    assert holder.pid is not None
    processes = [holder.pid, *children_of(holder.pid)]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    return processes


def test_started_killed_found_stopped_resumed_and_read(browser: Any, tmp_path: Path) -> None:
    first = StudioServer(tmp_path / "runs", tmp_path / "cache")
    try:
        visit = Visit(browser, first, "/compare")
        visit.see("There are no comparisons here yet")
        start(visit)
        visit.see("It is running")
        visit.page.wait_for_selector(".js-plotly-plot .main-svg")
        training = pause(tmp_path / "runs")
        path = visit.page.url.removeprefix(first.base)
    finally:
        first.kill()
    visit.see("The studio has ended, and this page shows its last state")
    visit.page.close()

    second = StudioServer(tmp_path / "runs", tmp_path / "cache")
    try:
        visit = Visit(browser, second, "/compare")
        visit.page.get_by_role("link", name="tied-kv against softmax").wait_for()
        visit.field("search").fill("nothing of the kind")
        visit.see("Nothing has these words")
        visit.open(path)
        visit.see("It is running")
        visit.page.get_by_role("button", name="Stop").click()
        for process in training:
            os.kill(process, signal.SIGCONT)
        visit.see("It was stopped")
        assert not list((tmp_path / "runs").glob("*/answer.json"))
        visit.page.get_by_role("button", name="Resume").click()
        visit.see("It has ended")
        visit.see("2 paired seeds")
        with visit.page.context.expect_page() as opened:
            visit.page.get_by_role("link", name="Open the report").click()
        report = opened.value
        report.get_by_role("heading", level=1).wait_for()
        assert report.evaluate("() => origin") == "null", "a report has no part in the studio"
        visit.finish()
    finally:
        second.kill()
