"""Where a job is done: in a local process, a task of Ray or a job of Slurm, all by the same function.

It answers with plain data: the result, the peak of memory, and what went wrong after the run, if anything did.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.attention import load_variants
from attnlab.corpora import open_corpus
from attnlab.errors import AttnlabError, FileError
from attnlab.experiments.launching.usage import forget_peak, keep_peak, peak_bytes
from attnlab.processes.child import serve_until_alone
from attnlab.runs import RunHeldError
from attnlab.runs.directory import METRICS
from attnlab.storage.records import to_plain
from attnlab.training import RunResult, RunSpec, Saving, train

_PATIENCE = 60.0  # seconds without a step after which somebody else's run is not waited for any more
_LOOK = 0.5


def perform(order: Mapping[str, Any]) -> dict[str, Any]:
    """Do one job: train its run or go on with it, see what memory that takes, and do what comes after."""
    if Path(order["here"]).is_dir():
        os.chdir(order["here"])
    if order["variants_from"] is not None:
        _load_variants(order["variants_from"])
    resets = forget_peak()
    result = _train(order)
    peak = keep_peak(result.path, peak_bytes() if resets and not result.already else None)
    problem = _after(order["after"], result.path) if result.outcome == "finished" else None
    return {"result": to_plain(result), "peak_bytes": peak, "problem": problem}


def attempt(order: Mapping[str, Any]) -> dict[str, Any]:
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
    if spec.name(open_corpus(spec.corpus, cache)) != order["name"]:
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
            time.sleep(_LOOK)


def _gets_on(path: Path, since: float) -> bool:
    """Whether somebody else's run took a step lately, or may still take one: we wait since then."""
    with contextlib.suppress(OSError):
        since = max(since, (path / METRICS).stat().st_mtime)
    return time.time() - since < _PATIENCE


@functools.cache
def _load_variants(path: str) -> None:
    load_variants(Path(path))


def _after(name: str | None, path: Path) -> str | None:
    """Call what is to be called after a run; why that failed, if it did."""
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


if __name__ == "__main__":
    gc.freeze()  # what is imported stays: no need to search it for garbage after every run
    serve_until_alone(perform)
