"""The machine: its hardware, threads, memory, and the rate of its matrix products."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from attnlab import __version__
from attnlab.errors import SpecError
from attnlab.formats import byte_count, plural


@dataclass(frozen=True)
class Machine:
    """The properties of the machine on which measurements depend."""

    processor: str
    cores: int  # that this process may use
    threads: int  # that PyTorch uses
    memory_bytes: int | None  # None if the system does not report it
    load: float | None  # load average of the last minute; None if the system does not report it
    system: str
    python: str
    torch: str
    attnlab: str

    def __str__(self) -> str:
        return f"{self.processor}, {plural(self.threads, 'thread')}, PyTorch {self.torch}"

    @property
    def warning(self) -> str | None:
        """Return a warning if the machine had other work when the measurement began."""
        if self.load is None or self.load <= self.cores:
            return None
        return f"The machine was busy at the start: load {self.load:.1f} on {self.cores} cores. Distrust these times."


def describe_machine() -> Machine:
    """Return this machine, as it is set up now."""
    return Machine(
        processor=_processor(),
        cores=available_cores(),
        threads=torch.get_num_threads(),
        memory_bytes=memory_bytes(),
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        torch=torch.__version__,
        attnlab=__version__,
    )


# The environment variables that affect the arithmetic of MKL and oneDNN.
_ARITHMETIC = ("MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE")


def describe_environment() -> dict[str, str]:
    """Return everything besides the specification on which the exact bits of a result depend."""
    machine = describe_machine()
    return {
        "processor": machine.processor,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "system": machine.system,
        "python": machine.python,
        "torch": machine.torch,
        "attnlab": machine.attnlab,
        "code": _code_hash(),
        **{name: value for name in _ARITHMETIC if (value := os.environ.get(name))},
    }


@functools.cache
def _code_hash() -> str:
    """Return a hash of the source files of attnlab."""
    root = Path(__file__).parents[1]
    found = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


_PEAK_SIZES = (384, 1024, 1536)


@functools.cache
def matmul_peak(threads: int, seconds: float = 0.25) -> float:
    """Measure the best rate of a float32 matrix product here, in floating-point operations per second."""
    best = 0.0
    with using_threads(threads):
        for size in _PEAK_SIZES:
            a, b, product = torch.ones(size, size), torch.ones(size, size), torch.empty(size, size)
            end = time.perf_counter() + seconds / len(_PEAK_SIZES)
            while (begin := time.perf_counter()) < end:
                torch.mm(a, b, out=product)
                best = max(best, 2 * size**3 / (time.perf_counter() - begin))
    return best


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Have PyTorch compute with `count` threads inside, and with as many as before afterwards."""
    cores = available_cores()
    if not 1 <= count <= cores:
        raise SpecError(
            f"{count} threads cannot be measured on a machine with {plural(cores, 'core')}",
            hint=f"use 1 … {cores}: more threads than cores wait for each other" if cores > 1 else "use 1",
        )
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not available on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_quota() -> float | None:
    """Return how many cores' time the container of this process allows, or None without a limit."""
    limit = Path("/sys/fs/cgroup/cpu.max")
    words = limit.read_text(encoding="utf-8").split() if limit.is_file() else []
    return int(words[0]) / int(words[1]) if len(words) == 2 and words[0].isdigit() else None


def has_total_store_order() -> bool:
    """Return whether all cores see the stores of one in program order, as on x86; ARM, for one, promises less."""
    return platform.machine().lower() in {"x86_64", "amd64", "i386", "i686"}


def free_bytes() -> int | None:
    """Return the bytes of memory that a process may take now; None where the system does not say."""
    available = counted_bytes(Path("/proc/meminfo"), "MemAvailable")
    return min(filter(None, (memory_bytes(), available)), default=None)


def counted_bytes(listing: Path, name: str) -> int:
    """Return the bytes that the system lists under a name; 0 if it lists none, as for a process that has just ended."""
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB$", listing.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return 0
    return 1024 * int(found[1]) if found else 0


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.is_file():
        for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "unknown processor"


@functools.cache
def memory_bytes() -> int | None:
    """Return the bytes of memory that this process may use: the machine's, or what its container allows."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    limit = Path("/sys/fs/cgroup/memory.max")
    allowed = limit.read_text(encoding="utf-8").strip() if limit.is_file() else ""
    return min(memory, int(allowed)) if allowed.isdigit() else memory


def check_memory(what: str, needed: float, *, hint: str = "use a smaller model or batch") -> None:
    """Refuse what needs more bytes than this machine has."""
    memory = memory_bytes()
    if memory is not None and needed > memory:
        raise SpecError(
            f"{what} needs about {byte_count(int(needed))} of memory, and this machine has {byte_count(memory)}",
            hint=hint,
        )
