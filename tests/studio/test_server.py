"""The server as it stands: every route and method behind the gate, and nothing that is sent to it breaks it."""

from __future__ import annotations

import itertools
import socket

import pytest

from support.studio import StudioServer

ROUTES = (
    "/",
    "/playground",
    "/compare",
    "/compare/0123456789abcdef",
    "/scale",
    "/scale/0123456789abcdef",
    "/facts",
    "/tables/0123456789abcdef",
    "/reports",
    "/seen",
    "/retrofit",
    "/retrofit/0123456789abcdef",
    "/heads",
    "/cost",
    "/ask",
    "/exhibits",
    "/exhibits/scaling",
    "/data/0123456789abcdef",
    "/pages/report-0123456789abcdef",
    "/pages/retrofit-0123456789abcdef",
    "/static/studio.js",
    "/_nicegui_ws/socket.io/?EIO=4&transport=polling",
    "/docs",
    "/openapi.json",
)
TRAVERSALS = (
    "/pages/..%2f..%2frun.json",
    "/pages/report-..%2f..",
    "/pages/retrofit-..%2f..",
    "/pages/%2e%2e/%2e%2e/etc/passwd",
    "/static/../guard.py",
    "/static/..%2fguard.py",
    "/static/%2e%2e/guard.py",
    "/static//etc/passwd",
    "/compare/..%2f..%2fetc%2fpasswd",
    "/scale/..%2f..%2fetc%2fpasswd",
    "/tables/..%2f..%2frun.json",
    "/pages/%00",
    "/pages/" + "a" * 3000,
)


def test_nobody_without_the_key_gets_anything(server: StudioServer) -> None:
    ours = {"Origin": server.base}
    for route, method in itertools.product(ROUTES, ("GET", "HEAD", "POST")):
        assert server.ask(method, route, cookie=False, **ours)[0] == 401, f"{method} {route}"
        assert server.ask(method, route, **{**ours, "Host": "evil.example"})[0] == 421
        assert server.ask(method, route, **{"Origin": "http://evil.example"})[0] == 403
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert server.ask(method, "/", **ours)[0] == 405


def test_the_websocket_is_behind_the_same_gate(server: StudioServer) -> None:
    ours = {"Origin": server.base}
    assert server.shake_hands(**ours) == 101
    assert server.shake_hands() == 403
    assert server.shake_hands(Origin="http://evil.example") == 403
    assert server.shake_hands(**ours, Host="evil.example") == 403
    assert server.shake_hands(**ours, cookie="no") == 403


def test_pages_are_there_and_carry_their_policy(server: StudioServer) -> None:
    for route in ("/", "/seen", "/compare", "/scale", "/retrofit", "/heads", "/cost", "/ask", "/facts", "/exhibits"):
        status, headers, body = server.ask("GET", route)
        assert status == 200
        assert b"http://" not in body.replace(b"http://www.w3.org", b"")
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
    for route in ("/docs", "/openapi.json", "/redoc", "/data/nothing"):
        assert server.ask("GET", route)[0] == 404
    status, _, body = server.ask("GET", "/compare/0123456789abcdef")
    assert status == 404
    assert b"there is no such comparison here" in body
    status, _, body = server.ask("GET", "/scale/0123456789abcdef")
    assert (status, b"there is no such study here" in body) == (404, True)


@pytest.mark.parametrize("path", TRAVERSALS)
def test_no_path_leads_out(server: StudioServer, path: str) -> None:
    status, _, body = server.ask("GET", path)
    assert status in {200, 404}  # 200: a page of the studio's own, which says that there is no such thing
    for secret in (b"root:", b"class Guard", b'"format"'):
        assert secret not in body


def test_rubbish_breaks_nothing(server: StudioServer) -> None:
    ours = {"Origin": server.base}
    socket_path = "/_nicegui_ws/socket.io/?EIO=4&transport=polling"
    for body in (b"{", b"\xff\xfe", b"4" * 1000, b'42["event"]', b'42["event",{"client_id":"x"}]', b"[" * 50_000):
        status, _, _ = server.ask("POST", socket_path, body=body, **ours)
        assert status < 500 or status == 503
    assert server.ask("POST", socket_path, body=b"x" * 2_000_000, **ours)[0] == 413
    assert server.ask("POST", "/", body=b"", **{**ours, "Content-Length": "99999999999"})[0] == 413
    assert server.ask("GET", "/?s=" + "a" * 20_000)[0] == 414
    assert server.ask("GET", "/?s=%00%ff")[0] == 200
    host, port = server.host.split(":")
    for raw in (b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\nHost: x\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(raw)
            connection.settimeout(30)
            assert b"200 OK" not in connection.recv(4096)
    assert server.ask("GET", "/")[0] == 200, "it still answers"
