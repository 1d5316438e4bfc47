"""Kills while pages are used and a comparison trains: no run is lost, and pages say what happened and work again.

`make studio-kills` kills the studio, its workers, their template and the comparison 50 times in a random order; the
smoke form kills the template, a worker and the studio once each.

    ATTNLAB_KILLS=10 ATTNLAB_KILLS_SEED=1 pytest -m slow tests/studio/test_kills.py      a shorter and another one
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from attnlab.runs.ledger import find_paths
from attnlab.storage.disk import is_alive
from attnlab.storage.locks import find_holder
from attnlab.studio.folders import opaque_id
from attnlab.studio.studio import command_of
from attnlab.verification import verify
from support.requests import small
from support.studio import PATIENCE, READY, StudioServer
from support.training import children_of, wait_until

KILLS = int(os.environ.get("ATTNLAB_KILLS", "50"))
SEED = int(os.environ.get("ATTNLAB_KILLS_SEED", "0"))
LONGEST = 7_200_000  # milliseconds that what is left of the comparison may take
DIED = "a worker process of the studio, ended unexpectedly. It was started again, and this page continues."


class Use:
    """A studio with a tab for each kind of worker, and a comparison that trains beside it."""

    def __init__(self, browser: Any, folder: Path, *, steps: int, seeds: int, chosen: random.Random) -> None:
        self.folder, self.chosen = folder, chosen
        self.request = small(steps=steps, seeds=seeds)
        self.comparison = folder / "runs" / self.request.folder
        words = command_of(self.request, folder / "runs")
        self._training = subprocess.Popen(
            [sys.executable, "-m", "attnlab", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._environment(),
            start_new_session=True,
        )
        self.server = StudioServer(folder / "runs", folder / "cache")
        self.context = browser.new_context(viewport={"width": 1280, "height": 900})
        self.context.set_default_timeout(PATIENCE)
        self.tabs: dict[str, Any] = {}
        self.workers: dict[str, int] = {}  # process numbers
        self._enter()
        self.uses: dict[str, Callable[[], None]] = {"desk": self.edit, "stage": self.exhibit, "bench": self.plan}
        self.known: set[Path] = set()

    @cached_property
    def watching(self) -> Any:
        """The page of the comparison, as soon as it trains."""
        wait_until(lambda: bool(find_paths(self.comparison)), 240)
        return self._open(f"/compare/{opaque_id(self.request.folder)}")

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "ATTNLAB_CACHE": str(self.folder / "cache"), "OMP_NUM_THREADS": "1"}

    def _enter(self) -> None:
        """Open the printed address, as a user does; all tabs share what it is exchanged for."""
        page = self.context.new_page()
        page.goto(self.server.url)
        page.wait_for_selector(READY, state="attached")
        page.close()
        self.workers = {}
        self._note_worker("desk")  # which the first page needs, and no other

    def _open(self, path: str) -> Any:
        page = self.context.new_page()
        page.goto(self.server.base + path)
        page.wait_for_selector(READY, state="attached")
        return page

    def _tab(self, name: str, path: str) -> Any:
        if name not in self.tabs:
            self.tabs[name] = self._open(path)
        return self.tabs[name]

    def _close_tabs(self, *names: str) -> None:
        for name in names:
            if name in self.tabs:
                self.tabs.pop(name).close()

    # What a visitor does; each returns when the answer is on the page

    def edit(self) -> None:
        page = self._tab("desk", "/playground")
        shown = "() => document.querySelector('[data-result=output]').innerText"
        before = page.evaluate(shown)
        page.get_by_label("X, row 1, column 1").fill(str(self.chosen.uniform(-9, 9))[:6])
        self._strike()
        page.wait_for_function(f"(before) => ({shown})() !== before", arg=before)

    def exhibit(self) -> None:
        page = self._tab("stage", "/exhibits/masking")
        field = page.locator("label.field:has(> .label:text-is('tokens')) input")
        tokens = 3 + (int(field.input_value()) - 2) % 5  # another number from 3 to 7
        field.fill(str(tokens))
        field.press("Tab")
        self._strike()
        page.wait_for_function(f"() => decodeURIComponent(location.search).includes('tokens={tokens}')")
        page.get_by_text("checks hold").first.wait_for()

    def plan(self) -> None:
        page = self._tab("bench", "/compare")
        planned = "() => document.body.innerText.match(/for [0-9]+ runs/)?.[0] ?? null"
        page.wait_for_function(planned)
        before = page.evaluate(planned)
        field = page.locator("label.field:has(> .label:text-is('seeds')) input")
        field.fill(str(3 + (int(field.input_value()) - 2) % 6))
        field.press("Tab")
        self._strike()
        page.wait_for_function(f"(before) => ![null, before].includes(({planned})())", arg=before)

    # Kills

    _victim: int | None = None

    def _strike(self) -> None:
        """Kill the process that is to be killed now, a moment after it was asked."""
        if self._victim is not None:
            time.sleep(self.chosen.uniform(0, 0.3))
            os.kill(self._victim, signal.SIGKILL)
            self._victim = None

    def kill_worker(self, kind: str) -> None:
        self._close_tabs(kind)  # an earlier notice must not count
        self.uses[kind]()
        self._note_worker(kind)
        self._kill_noted(kind)

    def _kill_noted(self, kind: str) -> None:
        use = self.uses[kind]
        self._victim = self.workers[kind]
        use()
        use()  # one that died after its answer is missed by the next question
        self.tabs[kind].get_by_text(DIED).wait_for()
        assert self.tabs[kind].locator(".message").inner_text() == "", "no visitor was refused"
        self._note_worker(kind)

    def _note_worker(self, kind: str) -> None:
        """Find the worker that has answered: the one that is none of the other kinds."""
        if kind in self.workers and is_alive(self.workers[kind]):  # perhaps a copy of a template that was killed
            return
        others = {pid for name, pid in self.workers.items() if name != kind}

        def alive() -> list[int]:
            return [pid for one in self._templates() for pid in children_of(one) if pid not in others]

        wait_until(lambda: bool(alive()), 60)  # the first copy waits until its template stands
        found = alive()
        assert len(found) == 1, (kind, found, self.workers)
        self.workers[kind] = found[0]

    def _templates(self) -> list[int]:
        """Return the process that all workers are copies of, if it lives."""
        return [pid for pid in children_of(self.server.pid) if _is_worker(pid)]

    def kill_template(self) -> None:
        """Kill what workers are copies of: those that live go on, and the next one needs a new template."""
        self._close_tabs("desk")
        self.edit()
        self._note_worker("desk")
        for one in self._templates():
            os.kill(one, signal.SIGKILL)
        self.edit()
        self._kill_noted("desk")

    def kill_server(self) -> None:
        port, page = self.server.port, self.watching
        self._close_tabs(*self.tabs)
        self.server.kill()
        page.get_by_text("The studio has ended, and this page shows its last state").wait_for()
        self.server = StudioServer(self.folder / "runs", self.folder / "cache", port)
        page.get_by_text("The studio was restarted, and this page shows the state before").wait_for()
        self._enter()
        page.wait_for_function("() => !document.body.classList.contains('stale')")
        page.get_by_text("It is running").or_(page.get_by_text("It has ended")).first.wait_for()

    def kill_comparison(self) -> None:
        page, holder = self.watching, find_holder(self.comparison)
        if holder is None or holder.pid is None:  # it has ended: something else is killed in its place
            self.kill_worker("desk")
            return
        os.kill(holder.pid, signal.SIGKILL)
        page.get_by_text("It was stopped. Nothing is lost").wait_for()
        page.get_by_role("button", name="Resume").click()
        page.get_by_text("It is running").or_(page.get_by_text("It has ended")).first.wait_for()

    def kill(self, kind: str) -> None:
        kills = {"server": self.kill_server, "template": self.kill_template, "comparison": self.kill_comparison}
        kills.get(kind, lambda: self.kill_worker(kind))()
        found = {*find_paths(self.comparison)}
        assert self.known <= found, "a run has vanished"
        self.known = found

    def end(self, segments: int) -> None:
        """Wait for the verdict, and verify every run and figure of the comparison."""
        self.watching.get_by_text("It has ended").wait_for(timeout=LONGEST)
        checked = verify(self.comparison, segments=segments, cache=self.folder / "cache", chosen=self.chosen)
        assert checked.exit_code == 0, list(checked.checks)

    def close(self) -> None:
        self.context.close()
        self.server.kill()
        for process in (self._training.pid, *([holder.pid] if (holder := find_holder(self.comparison)) else [])):
            _kill_tree(process)
        self._training.wait()


def _is_worker(process: int) -> bool:
    return b"attnlab.studio.work" in Path(f"/proc/{process}/cmdline").read_bytes()


def _kill_tree(process: int | None) -> None:
    if process is not None and Path(f"/proc/{process}").exists():
        for one in (*children_of(process), process):
            os.kill(one, signal.SIGKILL)


def kill_often(browser: Any, folder: Path, kinds: list[str], *, steps: int, seeds: int, segments: int) -> None:
    use = Use(browser, folder, steps=steps, seeds=seeds, chosen=random.Random(SEED))
    try:
        for number, kind in enumerate(kinds):
            print(f"{number + 1} of {len(kinds)}: {kind}")
            use.kill(kind)
        use.end(segments)
    finally:
        use.close()


def test_a_worker_its_template_and_the_studio_are_killed(browser: Any, tmp_path: Path) -> None:
    kill_often(browser, tmp_path, ["template", "server"], steps=20, seeds=2, segments=0)


@pytest.mark.slow
def test_fifty_kills(browser: Any, tmp_path: Path) -> None:
    chosen = random.Random(SEED)
    kinds = [chosen.choice(["desk", "bench", "stage", "template", "server", "comparison"]) for _ in range(KILLS)]
    kill_often(browser, tmp_path, kinds, steps=10_000, seeds=4, segments=5)
