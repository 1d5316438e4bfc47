"""The studio as its visitors meet it: how soon it is there, and how soon it answers.

start     seconds from `attnlab studio` to the first page with its numbers, in Chromium
edit      milliseconds from a changed cell to new numbers on screen, the median of many, in Chromium
crowd     the 95th percentile of the same for two browsers and thirty more visitors at once
memory    the most that the studio and its workers hold at once meanwhile
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from attnlab.bench.products.studio_clients import Door, edit_at_once
from attnlab.bench.results.findings import Figures
from attnlab.bench.results.judging import Claim, judge_claim
from attnlab.bench.results.progress import Listener
from attnlab.bench.results.resident import TreePeak
from attnlab.bench.results.timing import Ratio
from attnlab.errors import AttnlabError
from attnlab.experiments.launching.extras import import_extra
from attnlab.processes.machine import describe_machine

START = Claim("studio-start", "the studio", "seconds from its start to the first page", 5.0)
EDIT = Claim("studio-edit", "the playground", "ms from a changed cell to new numbers, median", 150.0)
CROWD = Claim("studio-crowd", "2 browsers and 30 more visitors", "seconds of an edit, 95th percentile", 1.0)
MEMORY = Claim("studio-memory", "the studio with its workers", "MB at most", 400.0)

_PATIENCE = 120_000  # milliseconds
_READY = ".content[aria-busy=false]"
_BROWSERS, _VISITORS = 2, 30
_EDITS, _CROWD_EDITS = 40, 10
# Type into a cell so many times; the milliseconds until the output on screen has changed, each time.
_TYPE = """async (times) => {
  const taken = [];
  for (let number = 0; number < times; number++) {
    const cell = document.querySelector('[data-cell="x 0 0"]');
    const output = () => document.querySelector("[data-result=output]");
    const before = output().innerText;
    const begin = performance.now();
    cell.value = String(10 + (Number(cell.value) + 1) % 80);  // never what was there
    cell.dispatchEvent(new Event("input", { bubbles: true }));
    while (output().innerText === before) await new Promise(requestAnimationFrame);
    taken.push(performance.now() - begin);
    await new Promise((done) => setTimeout(done, 50));
  }
  return taken;
}"""


@dataclass(frozen=True)
class StudioBench(Figures):
    """How soon the studio was there, and how soon it answered."""

    benchmark: ClassVar[str] = "studio"
    title: ClassVar[str] = "The studio"
    lead: ClassVar[str] = "How soon `attnlab studio` is there, and how soon it answers, alone and in a crowd."
    words: ClassVar[str] = "Each figure from this one run, in Chromium."


def bench_studio(listener: Listener, *, smoke: bool = False) -> StudioBench:
    """Start a studio on an empty folder, and visit it."""
    edits, crowd_edits, visitors = (3, 2, 3) if smoke else (_EDITS, _CROWD_EDITS, _VISITORS)
    with tempfile.TemporaryDirectory(prefix="attnlab-studio-") as folder, _browser() as browser:
        listener.step("the start", 0, 3)
        begin = time.perf_counter()
        with _studio(Path(folder)) as (process, address):
            page = _visit(browser, address)
            start = time.perf_counter() - begin
            with TreePeak(process.pid, every=1.0) as peak:
                listener.step("edits alone", 1, 3)
                page.evaluate(_TYPE, 3)  # to warm up
                alone = page.evaluate(_TYPE, edits)
                listener.step("edits in a crowd", 2, 3)
                crowd = _crowd(browser, address, page, visitors, crowd_edits)
    figures = {
        "seconds to the first page": start,
        "ms of an edit, median": statistics.median(alone),
        "seconds of an edit in a crowd, 95th percentile": _percentile(crowd, 0.95),
        "MB at most": peak.bytes / 1e6,
    }
    bars = tuple(
        judge_claim(claim, {"studio": Ratio.exact(value)})
        for claim, value in zip((START, EDIT, CROWD, MEMORY), figures.values(), strict=True)
    )
    return StudioBench(describe_machine(), 1, (), bars, figures)


def _crowd(browser: Any, address: str, page: Any, visitors: int, edits: int) -> list[float]:
    """Seconds of all edits of some visitors without a browser, and of two with one, at the same time."""
    others = [page, *(_visit(browser, address) for _ in range(_BROWSERS - 1))]
    found: list[float] = []
    problems: list[Exception] = []

    def visit() -> None:
        try:
            found.extend(asyncio.run(edit_at_once(Door.open(address), visitors, edits)))
        except Exception as error:
            problems.append(error)

    crowd = threading.Thread(target=visit)
    crowd.start()
    while crowd.is_alive():
        for one in others:
            found += [taken / 1000 for taken in one.evaluate(_TYPE, 1)]
    crowd.join()
    if problems:
        raise AttnlabError(f"a visitor was let down: {problems[0]}") from problems[0]
    return found


def _percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def _visit(browser: Any, address: str) -> Any:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(address)
    page.wait_for_selector(_READY, timeout=_PATIENCE)
    return page


@contextmanager
def _browser() -> Iterator[Any]:
    found = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
    )
    if not found:
        raise AttnlabError("there is no Chromium on the PATH", hint="install one: the studio is timed in it")
    with import_extra("playwright.sync_api", "test").sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def _studio(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    words = ["-m", "attnlab", "studio", "--no-browser", "--port", "0", "--json", "--runs", str(folder / "runs")]
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder
    )
    try:
        assert process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = process.stdout.readline()
            if not line:
                raise AttnlabError("the studio did not start", hint="run `attnlab studio` to see why")
            text += line
        yield process, json.loads(text)["url"]
    finally:
        process.terminate()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()
