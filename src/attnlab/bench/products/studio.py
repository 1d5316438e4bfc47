"""The response times of the studio.

start     seconds from `attnlab studio` to the first page with its numbers, those of the worked example, in Chromium
edit      milliseconds from a changed cell to new numbers on screen, the median of many, in Chromium
crowd     the 95th percentile of the same for two browsers and thirty more visitors at once
memory    the most that the studio and its workers hold at once meanwhile

Visitors without a browser use the protocol of the websocket: each opens the page, waits until it can type, and then
changes a cell again and again. The time of an edit is that from the change to the new numbers.
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode

from attnlab.bench.findings import Bar, BenchListener, Figures, judge_values
from attnlab.bench.processes import TreePeak, open_chromium, open_page
from attnlab.bench.timing import percentile
from attnlab.errors import AttnlabError, import_extra
from attnlab.processes.machine import describe_machine

START = Bar("studio-start", "the studio", "seconds from its start to the first numbers", 3.0)
EDIT = Bar("studio-edit", "the playground", "ms from a changed cell to new numbers, median", 60.0)
CROWD = Bar("studio-crowd", "2 browsers and 30 more visitors", "seconds of an edit, 95th percentile", 0.6)
MEMORY = Bar("studio-memory", "the studio with its workers", "MB at most", 450.0)

_PATH = "/playground"
_PATIENCE = 120_000  # milliseconds
_PAUSE = 0.5  # seconds between two edits of a visitor
_ANSWER_SECONDS = 60.0  # seconds for any one answer
_RESULT = 'data-result="output"'
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

    def words(self) -> str:
        return "Each figure from this one run, in Chromium."


def bench_studio(listener: BenchListener, *, smoke: bool = False) -> StudioBench:
    """Start a studio on an empty folder, and visit it."""
    edits, crowd_edits, visitors = (3, 2, 3) if smoke else (_EDITS, _CROWD_EDITS, _VISITORS)
    with tempfile.TemporaryDirectory(prefix="attnlab-studio-") as folder, open_chromium() as browser:
        listener.step("the start", 0, 3)
        begin = time.perf_counter()
        with _studio(Path(folder)) as (process, address):
            _visit(browser, address).close()
            start = time.perf_counter() - begin
            page = _visit(browser, _playground(address))
            with TreePeak(process.pid, every=1.0) as peak:
                listener.step("edits alone", 1, 3)
                page.evaluate(_TYPE, 3)  # to warm up
                alone = page.evaluate(_TYPE, edits)
                listener.step("edits in a crowd", 2, 3)
                crowd = _crowd(browser, address, page, visitors, crowd_edits)
    figures = {
        "seconds to the first numbers": start,
        "ms of an edit, median": statistics.median(alone),
        "seconds of an edit in a crowd, 95th percentile": percentile(crowd, 0.95),
        "MB at most": peak.bytes / 1e6,
    }
    bars = judge_values("studio", dict(zip((START, EDIT, CROWD, MEMORY), figures.values(), strict=True)))
    return StudioBench(describe_machine(), 1, (), bars, figures)


def _crowd(browser: Any, address: str, page: Any, visitors: int, edits: int) -> list[float]:
    """Seconds of all edits of some visitors without a browser, and of two with one, at the same time."""
    others = [page, *(_visit(browser, _playground(address)) for _ in range(_BROWSERS - 1))]
    found: list[float] = []
    with ThreadPoolExecutor(1) as pool:
        crowd = pool.submit(lambda: asyncio.run(edit_at_once(Door.open(address), visitors, edits)))
        while not crowd.done():
            for one in others:
                found += [taken / 1000 for taken in one.evaluate(_TYPE, 1)]
    if problem := crowd.exception():
        raise AttnlabError(f"a visitor was let down: {problem}") from problem
    return found + crowd.result()


def _playground(address: str) -> str:
    return address.replace("/?", f"{_PATH}?")


def _visit(browser: Any, address: str) -> Any:
    page = open_page(browser)
    page.goto(address)
    page.wait_for_selector(_READY, timeout=_PATIENCE)
    return page


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


@dataclass(frozen=True)
class Door:
    """Where the studio is, and the cookie that opens it."""

    base: str
    cookie: str

    @classmethod
    def open(cls, address: str) -> Door:
        """Exchange the token of the printed address for the cookie."""
        with urllib.request.urlopen(address, timeout=_ANSWER_SECONDS) as reply:
            cookie = reply.headers["set-cookie"].split(";")[0]
        return cls(address.split("/?")[0], cookie)

    def page(self) -> str:
        request = urllib.request.Request(self.base + _PATH, headers={"Cookie": self.cookie})
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as reply:
            text: str = reply.read().decode()
        return text


async def edit_at_once(door: Door, visitors: int, edits: int) -> list[float]:
    """The seconds of every edit of so many visitors at the same time."""
    found = await asyncio.gather(*(_edit_often(door, edits) for _ in range(visitors)))
    return [seconds for one in found for seconds in one]


async def _edit_often(door: Door, edits: int) -> list[float]:
    websockets = import_extra("websockets.asyncio.client", "studio")
    page = await asyncio.to_thread(door.page)
    match = re.search(r"query: (\{.*?\}),\n", page)  # as Python writes it, which the page makes JavaScript of
    if match is None:
        raise AttnlabError("the page does not say how to connect", hint="this bench knows NiceGUI 3")
    query = {
        **ast.literal_eval(match[1]),
        "document_id": str(uuid.uuid4()),
        "tab_id": str(uuid.uuid4()),
        "old_tab_id": "",
    }
    words = {name: str(value).lower() if isinstance(value, bool) else value for name, value in query.items()}
    address = f"{door.base.replace('http', 'ws')}/_nicegui_ws/socket.io/?{urlencode(words)}&EIO=4&transport=websocket"
    headers = {"Cookie": door.cookie}
    async with websockets.connect(address, origin=door.base, additional_headers=headers, max_size=None) as socket:
        visitor = _Visitor(socket, query["client_id"])
        await visitor.arrive()
        return [await visitor.edit(number) for number in range(edits)]


class _Visitor:
    def __init__(self, socket: Any, name: str) -> None:
        self._socket, self._name = socket, name
        self._listener = ""

    async def arrive(self) -> None:
        """Wait until cells can be typed into and the first numbers are there."""
        seen = False
        while not (self._listener and seen):
            update = await self._update()
            seen = seen or _RESULT in json.dumps(update).replace('\\"', '"')
            for event in (update.get("0") or {}).get("events", []):
                if event["type"] == "cell":
                    self._listener = event["listener_id"]

    async def edit(self, number: int) -> float:
        """Change a cell; the seconds until the output has changed."""
        await asyncio.sleep(_PAUSE)
        typed = json.dumps(["x 0 0", str(number + 3)])
        event = {"id": 0, "client_id": self._name, "listener_id": self._listener, "args": [typed]}
        begin = time.perf_counter()
        await self._socket.send("42" + json.dumps(["event", event]))
        while _RESULT not in json.dumps(await self._update()).replace('\\"', '"'):
            pass
        return time.perf_counter() - begin

    async def _update(self) -> Mapping[str, Any]:
        """The next change of the page; what else is said is answered as a browser does."""
        while True:
            text = await asyncio.wait_for(self._socket.recv(), _ANSWER_SECONDS)
            if text.startswith("0"):
                await self._socket.send("40")
            elif text == "2":
                await self._socket.send("3")
            elif text.startswith("42"):
                kind, content, *_ = json.loads(text[2:])
                if kind == "update":
                    found: Mapping[str, Any] = content
                    return found
