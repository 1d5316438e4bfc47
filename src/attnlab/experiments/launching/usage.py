"""The memory that a process held at most while it trained a run, kept with the run as usage.json.

The system remembers the peak of a process; Linux lets it be forgotten, so that a process that trains one run after the
other tells of each alone. Memory that the C library kept from the run before is given back first, or it would count.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
from pathlib import Path
from typing import Any

from attnlab.errors import FileError
from attnlab.storage.records import read_json, write_json

USAGE = "usage.json"
_FORGET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
_FORGET_PEAK = "5"  # what proc(5) calls resetting the high-water mark


def forget_peak() -> bool:
    """Let the peak be what is held now; whether that was possible."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # another C library
        trim: Any = ctypes.CDLL(None).malloc_trim
        trim(0)
    try:
        _FORGET.write_text(_FORGET_PEAK, encoding="ascii")
    except OSError:
        return False
    return True


def peak_bytes() -> int | None:
    """The most that this process has held since `forget_peak`."""
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None


def keep_peak(run: Path, peak: int | None) -> int | None:
    """Keep the peak of a run with it. Of a run that was interrupted, it is the highest of all its processes."""
    known = [one for one in (peak, read_peak(run)) if one is not None]
    if not known:
        return None
    with contextlib.suppress(FileError):  # the run is worth more than this number
        write_json(run / USAGE, {"peak_bytes": max(known)})
    return max(known)


def read_peak(run: Path) -> int | None:
    """The peak that is kept with a run, if there is one."""
    try:
        found = read_json(run / USAGE).get("peak_bytes")
    except FileError:
        return None
    return found if isinstance(found, int) and not isinstance(found, bool) else None
