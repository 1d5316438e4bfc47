"""The gate: who is let in, with what, and what goes out."""

from __future__ import annotations

import asyncio
import itertools
import re
from typing import Any

import pytest

from attnlab.studio.guard import MOST_ADDRESS, MOST_BODY, MOST_HEADERS, Access, Guard

PORT = 8421
ACCESS = Access(port=PORT, hosts=frozenset({"127.0.0.1", "localhost", "::1"}))
HOST = f"127.0.0.1:{PORT}"
KEY = {"cookie": f"{ACCESS.cookie}={ACCESS.key}"}
OURS = {"origin": f"http://{HOST}"}
PAGE = b"<html><script>1</script><script type=module>2</script></html>"
PATHS = (
    "/",
    "/compare",
    "/compare/abc",
    "/scale",
    "/scale/abc",
    "/facts",
    "/tables/x",
    "/heads",
    "/pages/x",
    "/static/studio.css",
    "/_nicegui_ws/socket.io/",
    "/none",
)


class Inner:
    """What stands behind the gate; it notes what reaches it."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self.body = b""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.reached.append(scope["type"])
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            return
        more = True
        while more:
            message = await receive()
            self.body += message.get("body", b"")
            more = message.get("more_body", False)
        kind = b"text/plain" if scope["path"].startswith("/static") else b"text/html; charset=utf-8"
        headers = [(b"content-type", kind), (b"content-length", str(len(PAGE)).encode())]
        if scope["path"].startswith("/pages"):
            headers.append((b"content-security-policy", b"sandbox"))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": PAGE[:10], "more_body": True})
        await send({"type": "http.response.body", "body": PAGE[10:]})


class Reply:
    def __init__(self, sent: list[dict[str, Any]], inner: Inner) -> None:
        self.sent, self.inner = sent, inner
        start = next((one for one in sent if one["type"] == "http.response.start"), {"status": 0, "headers": []})
        self.status = start["status"]
        self.headers = {name.decode(): value.decode() for name, value in start["headers"]}
        self.body = b"".join(one.get("body", b"") for one in sent if one["type"] == "http.response.body")


def ask(
    path: str = "/",
    *,
    method: str = "GET",
    kind: str = "http",
    query: str = "",
    body: tuple[bytes, ...] = (b"",),
    access: Access = ACCESS,
    headers: dict[str, str] | None = None,
    more: tuple[tuple[str, str], ...] = (),
) -> Reply:
    given = {"host": HOST, **(headers or {})}
    scope = {
        "type": kind,
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in (*given.items(), *more) if value],
    }
    parts = [
        {"type": "http.request", "body": part, "more_body": number + 1 < len(body)} for number, part in enumerate(body)
    ]
    waiting = iter([{"type": "websocket.connect"}] if kind == "websocket" else parts)
    sent: list[dict[str, Any]] = []
    inner = Inner()

    async def receive() -> dict[str, Any]:
        return next(waiting)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(Guard(inner, access)(scope, receive, send))
    return Reply(sent, inner)


def test_the_key_opens_every_path() -> None:
    for path in PATHS:
        assert ask(path, headers=KEY).status == 200
        assert ask(path, method="POST", headers={**KEY, **OURS}).status == 200
    reply = ask(kind="websocket", headers={**KEY, **OURS})
    assert reply.sent == [{"type": "websocket.accept"}]


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (421, {"host": "evil.example", **KEY, **OURS}),
        (421, {"host": "127.0.0.1", **KEY, **OURS}),
        (421, {"host": "127.0.0.1:1", **KEY, **OURS}),
        (421, {"host": f"127.0.0.1.evil.example:{PORT}", **KEY, **OURS}),
        (421, {"host": f"user@127.0.0.1:{PORT}", **KEY, **OURS}),
        (421, {"host": "", **KEY, **OURS}),
        (403, {"origin": "http://evil.example", **KEY}),
        (403, {"origin": "null", **KEY}),
        (403, {"origin": f"https://{HOST}", **KEY}),
        (403, {"origin": f"http://localhost:{PORT}", **KEY}),  # ours too, but not that of this request
        (403, {"sec-fetch-site": "cross-site", **KEY, **OURS}),
        (403, {"sec-fetch-site": "same-site", **KEY, **OURS}),
        (401, OURS),
        (401, {**OURS, "cookie": f"{ACCESS.cookie}=wrong"}),
        (401, {**OURS, "cookie": f"{ACCESS.cookie}="}),
        (401, {**OURS, "cookie": f"other={ACCESS.key}"}),
        (401, {**OURS, "cookie": f"{ACCESS.cookie}={ACCESS.token}"}),
    ],
)
def test_everything_else_is_refused(status: int, headers: dict[str, str]) -> None:
    for path, method in itertools.product(PATHS, ("GET", "HEAD", "POST")):
        reply = ask(path, method=method, headers=headers)
        assert (reply.status, reply.inner.reached) == (status, []), f"{method} {path}"
    for path in PATHS:
        websocket = ask(path, kind="websocket", headers=headers)
        assert websocket.inner.reached == []
        assert websocket.sent == [{"type": "websocket.close", "code": 1008}]


def test_what_changes_something_says_where_it_comes_from() -> None:
    assert ask(method="POST", headers=KEY).status == 403
    assert ask(kind="websocket", headers=KEY).inner.reached == []


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_other_methods_are_refused(method: str) -> None:
    assert ask(method=method, headers={**KEY, **OURS}).status == 405


def test_two_hosts_are_refused() -> None:
    assert ask(headers=KEY, more=(("host", "evil.example"),)).status == 421


def test_the_token_is_exchanged_for_a_cookie() -> None:
    reply = ask("/compare", query=f"token={ACCESS.token}&s=a%26b", headers={"sec-fetch-site": "cross-site"})
    assert reply.status == 200
    assert reply.headers["set-cookie"] == f"{ACCESS.cookie}={ACCESS.key}; Path=/; HttpOnly; SameSite=Strict"
    assert b'content="0;url=/compare?s=a%26b"' in reply.body
    assert ACCESS.token.encode() not in reply.body
    assert reply.headers["cache-control"] == "no-store"
    assert reply.inner.reached == []


@pytest.mark.parametrize(
    "token",
    ["", "wrong", ACCESS.key, ACCESS.token[:-1], ACCESS.token + "a", "ä"],
    ids=["none", "a word", "the key", "shorter", "longer", "no ASCII"],  # the tokens themselves differ from run to run
)
def test_a_wrong_token_is_refused(token: str) -> None:
    reply = ask(query=f"token={token}", headers=KEY)  # whoever brings a token is judged by it
    assert reply.status == 401
    assert "set-cookie" not in reply.headers


def test_a_token_does_not_lead_elsewhere() -> None:
    reply = ask("//evil.example/", query=f"token={ACCESS.token}")
    assert re.search(rb'url=([^"]*)"', reply.body)[1] == b"/evil.example/"
    reply = ask('/"><script>', query=f"token={ACCESS.token}")
    assert b"<script" not in reply.body.replace(b"&lt;script", b"")


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"content-length": str(MOST_BODY + 1)}, (b"",)),
        ({"content-length": "-1"}, (b"",)),
        ({"content-length": "many"}, (b"",)),
        ({}, (b"x" * (MOST_BODY // 2), b"x" * (MOST_BODY // 2), b"x")),
    ],
)
def test_large_bodies_are_refused(headers: dict[str, str], body: tuple[bytes, ...]) -> None:
    assert ask(method="POST", headers={**KEY, **OURS, **headers}, body=body).status == 413


def test_a_body_that_fits_arrives_whole() -> None:
    reply = ask(method="POST", headers={**KEY, **OURS, "content-length": "6"}, body=(b"abc", b"def"))
    assert (reply.status, reply.inner.body) == (200, b"abcdef")


def test_long_addresses_are_refused() -> None:
    assert ask("/" + "a" * MOST_ADDRESS, headers=KEY).status == 414
    assert ask("/", query="s=" + "a" * MOST_ADDRESS, headers=KEY).status == 414


def test_a_page_may_run_its_own_scripts_and_talk_to_nobody_else() -> None:
    reply = ask(headers=KEY)
    policy = reply.headers["content-security-policy"]
    nonce = re.search(r"'nonce-([^']+)'", policy)[1]
    assert reply.body.count(f'<script nonce="{nonce}"'.encode()) == 2
    assert int(reply.headers["content-length"]) == len(reply.body)
    assert "default-src 'none'" in policy
    assert "'unsafe-inline'" not in policy.split("script-src")[1].split(";")[0]
    assert not re.search(r"https?:|\*", policy), "no place but its own server"
    assert nonce not in ask(headers=KEY).headers["content-security-policy"], "another one for each page"
    for name in ("x-content-type-options", "referrer-policy", "x-frame-options", "cross-origin-resource-policy"):
        assert name in reply.headers
        assert name in ask(headers={"host": "evil.example"}).headers, "refusals too"


def test_a_page_with_a_policy_of_its_own_keeps_it() -> None:
    reply = ask("/pages/x", headers=KEY)
    assert reply.headers["content-security-policy"] == "sandbox"
    assert reply.body == PAGE


def test_what_is_no_page_is_not_touched() -> None:
    assert ask("/static/x", headers=KEY).body == PAGE


def test_an_exposed_studio_answers_to_addresses_and_its_own_name_only() -> None:
    access = Access(port=PORT, hosts=frozenset({"lab"}), any_address=True)
    for host, known in (
        (f"lab:{PORT}", True),
        (f"LAB:{PORT}", True),
        (f"10.0.0.7:{PORT}", True),
        (f"[2001:db8::1]:{PORT}", True),
        (f"evil.example:{PORT}", False),
        (f"10.0.0.7.evil.example:{PORT}", False),
        ("10.0.0.7", False),
        ("[", False),
    ):
        assert access.knows(host) is known


def test_keys_are_drawn_anew_and_not_shown() -> None:
    other = Access(port=PORT, hosts=frozenset())
    assert len({ACCESS.token, ACCESS.key, other.token, other.key}) == 4
    assert ACCESS.token not in repr(ACCESS)
    assert ACCESS.key not in repr(ACCESS)


@pytest.mark.parametrize("path", ["/\t/evil.example/", "/\n/evil.example", "//evil.example/", "/\\evil.example"])
def test_the_token_never_leads_to_another_host(path: str) -> None:
    reply = ask(path, query=f"token={ACCESS.token}")
    (target,) = re.findall(r'content="0;url=([^"]*)"', reply.body.decode())
    assert reply.status == 200
    assert re.match(r"/([^/\\\s]|$)", target), target


def test_headers_have_a_limit() -> None:
    assert ask("/", headers=KEY, more=(("x", "a" * (MOST_HEADERS // 2)),)).status == 200
    assert ask("/", headers=KEY, more=(("x", "a" * MOST_HEADERS),)).status == 431
