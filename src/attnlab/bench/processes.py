"""The peak memory of calls and processes, whole commands in separate processes, and the browser.

Calls: on a CPU, the allocations and releases of PyTorch's allocator during the call are summed in order, and the peak
is the largest partial sum: exact to the byte, and reproducible. Memory that a library takes without the allocator is
not seen. Gradients and outputs that the call returns count. Memory that a first call leaves for later ones (such as
cached masks) does not, because one call is made before the measurement.

Processes: the memory that the system reports, including libraries and interpreter. A single process is asked for its
peak, which the system records. For several processes that share memory, their proportional set sizes (PSS), in which
every shared page is counted once, are summed many times a second. Only Linux reports these.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch.profiler import ProfilerActivity, profile

from attnlab.bench.timing import Call
from attnlab.errors import AttnlabError, UnsupportedError, import_extra
from attnlab.processes.machine import counted_bytes

MEBIBYTE = 2**20
_STATUS = Path("/proc/self/status")
_EVERY = 0.05  # seconds
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_TAIL = 5  # last lines of output shown when a command fails


def peak_bytes(call: Call, device: torch.device | str = "cpu") -> int:
    """Return the peak of the bytes that the call has allocated and not yet released.

    Parameters
    ----------
    call
        The function to call.
    device
        The device on which it allocates.
    """
    kind = torch.device(device).type
    if kind == "cpu":
        return _peak_on_cpu(call)
    if kind == "cuda":
        return _peak_on_cuda(call, torch.device(device))
    raise UnsupportedError(f"memory is not measured on {kind!r}", hint="measure on the CPU or on CUDA")


def highest_sum(changes: Iterable[int]) -> int:
    """Return the largest partial sum, at least 0."""
    held = highest = 0
    for change in changes:
        held += change
        highest = max(highest, held)
    return highest


def _peak_on_cpu(call: Call) -> int:
    # The profiler's library logs each start and stop to stderr, unless this is set before its first use.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    call()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = call()
    del result  # kept until here, so that its release is not part of the measurement
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return highest_sum(event.nbytes() for event in events if event.device_type().name == "CPU")


def _peak_on_cuda(call: Call, device: torch.device) -> int:
    """Return the bytes that a call allocates at its peak. Not yet run: no machine with CUDA was at hand."""
    call()
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    result = call()
    torch.cuda.synchronize(device)
    highest = torch.cuda.max_memory_allocated(device)
    del result
    return max(0, highest - before)


def own_bytes(*, peak: bool = False) -> int:
    """Return the bytes that this process holds now, or the most that it has held at once."""
    if not _STATUS.is_file():
        raise UnsupportedError("this system does not report the memory of a process", hint="measure memory on Linux")
    return counted_bytes(_STATUS, "VmHWM" if peak else "VmRSS")


def tree_bytes(process: int) -> int:
    """Return the bytes that a process and all that it started hold now."""
    return sum(counted_bytes(Path(f"/proc/{one}/smaps_rollup"), "Pss") for one in _tree(process))


class TreePeak:
    """Context manager that samples the memory of a process and its children; each sample takes time itself."""

    def __init__(self, process: int, every: float = _EVERY) -> None:
        self._process, self._every = process, every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.samples: list[int] = []  # bytes, at equal intervals

    @property
    def bytes(self) -> int:
        """Return the largest sample."""
        return max(self.samples, default=0)

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
            self.samples.append(tree_bytes(self._process))
            if self._ended.wait(self._every):
                return


def _tree(process: int) -> Iterator[int]:
    yield process
    with contextlib.suppress(OSError):
        for listing in Path(f"/proc/{process}/task").glob("*/children"):
            for child in listing.read_text(encoding="utf-8").split():
                yield from _tree(int(child))


@dataclass(frozen=True)
class CommandRun:
    """The duration of a command, its output lines with their times in seconds, and its peak memory if sampled."""

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
    """Run a command in a folder to its end; raise with its last lines of output if it fails.

    `sample_every` is the interval in seconds at which the memory of the command and its children is sampled.
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
        contextlib.nullcontext() if sample_every is None else TreePeak(process.pid, every=sample_every) as peak,
    ):
        assert process.stdout is not None
        lines.extend((time.perf_counter() - begin, line.rstrip("\n")) for line in process.stdout)
        code = process.wait()
        seconds = time.perf_counter() - begin
        if code:
            said.seek(0)
            errors = said.read().decode(errors="replace").strip().splitlines()
            last = (errors or [line for _, line in lines])[-_TAIL:]
            raise AttnlabError(f"{name} ended with code {code}" + "".join(f"\n  {line}" for line in last))
    return CommandRun(seconds, lines, 0 if peak is None else peak.bytes)


@contextlib.contextmanager
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
