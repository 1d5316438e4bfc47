"""The frame around every page: navigation, the message area and the style; and error handling while a page is built.

@page(studio, "/heads", "Heads")
async def heads(frame: Frame) -> None: …
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from nicegui import Client, ui
from starlette.responses import Response

import attnlab
from attnlab.errors import AttnlabError
from attnlab.pages import prose
from attnlab.processes.async_child import WithdrawnError
from attnlab.studio.tour import tour_html
from attnlab.studio.widgets import changed_field

if TYPE_CHECKING:
    from attnlab.studio.studio import Studio

log = logging.getLogger(__name__)

PAGES = {
    "/seen": "Attention",
    "/playground": "Playground",
    "/compare": "Compare",
    "/scale": "Scale",
    "/retrofit": "Retrofit",
    "/heads": "Heads",
    "/cost": "Cost",
    "/ask": "Ask",
    "/exhibits": "Exhibits",
}
_PATIENCE = 3.0  # seconds that a visitor has to reconnect
_ABSOLUTE = re.compile(r"(?<![\w/.:])/(?:[^\s/'\"`<>]+/)+")  # the folders of an absolute path
_HEAD = """
<script src="/static/comfort.js?{version}"></script>
<script type="module" src="/static/export.js?{version}"></script>
<link rel="stylesheet" href="/static/studio.css?{version}">
<script defer src="/static/studio.js?{version}"></script>
<link rel="stylesheet" href="/static/seen/seen.css?{version}">
<script type="module" src="/static/seen/view.js?{version}"></script>
<script type="module" src="/static/provenance.js?{version}"></script>
<meta name="color-scheme" content="light dark">
"""


_COMFORT = """
<p class="comfort"><button type="button" data-open-exports title="save pictures and tables (x)">Save</button>
<button type="button" data-open-help title="colours, density and shortcuts (?)">?</button></p>
"""


@dataclass
class Frame:
    """The page that is being built: its content area and its message area."""

    content: ui.element
    message: ui.html
    notice: ui.html
    heading: ui.html
    visitor: str  # the id of the browser tab that shows this page

    def owner(self, purpose: str) -> str:
        """Return the owner of this page's questions about one thing; a newer one replaces the one before."""
        return f"{self.visitor}/{purpose}"

    def entitle(self, title: str) -> None:
        """Call the page by what it shows."""
        self.heading.set_content(escape(title))
        ui.page_title(f"{title} · attnlab studio")

    def tell(self, problem: AttnlabError | str | None) -> None:
        """Show what is wrong, in the words of the command line; None takes it away."""
        self.message.set_content("" if problem is None else message_html(problem))

    def notify(self, words: str) -> None:
        """Say what happened to the studio; it stays until the page is opened again."""
        if not self.content.is_deleted:
            self.notice.set_content(message_html(words))


def message_html(problem: AttnlabError | str) -> str:
    """Return the HTML of an error with its hint, or of a note."""
    if isinstance(problem, str):
        return f'<p class="note">{prose(without_folders(problem))}</p>'
    return f'<p class="error"><b>error:</b> {_problem_html(problem)}</p>'


def _problem_html(problem: AttnlabError) -> str:
    hint = f' <span class="hint"><b>hint:</b> {prose(without_folders(problem.hint))}</span>' if problem.hint else ""
    return f"{prose(without_folders(problem.message))}{hint}"


def without_folders(text: str) -> str:
    """Return a message with absolute paths shortened to their last part: where a file lies is no visitor's business."""
    return _ABSOLUTE.sub("…/", text)


