"""Whole commands in processes of their own, and the browser that pages are timed in."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.bench.results.memory import TreePeak
from attnlab.errors import AttnlabError
from attnlab.experiments.launching.status_table import import_extra

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_TAIL = 5  # lines of what a command said before it failed


@dataclass(frozen=True)
class CommandRun:
    """How long a command took, what it printed and after how many seconds, and its peak memory if that was sampled."""

    seconds: float
    lines: list[tuple[float, str]]
    peak_bytes: int = 0


def run_command(
    words: Sequence[str],
    folder: Path,
    name: str,
    environment: Mapping[str, str] | None = None,
    *,
    sample_every: float | None = None,
) -> CommandRun:
    """Run a command in a folder to its end; one that fails is an error with the last lines that it said.

    `sample_every` so many seconds the memory of the command and its children is looked at.
    """
    begin = time.perf_counter()
    lines: list[tuple[float, str]] = []
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            words,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            encoding="utf-8",
            errors="replace",
        ) as process,
        nullcontext() if sample_every is None else TreePeak(process.pid, every=sample_every) as peak,
    ):
        assert process.stdout is not None
        lines.extend((time.perf_counter() - begin, line.rstrip("\n")) for line in process.stdout)
        code = process.wait()
        seconds = time.perf_counter() - begin
        if code:
            said.seek(0)
            last = said.read().decode(errors="replace").strip().splitlines()[-_TAIL:]
            raise AttnlabError(f"{name} ended with code {code}" + "".join(f"\n  {line}" for line in last))
    return CommandRun(seconds, lines, 0 if peak is None else peak.bytes)


@contextmanager
def open_chromium() -> Iterator[Any]:
    """Start the Chromium of this machine, under playwright; refuse where one of them is missing."""
    found = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        raise AttnlabError("there is no Chromium on the PATH", hint="install one to time pages in it")
    with import_extra("playwright.sync_api", "test").sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def open_page(browser: Any) -> Any:
    """Return a new, blank page of the size that all are timed at."""
    return browser.new_page(viewport={"width": 1280, "height": 900})
