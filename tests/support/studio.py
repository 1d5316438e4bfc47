"""A studio in a process of its own, and a browser that visits it and notes all that goes wrong."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

READY = ".content[aria-busy=false]"
PATIENCE = 240_000  # milliseconds, on a machine that has much else to do
FITS = "() => document.documentElement.scrollWidth <= innerWidth"


class StudioServer:
    """`attnlab studio` on a free port; it is killed in the end."""

    def __init__(self, runs: Path, cache: Path, port: int = 0) -> None:
        self.runs = runs
        words = [sys.executable, "-m", "attnlab", "studio", "--no-browser", "--port", str(port), "--json"]
        self._process = subprocess.Popen(
            [*words, "--runs", str(runs)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "ATTNLAB_CACHE": str(cache), "OMP_NUM_THREADS": "1"},
        )
        assert self._process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = self._process.stdout.readline()
            assert line, self._process.communicate()[1]
            text += line
        self.url: str = json.loads(text)["url"]
        place = urlsplit(self.url)
        self.host = place.netloc
        self.base = f"http://{self.host}"
        self.token = place.query.removeprefix("token=")
        self._cookie = ""

    @property
    def cookie(self) -> str:
        """What the token is exchanged for."""
        if not self._cookie:
            status, headers, _ = self.ask("GET", f"/?token={self.token}", cookie=False)
            assert status == 200
            self._cookie = headers["set-cookie"].split(";")[0]
        return self._cookie

    def ask(
        self, method: str, path: str, *, cookie: bool = True, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """One plain request."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        given = {"Host": self.host, **({"Cookie": self.cookie} if cookie else {})}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                connection.putheader(name, value)
            if body is not None and "Content-Length" not in given:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            reply = connection.getresponse()
            return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()
        finally:
            connection.close()

    def shake_hands(self, **headers: str) -> int:
        """The status that a websocket's handshake gets."""
        query = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
        usual = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
        cookie = headers.pop("cookie", "yes") == "yes"
        return self._status(query, usual | headers, cookie=cookie)

    def _status(self, path: str, headers: dict[str, str], *, cookie: bool) -> int:
        connection = http.client.HTTPConnection(self.host, timeout=60)
        given = {"Host": self.host, **({"Cookie": self.cookie} if cookie else {}), **headers}
        try:
            connection.putrequest("GET", path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                connection.putheader(name, value)
            connection.endheaders()
            return connection.getresponse().status
        finally:
            connection.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def port(self) -> int:
        return int(self.host.rpartition(":")[2])

    def kill(self) -> str:
        """End it at once, and return what it said on stderr."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        return self._process.communicate()[1]

    def end(self) -> str:
        """Ask it to end, as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)
        try:
            return self._process.communicate(timeout=60)[1]
        except subprocess.TimeoutExpired:
            self.kill()
            raise


class Visit:
    """A page of the studio, with all that went wrong on it."""

    def __init__(
        self, browser: Any, server: StudioServer, path: str = "/", *, scheme: str = "light", width: int = 1280
    ) -> None:
        self.server = server
        self.problems: list[str] = []
        self.page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        self.page.on("request", self._request)
        if path == "/":  # as one comes in
            self.page.goto(server.url)
            self.page.wait_for_url(re.compile(r"^[^?]*$"))
            self.page.wait_for_selector(READY, state="attached")
            return
        name, _, value = server.cookie.partition("=")
        self.page.context.add_cookies([{"name": name, "value": value, "url": server.base}])
        self.open(path)

    def open(self, path: str) -> None:
        self.page.goto(self.server.base + path)
        self.page.wait_for_selector(READY, state="attached")

    def _console(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.problems.append(f"{message.type}: {message.text}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.server.base, f"ws://{self.server.host}", "data:", "blob:")):
            self.problems.append(f"request: {request.url}")

    def field(self, label: str) -> Any:
        """The control with this label."""
        return self.page.locator(f"label.field:has(> .label:text-is('{label}')) :is(input, select, textarea)")

    def type(self, label: str, text: str) -> None:
        self.field(label).fill(text)
        self.field(label).press("Tab")

    def see(self, words: str) -> None:
        """Wait until these words are on the page."""
        self.page.get_by_text(words).first.wait_for()

    def fits(self) -> bool:
        """Whether nothing is wider than the window, once charts have taken their new size."""
        for _ in range(100):
            if self.page.evaluate(FITS):
                return True
            self.page.wait_for_timeout(100)
        return False

    def finish(self) -> None:
        assert not self.problems, "\n".join(self.problems)
        self.page.close()
