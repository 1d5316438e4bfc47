"""Access control of the studio: one gate in front of every route and of the websocket.

    Host     must be an address that the studio listens on, which prevents DNS rebinding
    Origin   if the browser sends one, must be the studio's own; requests that change something must have one
    key      the token of the printed address is exchanged for a cookie that scripts cannot read and that other sites
             cannot send; nothing else gives access
    size     limits of a request's body, its address and its headers

Every response has a policy that lets the page load from and connect to its own server only.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from html import escape
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

TOKEN = "token"
MOST_BODY = 1_000_000  # bytes
MOST_ADDRESS = 16_000  # characters of path and query
MOST_HEADERS = 32_000  # bytes of all headers
_METHODS = frozenset({"GET", "HEAD", "POST"})
_HARMLESS = frozenset({"GET", "HEAD"})
_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)


@dataclass(frozen=True)
class Access:
    """The addresses at which the studio can be reached, and the secrets that give access."""

    port: int
    hosts: frozenset[str]  # names and addresses, without the port
    any_address: bool = False  # also every literal IP address: DNS can point names anywhere, addresses are safe
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    key: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def cookie(self) -> str:
        """Return the cookie's name, with the port: browsers do not tell the ports of a machine apart."""
        return f"attnlab-studio-{self.port}"

    def knows(self, host: str) -> bool:
        """Return whether a Host header names this studio."""
        name, port = _split(host.lower())
        if port != (str(self.port) if port or self.port != 80 else ""):
            return False
        return name in self.hosts or (self.any_address and _is_address(name))


