"""A studio in a separate process, and its pages in Chromium."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnlab.bench.processes import open_page
from attnlab.errors import AttnlabError

RUNS, CACHE = "runs", "cache"  # folders below that of the bench
_PATIENCE = 120_000  # milliseconds
_READY = ".content[aria-busy=false]"


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of commands that keep everything in the folder of the bench."""
    return {**os.environ, "ATTNLAB_CACHE": str(folder / CACHE)}


@contextmanager
def serve_studio(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a studio for the runs below a folder; yield its process and its address, and end it."""
    words = ["-m", "attnlab", "studio", "--no-browser", "--port", "0", "--json", "--runs", str(folder / RUNS)]
    process = subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=folder,
        env=environment(folder),
    )
    try:
        assert process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = process.stdout.readline()
            if not line:
                raise AttnlabError("the studio did not start", hint="run `attnlab studio` to see why")
            text += line
        yield process, json.loads(text)["url"]
    finally:
        process.terminate()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()


def at(address: str, path: str) -> str:
    """Return the address of a page; `address` is the one that the studio printed."""
    base, _, token = address.partition("/?")
    return f"{base}{path}{'&' if '?' in path else '?'}{token}"


def visit(browser: Any, address: str) -> Any:
    """Open a page in a new window, and return it as soon as it stands."""
    page = open_page(browser)
    page.set_default_timeout(_PATIENCE)
    go(page, address)
    return page


def go(page: Any, address: str) -> None:
    """Open another page in the same window."""
    page.goto(address)
    page.wait_for_selector(_READY, state="attached")
