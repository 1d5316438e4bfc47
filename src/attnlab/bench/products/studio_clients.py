"""Visitors of the playground without a browser: they speak the websocket's own language, and time every edit.

Each opens the page, waits until it can type, and then changes a cell again and again. The time of an edit is that from
the change to the new numbers.
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
import time
import urllib.request
import uuid
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from attnlab.errors import AttnlabError
from attnlab.experiments.launching.extras import import_extra

_PAUSE = 0.5  # seconds between two edits of a visitor
_PATIENCE = 60.0  # seconds for any one answer
_RESULT = 'data-result="output"'


@dataclass(frozen=True)
class Door:
    """Where the studio is, and the cookie that opens it."""

    base: str
    cookie: str

    @classmethod
    def open(cls, address: str) -> Door:
        """Exchange the token of the printed address for the cookie."""
        with urllib.request.urlopen(address, timeout=_PATIENCE) as reply:
            cookie = reply.headers["set-cookie"].split(";")[0]
        return cls(address.split("/?")[0], cookie)

    def page(self) -> str:
        request = urllib.request.Request(self.base + "/", headers={"Cookie": self.cookie})
        with urllib.request.urlopen(request, timeout=_PATIENCE) as reply:
            text: str = reply.read().decode()
        return text


async def edit_at_once(door: Door, visitors: int, edits: int) -> list[float]:
    """The seconds of every edit of so many visitors at the same time."""
    found = await asyncio.gather(*(_visit(door, edits) for _ in range(visitors)))
    return [seconds for one in found for seconds in one]


async def _visit(door: Door, edits: int) -> list[float]:
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

    async def _update(self) -> dict[str, Any]:
        """The next change of the page; what else is said is answered as a browser does."""
        while True:
            text = await asyncio.wait_for(self._socket.recv(), _PATIENCE)
            if text.startswith("0"):
                await self._socket.send("40")
            elif text == "2":
                await self._socket.send("3")
            elif text.startswith("42"):
                kind, content, *_ = json.loads(text[2:])
                if kind == "update":
                    found: dict[str, Any] = content
                    return found
