"""One studio: its settings, its workers, the comparisons and studies that it started, and a cache of pages."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import secrets
import socket
import subprocess
import zlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from attnlab.errors import AttnlabError, InputError
from attnlab.experiments.request import Request, ScaleRequest
from attnlab.experiments.scale.record import RECORD, write_record
from attnlab.processes.async_child import AsyncChild
from attnlab.processes.memory import give_back_memory
from attnlab.processes.template import CAN_COPY, Template
from attnlab.storage.plans import PLAN
from attnlab.studio.folders import LOG, STUDY, comparison_folders, launch, opaque_id, study_folders, unwritable
from attnlab.studio.guard import Access
from attnlab.studio.labels import Label, Labels
from attnlab.studio.parts.lessons import Lessons

if TYPE_CHECKING:
    from attnlab.studio.frame import Frame

FIRST_PORT = 8421
_TRIED = 20  # ports, if none was asked for
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
RUNNING = frozenset({"starting", "planning", "running", "finishing"})
MOST_RUNNING = 2  # comparisons and studies at a time
_ONCE = frozenset({"keep", "correct_fact", "retract_fact", "restore_fact"})  # a retry would change the store twice
_REST = 1.0  # seconds that a worker may be idle while another is asked
_LONGEST_ALONE = 5.0  # seconds that the desk waits for a first visitor
_LONGEST_LESSON = 6 * 3600.0  # seconds
_ANSWERS = 200  # of the desk, until it is replaced; a forked process starts within milliseconds
_KEPT_BYTES = 4_000_000  # of cached pages
_KEPT_COSTS = 30  # cached answers
_WORK = "attnlab.studio.work"  # run by the workers
_REPORT = "report-"
RETROFIT = "retrofit-"  # prefix of the name in a request for the page of a retrofit
DATA = "/data/"  # address of data for scripts
TABLES = "/tables/"  # address of tables to download
# Fields of a request that the command line expresses differently, or that only studies have.
_OTHERWISE = frozenset({"variants", "changes", "corpus_options", "variants_sha256", "rates", "up_to", "starts"})


@dataclass(frozen=True)
class Settings:
    """Where the studio listens, and the folder of the runs that it shows."""

    runs: Path
    host: str = "127.0.0.1"
    port: int | None = None  # None: the first free port
    exposed: bool = False  # whether other machines may connect
    variants_from: Path | None = None  # a Python file that adds variants

    def __post_init__(self) -> None:
        if self.port is not None and not 0 <= self.port < 65536:
            raise InputError(
                f"{self.port} is no port", hint="use a number from 1024 to 65535, or 0 for any that is free"
            )
        if self.runs.exists() and not self.runs.is_dir():
            raise InputError(f"{self.runs} is no folder", hint="name the folder that the runs lie in")
        if not is_loopback(self.host) and not _is_wildcard(self.host) and not _resolves(self.host):
            raise InputError(
                f"{self.host!r} is no known host", hint="leave `host` out, or give an address of this machine"
            )
        if not self.exposed and not is_loopback(self.host):
            raise InputError(
                f"{self.host} can be reached by other machines: anyone with the printed address could train, stop and "
                "read runs here, and the connection is not encrypted",
                hint="leave `host` out, or set `expose` if you mean it",
            )

    def listen(self) -> socket.socket:
        """Return a socket that listens, so that no visitor is too early."""
        last: OSError | None = None
        for port in range(FIRST_PORT, FIRST_PORT + _TRIED) if self.port is None else [self.port]:
            try:
                return _bind(self.host, port)
            except OSError as error:
                last = error
        where = f"port {self.port}" if self.port is not None else f"any port from {FIRST_PORT} on"
        reason = (last.strerror or str(last)).lower() if last else "it is taken"
        raise AttnlabError(f"cannot listen at {where} of {self.host}: {reason}", hint="choose another `port`")

    def access(self, port: int) -> Access:
        """Return who is let in at this port."""
        wildcard = not is_loopback(self.host) and _is_wildcard(self.host)
        names = set(_LOOPBACK) if is_loopback(self.host) or wildcard else {self.host.lower()}
        if not is_loopback(self.host):
            names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        return Access(port=port, hosts=frozenset(names | {self.host.lower()}), any_address=wildcard)

    def address(self, access: Access) -> str:
        """Return the address to open."""
        name = socket.gethostname() if _is_wildcard(self.host) else self.host
        host = f"[{name}]" if ":" in name else name
        return f"http://{host}:{access.port}/?token={access.token}"


class Studio:
    """One studio and its worker processes.

    The desk answers quick questions, the bench slow ones, and the stage runs exhibits. The counter computes costs, for
    which it imports more than the other workers, and the teacher teaches models facts.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.runs = settings.runs
        own = [] if settings.variants_from is None else [str(settings.variants_from)]
        self._template = Template(_WORK, own) if CAN_COPY else None
        worker = partial(AsyncChild, self._template or _WORK, arguments=own, once=_ONCE, on_death=self._tell_death)
        self.desk = worker("the desk", seconds=30, threads=1, answers=_ANSWERS if self._template else None)
        room = self._make_room if self._template else None
        self.bench = worker("the bench", seconds=120, idle=60, on_ask=room)
        self.stage = worker("the stage", seconds=900, idle=20, on_ask=room)
        self.counter = worker("the counter", seconds=30, threads=1, idle=20, on_ask=room)
        self.teacher = worker("the teacher", seconds=_LONGEST_LESSON, idle=20)
        self.lessons = Lessons(self.teacher, str(settings.runs))
        self._pages: OrderedDict[str, bytes] = OrderedDict()  # compressed
        self._costs: OrderedDict[str, dict[str, Any]] = OrderedDict()  # by question, least recently used first
        self._started: dict[str, subprocess.Popen[bytes]] = {}  # by working folder
        self._begun: set[str] = set()  # folders whose process was seen running
        self.labels = Labels(settings.runs)
        self.frames: WeakValueDictionary[str, Frame] = WeakValueDictionary()  # of all open pages, by visitor
        self.page_stands = asyncio.Event()  # set once a page is drawn; before, the desk's imports would slow it down
        self._warming: asyncio.Task[Any] | None = None

    def warm_up(self) -> None:
        """Let the desk import what it needs before it is asked."""
        self._warming = asyncio.ensure_future(self._warm_desk())

    async def _warm_desk(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.page_stands.wait(), _LONGEST_ALONE)
        await self.desk.ask("form")

    async def _make_room(self) -> None:
        """End idle workers when another is asked; a new copy of the template starts within milliseconds."""
        for worker in (self.bench, self.stage, self.counter):
            await worker.end_if_idle(_REST)

    def _tell_death(self, name: str) -> None:
        """Say on every page that a worker died and was replaced."""
        for frame in list(self.frames.values()):
            frame.notify(
                f"{name.capitalize()}, a worker process of the studio, ended unexpectedly. It was started again, and "
                "this page continues."
            )

    def withdraw(self, visitor: str) -> None:
        """Give up the questions of a visitor who has left."""
        for worker in (self.desk, self.bench, self.stage, self.counter):
            worker.withdraw(visitor)
        give_back_memory()

    async def close(self) -> None:
        """End the workers. Comparisons and studies continue: they have processes and folders of their own."""
        workers = (self.desk, self.bench, self.stage, self.counter, self.teacher)
        await asyncio.gather(*(worker.close() for worker in workers))
        if self._template is not None:
            await asyncio.to_thread(self._template.close)

    async def cost(self, question: Mapping[str, Any], owner: str) -> dict[str, Any]:
        """Return what a model costs; what was asked lately is known."""
        key = json.dumps(question, sort_keys=True)
        if key not in self._costs:
            self._costs[key] = await self.counter.ask("cost", owner=owner, question=question)
        self._costs.move_to_end(key)
        if len(self._costs) > _KEPT_COSTS:
            self._costs.popitem(last=False)
        return self._costs[key]

    # Pages of other packages

    def keep_page(self, html: str) -> str:
        """Keep a page to hand out, and return its name."""
        name = secrets.token_urlsafe(12)
        self._pages[name] = zlib.compress(html.encode(), level=1)
        while len(self._pages) > 1 and sum(map(len, self._pages.values())) > _KEPT_BYTES:
            self._pages.popitem(last=False)
        return name

    def keep_data(self, data: Mapping[str, Any]) -> str:
        """Keep data for a script of a page, and return the address that it can be fetched from."""
        return f"{DATA}{self.keep_page(json.dumps(data, allow_nan=False))}"

    def kept_page(self, name: str) -> str | None:
        """Return a page or data that was kept, unless it was given up for newer ones."""
        return zlib.decompress(self._pages[name]).decode() if name in self._pages else None

    async def finished_page(self, name: str) -> str:
        """Return a page by its name: one that was kept, or the report of a comparison or study."""
        kept = self.kept_page(name)
        if kept is not None:
            return kept
        if name.startswith(RETROFIT):
            found = await self.desk.ask("retrofit_report", runs=str(self.runs), name=name.removeprefix(RETROFIT))
            return await asyncio.to_thread(Path(found["path"]).read_text, encoding="utf-8")
        if not name.startswith(_REPORT):
            raise AttnlabError("there is no such page", hint="make it again")
        found = await self.desk.ask("report", runs=str(self.runs), name=name.removeprefix(_REPORT))
        return await asyncio.to_thread(Path(found["path"]).read_text, encoding="utf-8")

    @staticmethod
    def report_address(name: str) -> str:
        return f"/pages/{_REPORT}{name}"

    @staticmethod
    def table_address(name: str) -> str:
        return f"{TABLES}{name}"

    async def finished_table(self, name: str) -> str:
        """Return the table of all runs of a study."""
        found = await self.desk.ask("table", runs=str(self.runs), name=name)
        return await asyncio.to_thread(Path(found["path"]).read_text, encoding="utf-8")

    # Comparisons and studies

    async def experiments(self) -> list[dict[str, Any]]:
        """Return all comparisons and studies in the folder of the runs, the newest first."""
        found = await self.desk.ask("experiments", runs=str(self.runs))
        return self._labelled(found["experiments"])

    async def latest(self, count: int) -> list[dict[str, Any]]:
        """Return the newest comparisons and studies with what is drawn of them in small."""
        labels = self.labels.read()
        without = [folder for folder, label in labels.items() if label.archived]
        found = await self.desk.ask("latest", runs=str(self.runs), count=count, without=without)
        return self._labelled(found["experiments"])

    async def follow(self, name: str, *, every: bool = False) -> dict[str, Any]:
        """Return one comparison as it is now; its charts show means, or `every` run."""
        return self._labelled([await self.desk.ask("follow", runs=str(self.runs), name=name, every=every)])[0]

    async def follow_study(self, name: str) -> dict[str, Any]:
        """Return one study as it is now."""
        return self._labelled([await self.desk.ask("follow_study", runs=str(self.runs), name=name)])[0]

    def _labelled(self, found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return comparisons and studies as they are, under the titles that they were given."""
        labels = self.labels.read()
        shown = []
        for one in map(self._as_it_is, found):
            label = labels.get(one["folder"], Label())
            address = f"/{'scale' if one['kind'] == STUDY else 'compare'}/{one['name']}"
            own = {"own_title": one["title"], "address": address}
            shown.append({**one, **asdict(label), "title": label.title or one["title"], **own})
        return shown

    def has_comparison(self, name: str) -> bool:
        """Return whether there is a comparison with the name that a browser knows it by."""
        return any(opaque_id(folder) == name for folder in comparison_folders(self.runs))

    def has_study(self, name: str) -> bool:
        """Return whether there is a study with the name that a browser knows it by."""
        return any(opaque_id(folder) == name for folder in study_folders(self.runs))

    def _as_it_is(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return what was found as starting or finishing if its process lives, and holds nothing yet or no longer."""
        folder, status = found["folder"], found["status"]
        process = self._started.get(folder)
        if process is None:
            return found
        if process.poll() is not None:
            del self._started[folder]
            return found
        if status in RUNNING:
            self._begun.add(folder)
            return found
        return {**found, "status": "finishing" if folder in self._begun else "starting"}

    async def start(self, request: Request) -> str:
        """Run a comparison in a process of its own, which continues when the studio ends; return its name."""
        folder = self.runs / request.folder
        known = (folder / PLAN).is_file()
        await self._run(folder, ["compare", str(folder)] if known else command_of(request, self.runs))
        return opaque_id(folder.name)

    async def resume(self, folder: str, add_seeds: int = 0) -> None:
        """Resume the comparison that was planned in a folder, whatever its request was, perhaps with more seeds."""
        path = self.runs / folder
        if not (path / PLAN).is_file():
            raise AttnlabError("this comparison ended before there was a plan", hint="start it again from Compare")
        await self._run(path, ["compare", str(path), *(["--add-seeds", str(add_seeds)] if add_seeds else [])])

    async def start_study(self, request: ScaleRequest) -> str:
        """Run a study in a process of its own, which continues when the studio ends; return its name."""
        folder = f"{request.folder}/{request.report_folder}"
        await self._run(self.runs / folder, ["scale", str(self.runs / folder)], request)
        return opaque_id(folder)

    async def resume_study(self, folder: str) -> None:
        """Resume the study in a folder."""
        await self._run(self.runs / folder, ["scale", str(self.runs / folder)])

    def delete_study(self, folder: str, sharing: int) -> None:
        """Delete a study with all its runs, unless other studies share them."""
        if sharing > 0:
            raise AttnlabError(
                f"{sharing} other {'study shares' if sharing == 1 else 'studies share'} the runs of this one",
                hint="archive it instead",
            )
        self.labels.delete(folder.partition("/")[0])

    async def _run(self, folder: Path, words: Sequence[str], study: ScaleRequest | None = None) -> None:
        """Launch a comparison, or a study whose request is written first, unless it is running already."""
        running = [one for one in await self.experiments() if one["status"] in RUNNING]
        if any(self.runs / one["folder"] == folder for one in running):
            return
        if len(running) >= MOST_RUNNING:
            raise AttnlabError(
                f"{len(running)} comparisons or studies are running already",
                hint="wait until one has ended, or stop one",
            )
        await asyncio.to_thread(self._launch, folder, words, study)

    def _launch(self, folder: Path, words: Sequence[str], study: ScaleRequest | None) -> None:
        name = str(folder.relative_to(self.runs))
        self._begun.discard(name)
        if study is not None and not (folder / RECORD).is_file():
            try:
                folder.mkdir(parents=True, exist_ok=True)
                write_record(folder, study)
            except OSError as error:
                raise unwritable(folder, error) from None
        self._started[name] = launch(folder, LOG, words)


def command_of(request: Request, runs: Path) -> list[str]:
    """Return the arguments of `attnlab` that ask for the same; studies set fields that have no option."""
    usual, words = Request(), ["compare", *request.variants]
    for name in type(request).model_fields:
        value = getattr(request, name)
        if name in _OTHERWISE or value == getattr(usual, name):
            continue
        option = "--" + name.replace("_", "-")
        text = ",".join(value) if isinstance(value, tuple) else str(value)
        words += [option] if value is True else [option, text]
    for change in request.changes:
        words += ["--change", change]
    for name, chosen in request.corpus_options.items():
        words += ["--corpus-option", f"{name}={chosen}"]
    return [*words, "--out", str(runs)]


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _resolves(host: str) -> bool:
    """Return whether a host has an address."""
    try:
        return bool(socket.getaddrinfo(host, None))
    except (OSError, UnicodeError):
        return False


def _is_wildcard(host: str) -> bool:
    return host in {"0.0.0.0", "::", ""}


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except OSError:
        listening.close()
        raise
    return listening
