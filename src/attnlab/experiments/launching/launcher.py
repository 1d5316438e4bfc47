"""Many idempotent runs, wherever they run: on this machine, on a Ray cluster, or on Slurm.

    ends = launcher("local").run([Job(0, RunSpec(seed=0), Path("runs")), Job(1, RunSpec(seed=1), Path("runs"))])

A job whose run has ended is not done again, and starts nothing. A worker that is lost costs the steps since the last
checkpoint: the job is taken up again. On a cluster the folder of the runs must be one that all machines share, at the
same path and with file locks, and all machines must have the same attnlab, Python and text.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from attnlab.errors import SpecError, UnknownNameError
from attnlab.experiments.launching.jobs import Job, JobEnd, Launcher, LaunchListener, Work
from attnlab.experiments.launching.local import LocalLauncher
from attnlab.experiments.launching.ray_cluster import RayLauncher
from attnlab.experiments.launching.slurm import SlurmLauncher
from attnlab.training.execution import divide_cores, fast_precision

__all__ = ["LAUNCHERS", "Job", "JobEnd", "LaunchListener", "Launcher", "Work", "launcher"]


def launcher(
    on: str | None = None,
    processes: int | None = None,
    threads: int | None = None,
    address: str | None = None,
    **options: Any,
) -> Launcher:
    """Whatever has jobs done: "local" (the default), "ray" or "slurm".

    `processes` jobs are done at a time, with `threads` each. `address` is that of a Ray cluster. The options are those
    of `Work`; for ray `gpus`, of each job; for slurm `parameters`, as in {"partition": "short", "time": 60, "gpus": 1},
    and `cluster`.
    """
    name = on or "local"
    if name not in LAUNCHERS:
        raise UnknownNameError("way to launch runs", name, LAUNCHERS)
    if address is not None and name != "ray":
        raise SpecError(f"an address is that of a Ray cluster, and {name} has none", hint="leave it out, or use ray")
    if processes is not None and processes < 1:
        raise SpecError(f"{processes} processes cannot train", hint="use 1 or more, or leave it out")
    if address is not None:
        options["address"] = address
    return LAUNCHERS[name](processes, threads, options)


def _local(processes: int | None, threads: int | None, options: dict[str, Any]) -> Launcher:
    processes, threads = divide_cores(processes, threads)
    if options.get("precision") is None:  # measured once, and not by each process for itself
        options["precision"] = fast_precision("cuda" if torch.cuda.is_available() else "cpu")
    return LocalLauncher(_work(threads, options), processes)


def _ray(processes: int | None, threads: int | None, options: dict[str, Any]) -> Launcher:
    own = {name: options.pop(name) for name in ("address", "gpus") if name in options}
    return RayLauncher(_work(threads or 1, options), processes, **own)


def _slurm(processes: int | None, threads: int | None, options: dict[str, Any]) -> Launcher:
    own = {name: options.pop(name) for name in ("cluster", "parameters") if name in options}
    return SlurmLauncher(_work(threads or 1, options), processes, **own)


def _work(threads: int, options: dict[str, Any]) -> Work:
    known = set(Work.__dataclass_fields__) - {"threads"}
    unknown = sorted(set(options) - known)
    if unknown:
        raise UnknownNameError("option of a launcher", unknown[0], known)
    given = {name: value for name, value in options.items() if value is not None}
    paths: dict[str, Any] = {name: Path(given[name]) for name in ("cache", "variants_from") if name in given}
    return Work(threads=threads, **{**given, **paths})


LAUNCHERS: dict[str, Callable[[int | None, int | None, dict[str, Any]], Launcher]] = {
    "local": _local,
    "ray": _ray,
    "slurm": _slurm,
}
