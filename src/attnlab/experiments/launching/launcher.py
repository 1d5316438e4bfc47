"""Many idempotent runs, wherever they run: on this machine, on a Ray cluster, or on Slurm.

    ends = launcher("local").run([Job(0, RunSpec(seed=0), Path("runs")), Job(1, RunSpec(seed=1), Path("runs"))])

A job whose run has ended is not done again, and starts nothing. A worker that is lost costs the steps since the last
checkpoint: the job is taken up again. On a cluster the folder of the runs must be one that all machines share, at the
same path and with file locks, and all machines must have the same attnlab, Python and text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from attnlab.errors import SpecError, UnknownNameError
from attnlab.experiments.launching.jobs import Job, JobEnd, Launcher, LaunchListener, Work
from attnlab.experiments.launching.ray_cluster import RayLauncher
from attnlab.experiments.launching.slurm import SlurmLauncher
from attnlab.experiments.launching.status_table import RETAKES, StatusTable, interruptible
from attnlab.processes.pool import Answered, PoolListener, WorkerPool
from attnlab.runs.directory import RunResult
from attnlab.training.execution import check_counts, default_precision, divide_cores

_MODULE = "attnlab.experiments.launching.worker"


def launcher(
    on: str | None = None,
    processes: int | None = None,
    threads: int | None = None,
    address: str | None = None,
    **options: Any,
) -> Launcher:
    """Return what has jobs done: "local" (the default), "ray" or "slurm".

    `processes` jobs are done at a time, with `threads` each. `address` is that of a Ray cluster. The options are those
    of `Work`; for ray `gpus`, of each job; for slurm `parameters`, as in {"partition": "short", "time": 60, "gpus": 1},
    and `cluster`.
    """
    name = on or "local"
    if name not in LAUNCHERS:
        raise UnknownNameError("way to launch runs", name, LAUNCHERS)
    if address is not None and name != "ray":
        raise SpecError(f"an address is that of a Ray cluster, and {name} has none", hint="leave it out, or use ray")
    check_counts(processes=processes, threads=threads)
    if address is not None:
        options["address"] = address
    return LAUNCHERS[name](processes, threads, **options)


def _local(processes: int | None, threads: int | None, *, precision: str | None = None, **options: Any) -> Launcher:
    processes, threads = divide_cores(processes, threads)
    precision = precision or default_precision("cuda" if torch.cuda.is_available() else "cpu")
    return LocalLauncher(_work(threads, precision=precision, **options), processes)


def _ray(
    processes: int | None, threads: int | None, *, address: str | None = None, gpus: float = 0, **options: Any
) -> Launcher:
    return RayLauncher(_work(threads or 1, **options), processes, address=address, gpus=gpus)


def _slurm(
    processes: int | None,
    threads: int | None,
    *,
    cluster: str = "slurm",
    parameters: Mapping[str, Any] | None = None,
    **options: Any,
) -> Launcher:
    return SlurmLauncher(_work(threads or 1, **options), processes, cluster=cluster, parameters=parameters)


def _work(threads: int, **options: Any) -> Work:
    known = set(Work.__dataclass_fields__) - {"threads"}
    unknown = sorted(set(options) - known)
    if unknown:
        raise UnknownNameError("option of a launcher", unknown[0], known)
    given = {name: value for name, value in options.items() if value is not None}
    given |= {name: Path(given[name]) for name in ("cache", "variants_from") if name in given}
    return Work(threads=threads, **given)


class LocalLauncher:
    """Has jobs done by processes that are started when there is something to do, and never outlive this one."""

    def __init__(self, work: Work, processes: int) -> None:
        self.work, self.processes, self.threads = work, processes, work.threads

    def run(self, jobs: Sequence[Job], *, listener: LaunchListener | None = None) -> list[JobEnd]:
        """Have all jobs done. Interrupted, it has every run saved and stopped, and raises KeyboardInterrupt."""
        table = StatusTable(jobs, self.work, listener)
        if table.left:
            pool = WorkerPool(_MODULE, self.processes, unfinished=_why_unfinished, retakes=RETAKES)
            with interruptible():
                pool.ask_all([table.order(number) for number in table.left], _TableListener(table))
        return table.ends()


def _why_unfinished(answer: Mapping[str, Any]) -> str | None:
    return RunResult.from_plain(answer["result"]).why_unfinished


class _TableListener(PoolListener):
    """Notes in the status table what the worker pool tells."""

    def __init__(self, table: StatusTable) -> None:
        self._table, self._numbers = table, list(table.left)

    def answered(self, number: int, answer: Answered) -> None:
        if answer.content is None:
            self._table.fail(self._numbers[number], answer.problem or "no answer")
        else:
            self._table.answer(self._numbers[number], answer.content)
        self._table.look()

    def lost(self, number: int, reason: str, retake: int) -> None:
        self._table.note_loss(self._numbers[number], reason, retake)

    def tick(self) -> None:
        self._table.look()


LAUNCHERS: dict[str, Callable[..., Launcher]] = {"local": _local, "ray": _ray, "slurm": _slurm}
