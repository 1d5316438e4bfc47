"""The effect of the studio on concurrent training.

A comparison trains throughout, as `attnlab compare` does. Its page is alternately opened and closed in Chromium: steps
are counted in windows of equal length, and the ratio is taken within each round.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.bench.products.commands import options_of
from attnlab.bench.products.studio.serving import RUNS, at, environment, visit
from attnlab.bench.timing import Ratio, turn_order
from attnlab.errors import AttnlabError
from attnlab.experiments.request import Request
from attnlab.runs.directory import METRICS
from attnlab.runs.metrics import Metrics

_REQUEST = Request(
    variants=("tied-kv",),
    corpus="kinship",
    steps=1_000_000,  # more than any measurement takes
    changes=("context_length=64", "batch_size=8", "validation_rows=8", "evaluate_every=1000"),
    seeds=2,
    pilot=0,
)
_SECONDS_TO_START = 300.0
_FIRST_STEPS = 100  # warm-up, not counted
_CHART = ".js-plotly-plot .main-svg"


@dataclass(frozen=True)
class BesidePlan:
    """How often and how long steps are counted, and how long to wait until the studio drops a closed page."""

    rounds: int = 7
    seconds: float = 20.0
    settle: float = 25.0  # longer than the studio waits for a page to reconnect

    def smoke(self) -> BesidePlan:
        return BesidePlan(rounds=2, seconds=1.0, settle=0.0)


def watch_training(browser: Any, address: str, folder: Path, plan: BesidePlan) -> Ratio:
    """Return the steps per second of a comparison while its page is open, over those while it is closed."""
    ratios = []
    with _training(folder) as training:
        own = at(address, _page_of(browser, address))
        time.sleep(plan.settle)
        for number in range(plan.rounds):
            rates = {}
            for name in turn_order(["open", "closed"], number):
                page = visit(browser, own) if name == "open" else None
                if page is not None:
                    page.wait_for_selector(_CHART)
                rates[name] = training.rate(plan.seconds)
                if page is not None:
                    page.close()
                    time.sleep(plan.settle)
            ratios.append(rates["open"] / rates["closed"])
    return Ratio.over(ratios)


def _page_of(browser: Any, address: str) -> str:
    """Return the path of the page of the only comparison."""
    page = visit(browser, at(address, "/compare"))
    path: str = page.locator("a[href^='/compare/']").first.get_attribute("href")
    page.close()
    return path


class _Training:
    """A comparison in a separate process."""

    def __init__(self, folder: Path) -> None:
        words = [sys.executable, "-m", "attnlab", "compare", *options_of(_REQUEST), "--out", str(folder / RUNS)]
        self._metrics = folder / RUNS / _REQUEST.folder / "runs"
        self.process = subprocess.Popen(
            words,
            cwd=folder,
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def steps(self) -> int:
        """Return the steps that all runs have done."""
        found = [Metrics(path).last() for path in self._metrics.glob(f"*/{METRICS}")]
        return sum(one["step"] for one in found if one is not None)

    def rate(self, seconds: float) -> float:
        """Count for so many seconds; return the steps per second."""
        begin, before = time.perf_counter(), self.steps()
        time.sleep(seconds)
        after, end = self.steps(), time.perf_counter()
        if self.process.poll() is not None or after == before:
            raise AttnlabError("the comparison beside the studio trains no more", hint="free a core, and measure again")
        return (after - before) / (end - begin)


@contextmanager
def _training(folder: Path) -> Iterator[_Training]:
    """Start a comparison, wait until it trains, and kill it with all its processes in the end."""
    training = _Training(folder)
    try:
        end = time.monotonic() + _SECONDS_TO_START
        while training.steps() < _FIRST_STEPS:
            if training.process.poll() is not None or time.monotonic() > end:
                raise AttnlabError("the comparison did not start", hint="run `attnlab compare` to see why")
            time.sleep(0.1)
        yield training
    finally:
        os.killpg(training.process.pid, signal.SIGKILL)
        training.process.wait()