def page(
    studio: Studio,
    path: str,
    title: str,
    *,
    under: str | None = None,
    refuse: Callable[..., AttnlabError | None] | None = None,
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., Awaitable[None]]]:
    """Register a function that fills a frame as a page. It may be slow: the browser is already connected.

    `refuse` receives the parameters of the address, and returns an error if the address does not exist.
    """

    def decorate(fill: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        async def build(**given: Any) -> Response | None:
            client = ui.context.client
            frame = studio.frames[client.id] = _draw(title, under or path, client.id)
            missing = None if refuse is None else refuse(**given)
            if missing is not None:
                frame.tell(missing)
                frame.content.props("aria-busy=false")
                return client.build_response(client.request, 404)
            client.on_disconnect(lambda: _leave(client, studio))
            await client.connected(timeout=60)
            with frame.content:
                await guarded(frame, fill, keep=True)(frame, **given)
            frame.content.props("aria-busy=false")
            studio.page_stands.set()
            return None

        # NiceGUI reads the parameters of the address from the signature, so the signature must not contain the frame.
        return ui.page(path, title=f"{title} · attnlab studio")(_with_signature(build, fill))

    return decorate


def _with_signature(build: Callable[..., Any], fill: Callable[..., Any]) -> Callable[..., Any]:
    parameters = list(inspect.signature(fill, eval_str=True).parameters.values())[1:]
    build.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    )
    build.__name__ = fill.__name__
    return build


async def _leave(client: Client, studio: Studio) -> None:
    """Withdraw what a visitor asked who has left and does not come back at once."""
    await asyncio.sleep(_PATIENCE)
    if not client.has_socket_connection:
        studio.withdraw(client.id)


def _draw(title: str, path: str, visitor: str) -> Frame:
    ui.add_head_html(_HEAD.format(version=quote(attnlab.__version__)))
    ui.query(".nicegui-content").classes(replace="studio")
    ui.html('<a class="skip" href="#main">Skip to the content</a>', sanitize=False)
    links = "".join(
        f'<li><a href="{address}"{" aria-current=page" if address == path else ""}>{name}</a></li>'
        for address, name in PAGES.items()
    )
    here = " aria-current=page" if path == "/" else ""
    brand = f'<p class="brand"><a href="/"{here}>attnlab <span>studio</span></a></p>'
    ui.html(
        f'{brand}<nav aria-label="Pages"><ul>{links}</ul></nav>{_COMFORT}',
        tag="header",
        sanitize=False,
    )
    with ui.element("main").props('id=main tabindex="-1"'):
        ui.html(tour_html(ui.context.client.request.query_params.get("tour")), sanitize=False)
        heading = ui.html(escape(title), tag="h1", sanitize=False)
        message = ui.html("", sanitize=False).props("role=alert aria-live=polite").classes("message")
        notice = ui.html("", sanitize=False).props("role=status").classes("notice")
        content = ui.element("div").classes("content").props("aria-busy=true")
    return Frame(content, message, notice, heading, visitor)


def guarded(
    frame: Frame, handler: Callable[..., Awaitable[None]], *, keep: bool = False
) -> Callable[..., Awaitable[None]]:
    """Return a handler whose errors are shown as on the command line: at the field that was changed, if one was.

    Success removes them, unless `keep` is set.
    """

    @wraps(handler)
    async def handle(*arguments: Any, **given: Any) -> None:
        field = changed_field.get()
        try:
            with frame.content:  # not in the clicked element, which the handler may redraw
                await handler(*arguments, **given)
        except WithdrawnError:  # superseded by a newer question, or the visitor has left
            return
        except AttnlabError as error:
            if field is None or field.is_gone:
                frame.tell(error)
            else:
                field.refuse(_problem_html(error))
        except Exception as error:
            if frame.content.is_deleted:  # the visitor has left
                return
            log.exception("a page failed")
            frame.tell(
                AttnlabError(
                    f"attnlab failed in a way it should not: {type(error).__name__}: {error}",
                    hint="the terminal of the studio shows where it happened",
                )
            )
        else:
            if field is not None:
                field.accept()
            if not keep:
                frame.tell(None)

    return handle


def soon(frame: Frame, work: Callable[[], Awaitable[None]]) -> None:
    """Do something that takes its time once the page stands."""
    ui.timer(0, guarded(frame, work, keep=True), once=True)
