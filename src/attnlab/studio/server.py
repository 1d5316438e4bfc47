"""The studio as a server: its pages behind the gate, its workers, and the files that it serves.

Nothing outside the package is loaded: scripts, styles and fonts come from here and from NiceGUI's own folder.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import ui
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from attnlab.errors import AttnlabError
from attnlab.processes.memory import share_memory
from attnlab.studio.connections import Connection
from attnlab.studio.guard import MOST_ADDRESS, MOST_BODY, MOST_HEADERS, Access, Guard
from attnlab.studio.pages import register
from attnlab.studio.studio import DATA, TABLES, Settings, Studio

STATIC = Path(__file__).parent / "static"
_SECONDS_TO_END = 2
# A page that the studio did not write is shown without an origin: it may render itself, but do nothing else.
_ALONE = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; frame-ancestors 'self'"
)


def build(settings: Settings, access: Access) -> Guard:
    """Build the whole studio as one ASGI application."""
    studio = Studio(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        studio.warm_up()
        yield
        await studio.close()

    application = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    application.get("/pages/{name}")(_hand_out(studio))
    application.get(f"{DATA}{{name}}")(_hand_data(studio))
    application.get(f"{TABLES}{{name}}")(_hand_table(studio))
    nicegui_app.add_static_files("/static", STATIC)
    register(studio)
    ui.run_with(
        application,
        title="attnlab studio",
        favicon=STATIC / "icon.svg",
        dark=None,
        language="en-US",
        tailwind=False,
        show_welcome_message=False,
        reconnect_timeout=20.0,
        gzip_middleware_factory=None,
    )
    return Guard(application, access)


def _hand_out(studio: Studio) -> Callable[[str], Awaitable[Response]]:
    async def hand_out(name: str) -> Response:
        try:
            page = await studio.finished_page(name)
        except AttnlabError as error:
            return PlainTextResponse(str(error), status_code=404)
        return HTMLResponse(page, headers={"content-security-policy": _ALONE, "cache-control": "no-store"})

    return hand_out


def _hand_data(studio: Studio) -> Callable[[str], Awaitable[Response]]:
    async def hand_data(name: str) -> Response:
        found = studio.kept_page(name)
        if found is None:
            return PlainTextResponse("this is no longer kept: ask for it again", status_code=404)
        return Response(found, media_type="application/json", headers={"cache-control": "no-store"})

    return hand_data


def _hand_table(studio: Studio) -> Callable[[str], Awaitable[Response]]:
    async def hand_table(name: str) -> Response:
        try:
            table = await studio.finished_table(name)
        except AttnlabError as error:
            return PlainTextResponse(str(error), status_code=404)
        saved = {"content-disposition": 'attachment; filename="runs.csv"', "cache-control": "no-store"}
        return Response(table, media_type="text/csv", headers=saved)

    return hand_table


def run(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until it is interrupted. `announce` is told the address, with its token, as soon as it can be opened."""
    share_memory()
    listening = settings.listen()
    access = settings.access(listening.getsockname()[1])
    logging.getLogger("nicegui").setLevel(logging.ERROR)
    server = uvicorn.Server(
        uvicorn.Config(
            build(settings, access),
            log_level="error",
            http=Connection,
            h11_max_incomplete_event_size=MOST_ADDRESS + MOST_HEADERS,
            ws_max_size=MOST_BODY,
            server_header=False,
            timeout_graceful_shutdown=_SECONDS_TO_END,
        )
    )
    announce(settings.address(access))
    server.run(sockets=[listening])
