"""What all pages of one studio share: its workers, the comparisons that it started, and the pages that it made."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

from attnlab.errors import AttnlabError
from attnlab.experiments.request import Request
from attnlab.storage.plans import PLAN
from attnlab.studio.settings import LOG, Settings
from attnlab.studio.workers import Worker

RUNNING = frozenset({"starting", "planning", "running"})
MOST_RUNNING = 2  # comparisons at a time
_KEPT_LETTERS = 40_000_000  # of pages that were made
_REPORT = "report-"
# Fields of a request that are said otherwise on the command line, or by studies only.
_OTHERWISE = frozenset({"variants", "changes", "corpus_options", "variants_sha256", "rates", "up_to"})


class Studio:
    """One studio. The desk answers what must be quick, the bench what may take a while, and exhibits have a stage."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.runs = settings.runs
        self.desk = Worker("the desk", seconds=30, threads=1)
        self.bench = Worker("the bench", seconds=120, idle=120)
        self.stage = Worker("the stage", seconds=900, idle=120)
        self._pages: OrderedDict[str, str] = OrderedDict()
        self._started: dict[str, subprocess.Popen[bytes]] = {}  # by the folder that each works in
        self._warming: asyncio.Task[Any] | None = None

    def warm_up(self) -> None:
        """Let the desk import what it needs before it is asked."""
        self._warming = asyncio.ensure_future(self.desk.ask("form"))

    async def close(self) -> None:
        """End the workers. Comparisons go on: they have processes and folders of their own."""
        await asyncio.gather(self.desk.close(), self.bench.close(), self.stage.close())

    # Pages that were made elsewhere

    def keep_page(self, html: str) -> str:
        """Keep a page to hand out, and say under which name."""
        name = secrets.token_urlsafe(12)
        self._pages[name] = html
        while len(self._pages) > 1 and sum(map(len, self._pages.values())) > _KEPT_LETTERS:
            self._pages.popitem(last=False)
        return name

    async def finished_page(self, name: str) -> str:
        """A page by its name: one that was kept, or the report of a comparison."""
        if name in self._pages:
            return self._pages[name]
        if not name.startswith(_REPORT):
            raise AttnlabError("there is no such page", hint="make it again")
        found = await self.desk.ask("report", runs=str(self.runs), name=name.removeprefix(_REPORT))
        return await asyncio.to_thread(Path(found["path"]).read_text, encoding="utf-8")

    @staticmethod
    def report_address(comparison: str) -> str:
        return f"/pages/{_REPORT}{comparison}"

    # Comparisons

    async def comparisons(self) -> list[dict[str, Any]]:
        """All comparisons in the folder of the runs, the newest first."""
        found = await self.desk.ask("comparisons", runs=str(self.runs))
        return [self._as_it_is(one) for one in found["comparisons"]]

    async def follow(self, name: str) -> dict[str, Any]:
        """One comparison as it is now."""
        return self._as_it_is(await self.desk.ask("follow", runs=str(self.runs), name=name))

    def _as_it_is(self, found: dict[str, Any]) -> dict[str, Any]:
        """A process that was started just now has not told yet that it is there."""
        process = self._started.get(found["folder"])
        if process is not None and process.poll() is not None:
            del self._started[found["folder"]]
        elif process is not None and found["status"] in {"stopped", "failed", "finished"}:
            return {**found, "status": "starting"}
        return found

    async def start(self, request: Request, add_seeds: int = 0) -> str:
        """Carry a comparison out, or go on with it, in a process of its own, which goes on when the studio ends."""
        found = await self.comparisons()
        running = [one for one in found if one["status"] in RUNNING]
        if not any(one["folder"] == request.folder for one in running):
            if len(running) >= MOST_RUNNING:
                raise AttnlabError(
                    f"{len(running)} comparisons are running already", hint="wait until one has ended, or stop one"
                )
            await asyncio.to_thread(self._launch, request, self.runs / request.folder, add_seeds)
        return next(str(one["name"]) for one in await self.comparisons() if one["folder"] == request.folder)

    def _launch(self, request: Request, folder: Path, add_seeds: int) -> None:
        known = (folder / PLAN).is_file()
        command = ["compare", str(folder)] if known else command_of(request, self.runs)
        words = [*command, *(["--add-seeds", str(add_seeds)] if add_seeds else [])]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / LOG).open("wb") as log:
                self._started[folder.name] = subprocess.Popen(
                    [sys.executable, "-m", "attnlab", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise AttnlabError(
                f"{folder} cannot be written: {(error.strerror or str(error)).lower()}",
                hint="start the studio with another folder: --runs DIR",
            ) from None


def command_of(request: Request, runs: Path) -> list[str]:
    """The words after `attnlab` that ask for the same on the command line. It has no options for what studies set."""
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