def _split(host: str) -> tuple[str, str]:
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        return name, rest.removeprefix(":")
    name, _, port = host.partition(":")
    return name, port


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class RefusedError(Exception):
    """A request that is refused."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Guard:
    """The gate, as ASGI middleware: requests that are not refused are passed on to `app`."""

    def __init__(self, app: App, access: Access) -> None:
        self.app, self._access = app, access

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _websocket(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        try:
            headers = _read(scope["headers"])
            self._check_place(headers, origin_needed=True)
            self._check_address(scope)
            self._check_key(headers)
        except RefusedError:
            await receive()  # the request to connect
            await send({"type": "websocket.close", "code": 1008})
            return
        await self.app(scope, receive, send)

    async def _http(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        answer = _Answer(send, self._policy)
        try:
            if scope["method"] not in _METHODS:
                raise RefusedError(405, f"{scope['method']} is not among {', '.join(sorted(_METHODS))}")
            headers = _read(scope["headers"])
            entering = scope["method"] == "GET" and self._token_of(scope) is not None
            self._check_place(headers, origin_needed=scope["method"] not in _HARMLESS, entering=entering)
            self._check_address(scope)
            if entering:
                await self._enter(scope, answer)
                return
            self._check_key(headers)
            self._check_length(headers)
            await self.app(scope, _counted(receive), answer.send)
        except RefusedError as refused:
            if not answer.begun:
                await _refuse(refused, answer)

    def _check_place(self, headers: dict[str, list[str]], *, origin_needed: bool, entering: bool = False) -> None:
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self._access.knows(hosts[0]):
            raise RefusedError(421, "the Host of this request is not the studio's")
        origins = headers.get("origin", [])
        if origin_needed and not origins:
            raise RefusedError(403, "this request does not say which Origin it comes from")
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
            raise RefusedError(403, "this request comes from another Origin")
        # A link to the printed address may be followed from any site; no other address of the studio.
        if not entering and any(site not in {"same-origin", "none"} for site in headers.get("sec-fetch-site", [])):
            raise RefusedError(403, "this request comes from another site")

    def _check_address(self, scope: MutableMapping[str, Any]) -> None:
        if len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"]) > MOST_ADDRESS:
            raise RefusedError(414, f"an address has at most {MOST_ADDRESS} letters")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADERS:
            raise RefusedError(431, f"the headers of a request have at most {MOST_HEADERS} bytes")

    def _check_length(self, headers: dict[str, list[str]]) -> None:
        for length in headers.get("content-length", []):
            if not length.isdecimal() or int(length) > MOST_BODY:
                raise RefusedError(413, f"a request has at most {MOST_BODY} bytes")

    def _check_key(self, headers: dict[str, list[str]]) -> None:
        for line in headers.get("cookie", []):
            for pair in line.split(";"):
                name, _, value = pair.strip().partition("=")
                if name == self._access.cookie and _same(value, self._access.key):
                    return
        raise RefusedError(401, "open the address that `attnlab studio` printed: it holds the key")

    def _token_of(self, scope: MutableMapping[str, Any]) -> str | None:
        return dict(_pairs(scope)).get(TOKEN)

    async def _enter(self, scope: MutableMapping[str, Any], answer: _Answer) -> None:
        """Exchange the token for the cookie, and continue to the same address without the token.

        The response is a page that refreshes itself, not a redirect: a browser that came from another site would follow
        a redirect without the cookie.
        """
        if not _same(self._token_of(scope) or "", self._access.token):
            raise RefusedError(401, "this token is not the one that `attnlab studio` printed")
        rest = urlencode([pair for pair in _pairs(scope) if pair[0] != TOKEN])
        path = "/" + quote(scope["path"].lstrip("/\\"))  # a browser drops tabs, and would read // as another host
        target = escape(path + (f"?{rest}" if rest else ""), quote=True)
        body = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={target}">'
        body += f'<title>attnlab studio</title><p><a href="{target}">Continue to the studio</a></p>'
        cookie = f"{self._access.cookie}={self._access.key}; Path=/; HttpOnly; SameSite=Strict"
        await answer.whole(200, body, [(b"set-cookie", cookie.encode())])

    def _policy(self, nonce: str) -> bytes:
        return (
            f"default-src 'none'; script-src 'self' 'nonce-{nonce}' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
            "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; frame-src 'self'; "
            "base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
        ).encode()


class _Answer:
    """The response, with the headers that every response has. Scripts of a page are marked with a nonce."""

    def __init__(self, send: Send, policy: Callable[[str], bytes]) -> None:
        self._send, self._policy = send, policy
        self.begun = False
        self._page: Message | None = None  # the start of a page, held back until the page is complete
        self._parts: list[bytes] = []
        self._nonce = ""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            await self._start(message)
        elif message["type"] == "http.response.body" and self._page is not None:
            self._parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                await self._finish()
        else:
            await self._send(message)

    async def whole(self, status: int, body: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Send a small page of the gate's own."""
        head: Headers = [(b"content-type", b"text/html; charset=utf-8"), (b"cache-control", b"no-store"), *headers]
        await self.send({"type": "http.response.start", "status": status, "headers": head})
        await self.send({"type": "http.response.body", "body": body.encode()})

    async def _start(self, message: Message) -> None:
        headers: Headers = list(message.get("headers", []))
        present = {name.lower(): value for name, value in headers}
        headers += [pair for pair in _ALWAYS if pair[0] not in present]
        if b"content-security-policy" not in present:
            self._nonce = secrets.token_urlsafe(16)
            headers.append((b"content-security-policy", self._policy(self._nonce)))
        message = {**message, "headers": headers}
        if self._nonce and present.get(b"content-type", b"").startswith(b"text/html"):
            self._page = message
        else:
            await self._send(message)

    async def _finish(self) -> None:
        assert self._page is not None
        body = b"".join(self._parts).replace(b"<script", f'<script nonce="{self._nonce}"'.encode())
        headers = [pair for pair in self._page["headers"] if pair[0].lower() != b"content-length"]
        headers.append((b"content-length", str(len(body)).encode()))
        await self._send({**self._page, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})
        self._page = None


async def _refuse(refused: RefusedError, answer: _Answer) -> None:
    words = escape(refused.reason).replace("`attnlab studio`", "<code>attnlab studio</code>")
    style = "font: 1rem/1.5 system-ui, sans-serif; margin: 3rem auto; max-width: 36rem; padding: 0 1rem"
    body = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>attnlab studio</title><body style="{style}">'
    await answer.whole(refused.status, f"{body}<h1>Not let in</h1><p>{words[:1].upper()}{words[1:]}.</p></body></html>")


def _counted(receive: Receive) -> Receive:
    """Return a `receive` that refuses a body that is too long, even if its length was not declared."""
    taken = 0

    async def count() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MOST_BODY:
            raise RefusedError(413, f"a request has at most {MOST_BODY} bytes")
        return message

    return count


def _read(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _pairs(scope: MutableMapping[str, Any]) -> list[tuple[str, str]]:
    try:
        return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=100)
    except ValueError:
        return []


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())
