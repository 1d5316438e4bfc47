"""Where a job is done: in a local process, a task of Ray or a job of Slurm, all by the same function.

It answers with plain data: the result, the peak of memory, and what went wrong after the run, if anything did.

The peak of memory is kept with the run as usage.json. The system remembers the peak of a process; Linux lets it be
reset, so that a process that trains one run after the other tells of each alone. Memory that the C library kept from
the run before is given back first, or it would count.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import os
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.attention.names.files import load_source
from attnlab.corpora import open_corpus
from attnlab.errors import AttnlabError, FileError
from attnlab.processes.child import serve_until_alone
from attnlab.runs import RunHeldError
from attnlab.runs.directory import METRICS
from attnlab.storage.records import read_json, to_plain, write_json
from attnlab.training import RunResult, RunSpec, Saving, train

USAGE = "usage.json"
_PATIENCE = 60.0  # seconds without a step after which another process's run is not waited for any more
_POLL = 0.5  # seconds
_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
_RESET_PEAK = "5"  # what proc(5) calls resetting the high-water mark


def perform(order: Mapping[str, Any]) -> dict[str, Any]:
    """Do one job: train its run or resume it, see what memory that takes, and do what comes after."""
    if Path(order["here"]).is_dir():
        os.chdir(order["here"])
    if order["variants"] is not None:
        _load_variants(**order["variants"])
    resets = reset_peak()
    result = _train(order)
    peak = keep_peak(result.path, peak_bytes() if resets and not result.already else None)
    problem = _after(order["after"], result.path) if result.outcome == "finished" else None
    return {"result": to_plain(result), "peak_bytes": peak, "problem": problem}


def attempt(order: Mapping[str, Any]) -> Mapping[str, Any]:
    """Do one job; what goes wrong is an answer too, which any system can carry: {"error": why}."""
    try:
        return perform(order)
    except AttnlabError as error:
        return {"error": str(error)}
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


def _train(order: Mapping[str, Any]) -> RunResult:
    spec, out = RunSpec(**order["spec"]), Path(order["out"])
    cache = None if order["cache"] is None else Path(order["cache"])
    if spec.name(open_corpus(spec.corpus, cache).hash) != order["name"]:
        raise FileError(
            f"the text {spec.corpus.name!r} is another one here than where the grid was begun",
            hint="use the same files, and the same version of Python, on all machines",
        )
    saving = None if order["saving"] is None else Saving(**order["saving"])
    since = time.time()
    while True:
        try:
            return train(spec, out, cache=cache, saving=saving, **order["execution"])
        except RunHeldError:  # by a process that is about to end, or by another grid that has the same run
            if not _gets_on(out / order["name"], since):
                raise
            time.sleep(_POLL)


def _gets_on(path: Path, since: float) -> bool:
    """Return whether another process's run took a step lately, or may still take one: we wait since then."""
    with contextlib.suppress(OSError):
        since = max(since, (path / METRICS).stat().st_mtime)
    return time.time() - since < _PATIENCE


@functools.cache
def _load_variants(name: str, text: str) -> None:
    load_source(text, name)


def _after(name: str | None, path: Path) -> str | None:
    """Call what is to be called after a run; return why that failed, if it did."""
    if name is None:
        return None
    module, _, function = name.partition(":")
    try:
        getattr(importlib.import_module(module), function)(path)
    except AttnlabError as error:
        return f"{name} failed after the run: {error}"
    except Exception as error:
        return f"{name} failed after the run: {type(error).__name__}: {error}"
    return None


def reset_peak() -> bool:
    """Make the peak what is held now; return whether that was possible."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # another C library
        trim: Any = ctypes.CDLL(None).malloc_trim
        trim(0)
    try:
        _CLEAR.write_text(_RESET_PEAK, encoding="ascii")
    except OSError:
        return False
    return True


def peak_bytes() -> int | None:
    """Return the most that this process has held since `reset_peak`."""
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None


def keep_peak(run: Path, peak: int | None) -> int | None:
    """Keep the peak of a run with it; of a run that was interrupted, the highest of all its processes."""
    known = [one for one in (peak, read_peak(run)) if one is not None]
    if not known:
        return None
    with contextlib.suppress(FileError):  # the run is worth more than this number
        write_json(run / USAGE, {"peak_bytes": max(known)})
    return max(known)


def read_peak(run: Path) -> int | None:
    """Return the peak that is kept with a run, if there is one."""
    try:
        found = read_json(run / USAGE).get("peak_bytes")
    except FileError:
        return None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


if __name__ == "__main__":
    gc.freeze()  # what is imported stays: no need to search it for garbage after every run
    serve_until_alone(perform)
