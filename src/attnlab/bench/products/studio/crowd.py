"""Many visitors at once, in the playground.

Visitors without a browser speak the websocket protocol: each opens the page, waits until it can type, and then changes
a cell repeatedly. The time of an edit is from the change to the new numbers.
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
import time
import urllib.request
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from attnlab.bench.products.studio.serving import at, visit
from attnlab.errors import AttnlabError, import_extra

PLAYGROUND = "/playground"
_PAUSE = 0.5  # seconds between two edits of a visitor
_ANSWER_SECONDS = 60.0  # seconds for any one answer
_RESULT = 'data-result="output"'
_BROWSERS = 2
# Type into a cell `times` times; return the milliseconds until the output on screen changed, for each.
TYPE = """async (times) => {
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


def edit_in_a_crowd(browser: Any, address: str, page: Any, visitors: int, edits: int) -> list[float]:
    """Return the seconds of all edits of some visitors without a browser, and of two with one, at the same time."""
    more = [visit(browser, at(address, PLAYGROUND)) for _ in range(_BROWSERS - 1)]
    found: list[float] = []
    with ThreadPoolExecutor(1) as pool:
        crowd = pool.submit(lambda: asyncio.run(edit_at_once(Door.open(address), visitors, edits)))
        while not crowd.done():
            for one in (page, *more):
                found += [taken / 1000 for taken in one.evaluate(TYPE, 1)]
    for one in more:
        one.close()
    if problem := crowd.exception():
        raise AttnlabError(f"a visitor was let down: {problem}") from problem
    return found + crowd.result()


@dataclass(frozen=True)
class Door:
    """The address of the studio, and the cookie that gives access."""

    base: str
    cookie: str

    @classmethod
    def open(cls, address: str) -> Door:
        """Exchange the token of the printed address for the cookie."""
        with urllib.request.urlopen(address, timeout=_ANSWER_SECONDS) as reply:
            cookie = reply.headers["set-cookie"].split(";")[0]
        return cls(address.split("/?")[0], cookie)

    def page(self) -> str:
        request = urllib.request.Request(self.base + PLAYGROUND, headers={"Cookie": self.cookie})
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as reply:
            text: str = reply.read().decode()
        return text


async def edit_at_once(door: Door, visitors: int, edits: int) -> list[float]:
    """Let so many visitors edit at the same time; return the seconds of every edit."""
    found = await asyncio.gather(*(_edit_often(door, edits) for _ in range(visitors)))
    return [seconds for one in found for seconds in one]


async def _edit_often(door: Door, edits: int) -> list[float]:
    websockets = import_extra("websockets.asyncio.client", "studio")
    page = await asyncio.to_thread(door.page)
    match = re.search(r"query: (\{.*?\}),\n", page)  # in Python's notation, which the page converts to JavaScript
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
        """Change a cell; return the seconds until the output has changed."""
        await asyncio.sleep(_PAUSE)
        typed = json.dumps(["x 0 0", str(number + 3)])
        event = {"id": 0, "client_id": self._name, "listener_id": self._listener, "args": [typed]}
        begin = time.perf_counter()
        await self._socket.send("42" + json.dumps(["event", event]))
        while _RESULT not in json.dumps(await self._update()).replace('\\"', '"'):
            pass
        return time.perf_counter() - begin

    async def _update(self) -> Mapping[str, Any]:
        """Return the next change of the page; answer other messages as a browser does."""
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
