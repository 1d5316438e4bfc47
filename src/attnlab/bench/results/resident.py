"""The memory that whole processes hold at most: what the system counts, libraries and interpreter included.

One process is asked itself: the system remembers its peak. Of several that share memory the proportional sizes, in
which every shared page is counted once, are added up many times a second. Linux tells these; other systems do not.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from attnlab.errors import UnsupportedError

_STATUS = Path("/proc/self/status")
_EVERY = 0.05  # seconds


def own_peak_bytes() -> int:
    """The most that this process has held at once."""
    return _own("VmHWM")


def own_bytes() -> int:
    """What this process holds now."""
    return _own("VmRSS")


def _own(name: str) -> int:
    if not _STATUS.is_file():
        raise UnsupportedError("the memory of a process is not told on this system", hint="measure memory on Linux")
    return _kibibytes(_STATUS.read_text(encoding="utf-8"), name) * 1024


def tree_bytes(process: int) -> int:
    """What a process and all that it started hold now."""
    total = 0
    for one in _tree(process):
        with contextlib.suppress(OSError):  # it may have ended just now
            total += _kibibytes(Path(f"/proc/{one}/smaps_rollup").read_text(encoding="utf-8"), "Pss") * 1024
    return total


class TreePeak:
    """Watches a process and all that it starts, while it is entered. Looking takes time itself: seldom is better."""

    def __init__(self, process: int, every: float = _EVERY) -> None:
        self._process, self._every = process, every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            self.bytes = max(self.bytes, tree_bytes(self._process))
            if self._ended.wait(self._every):
                return


def _tree(process: int) -> Iterator[int]:
    yield process
    with contextlib.suppress(OSError):
        for listing in Path(f"/proc/{process}/task").glob("*/children"):
            for child in listing.read_text(encoding="utf-8").split():
                yield from _tree(int(child))


def _kibibytes(text: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) if found else 0
