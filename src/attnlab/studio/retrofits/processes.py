"""Retrofits that the studio started, each in a separate process that continues when the studio ends."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attnlab.errors import AttnlabError
from attnlab.studio.folders import launch
from attnlab.studio.studio import Studio

LOG = "retrofit.log"  # the output of the process, in the folder of the retrofit
FOLDERS = "retrofit-*/"  # in the folder of the runs (`attnlab.retrofit.folder`, which imports PyTorch)
RUNNING = frozenset({"starting", "running", "finishing"})
_MOST_RUNNING = 1  # at a time: each uses all cores


class Retrofits:
    """The retrofits in the folder of a studio's runs."""

    def __init__(self, studio: Studio) -> None:
        self._studio, self._runs = studio, str(studio.runs)
        self._started: dict[str, subprocess.Popen[bytes]] = {}  # by folder

    async def all(self) -> list[dict[str, Any]]:
        """Return every retrofit, the newest first."""
        found = await self._studio.desk.ask("retrofits", runs=self._runs)
        return [self._as_it_is(one) for one in found["retrofits"]]

    async def follow(self, name: str) -> dict[str, Any]:
        """Return one retrofit as it is now."""
        return self._as_it_is(await self._studio.desk.ask("follow_retrofit", runs=self._runs, name=name))

    async def stop(self, name: str) -> None:
        await self._studio.desk.ask("stop_retrofit", runs=self._runs, name=name)

    async def start(self, folder: str, words: Sequence[str]) -> None:
        """Carry out in a process what the words ask for, unless that is under way."""
        running = [one["folder"] for one in await self.all() if one["status"] in RUNNING]
        if folder in running:
            return
        if len(running) >= _MOST_RUNNING:
            raise AttnlabError("a retrofit is running already", hint="wait until it has ended, or stop it")
        own = self._studio.settings.variants_from
        asked = [*words, *([] if own is None else ["--variants-from", str(own)])]
        self._started[folder] = await asyncio.to_thread(launch, Path(self._runs) / folder, LOG, asked)

    def _as_it_is(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return a retrofit as starting if its process lives and holds nothing yet, and as stopped if it is dead."""
        folder, status = found["folder"], found["status"]
        process = self._started.get(folder)
        alive = process is not None and process.poll() is None
        if process is not None and not alive:
            del self._started[folder]
        if status == "stopped" and alive:
            return {**found, "status": "starting"}
        return found


def setting_words(one: Mapping[str, Any]) -> str:
    """Return what is said below the title of a retrofit."""
    made = one["made"][:16].replace("T", " ")
    return " · ".join(part for part in (one["setting"], made) if part)
