"""Connections: headers that do not arrive in time end them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from attnlab.studio import connections

REQUEST = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


async def app(_: Any, __: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.mark.parametrize("before", [b"", REQUEST])
def test_half_a_request_is_given_up(before: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SECONDS_FOR_HEADERS", 0.2)

    async def use() -> bytes:
        config = uvicorn.Config(app, http=connections.Connection, lifespan="off", timeout_keep_alive=60)
        config.load()
        state = ServerState()
        server = await asyncio.get_running_loop().create_server(
            lambda: connections.Connection(config=config, server_state=state, app_state={}), "127.0.0.1", 0
        )
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        if before:
            writer.write(before)
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        writer.write(REQUEST[:20])
        rest = await asyncio.wait_for(reader.read(), 30)
        writer.close()
        server.close()
        return rest

    assert asyncio.run(use()) == b""
