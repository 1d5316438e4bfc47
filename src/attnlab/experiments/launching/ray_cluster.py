"""Jobs as tasks of a Ray cluster: one that is there, or one of this machine's cores that lasts as long as the jobs.

All nodes must see the folder of the runs at the same path. Nothing about the use of Ray is sent anywhere.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from attnlab.errors import AttnlabError, SpecError, check_extra, import_extra
from attnlab.experiments.launching.jobs import Job, JobEnd, LaunchListener, Work
from attnlab.experiments.launching.status_table import POLL, StatusTable, interruptible
from attnlab.experiments.launching.worker import attempt
from attnlab.processes.machine import available_cores

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # what a later Ray does anyway, and this one warns of
}
_STORE = 100 << 20  # bytes for what tasks give each other, which is next to nothing
_PATIENCE = 60.0  # seconds that runs have to save when they are asked to stop
_LONGEST = 40  # characters of a folder that Ray's sockets, whose paths are limited, can lie below


class RayLauncher:
    """Has jobs done by Ray. With `processes`, so many at a time; else as many as the cluster has room for."""

    def __init__(
        self, work: Work, processes: int | None = None, *, address: str | None = None, gpus: float = 0
    ) -> None:
        check_extra("ray", "ray")
        if gpus < 0:
            raise SpecError(f"{gpus} graphics cards cannot train", hint="use 0 or more")
        self.work, self.threads = work, work.threads
        self.processes = processes or max(1, available_cores() // work.threads)
        self._limit, self._gpus = processes, gpus
        self._address = address or os.environ.get("RAY_ADDRESS")

    def run(self, jobs: Sequence[Job], *, listener: LaunchListener | None = None) -> list[JobEnd]:
        """Have all jobs done. Interrupted, it has every run saved and stopped, and raises KeyboardInterrupt."""
        table = StatusTable(jobs, self.work, listener)
        if table.left:
            with _connected(self._address, self.processes * self.threads) as ray, interruptible():
                _note_room(ray, table, self.threads)
                options = {"num_cpus": self.threads, "num_gpus": self._gpus}
                _Tasks(ray, table, options, self._limit).finish()
        return table.ends()


class _Tasks:
    """The tasks that are under way."""

    def __init__(self, ray: Any, table: StatusTable, options: Mapping[str, float], limit: int | None) -> None:
        self._ray, self._table, self._limit = ray, table, limit
        # A lost task is submitted again by us, so that the user hears of it and no job is tried for ever.
        self._task = ray.remote(attempt).options(**options, max_retries=0, scheduling_strategy="SPREAD")
        self._waiting = deque(table.left)
        self._running: dict[Any, int] = {}

    def finish(self) -> None:
        """Have all jobs done."""
        try:
            while self._waiting or self._running:
                self._submit()
                done, _ = self._ray.wait(list(self._running), num_returns=1, timeout=POLL)
                for task in done:
                    number = self._running.pop(task)
                    if self._settle(task, number):
                        self._waiting.append(number)
                self._table.look()
        except BaseException:
            self._stop()
            raise

    def _submit(self) -> None:
        while self._waiting and (self._limit is None or len(self._running) < self._limit):
            number = self._waiting.popleft()
            self._running[self._task.remote(self._table.order(number))] = number

    def _settle(self, task: Any, number: int) -> bool:
        """Note how a job ended; return whether it must be taken up again."""
        try:
            return self._table.answer(number, self._ray.get(task))
        except self._ray.exceptions.RayError as error:  # its worker or its node is gone
            return self._table.lose(number, str(error))

    def _stop(self) -> None:
        """Ask every task to save its run and end; one that has not begun never does."""
        tasks = list(self._running)
        with suppress(self._ray.exceptions.RayError):
            for task in tasks:
                self._ray.cancel(task, force=False)
            self._ray.wait(tasks, num_returns=len(tasks), timeout=_PATIENCE)


def _note_room(ray: Any, table: StatusTable, threads: int) -> None:
    largest = max((node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=0)
    if largest < threads:
        table.listener.note(
            f"no node of the cluster has {threads} cores, the largest {largest:g}: the runs wait for one that has"
        )


@contextmanager
def _connected(address: str | None, cores: int) -> Iterator[Any]:
    """Yield a connected Ray: as it is if it is already, and disconnected afterwards if it was not."""
    os.environ.update(_ENVIRONMENT)
    ray = import_extra("ray", "ray")
    if ray.is_initialized():
        yield ray
        return
    with interruptible(heard=False):  # Ray changes how this process takes SIGTERM
        if address is not None and address != "local":
            _connect(ray, address)
            try:
                yield ray
            finally:
                ray.shutdown()
            return
        folder = tempfile.mkdtemp(prefix="ray-")
        try:
            _start(ray, folder, cores)
            yield ray
        finally:
            ray.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


def _connect(ray: Any, address: str) -> None:
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise AttnlabError(
            f"no Ray cluster can be reached at {address!r}: {str(error).splitlines()[0]}",
            hint="`ray start --head` begins one and tells its address; without an address this machine is the cluster",
        ) from error


def _start(ray: Any, folder: str, cores: int) -> None:
    if len(folder) > _LONGEST:
        raise AttnlabError(
            f"Ray cannot use the temporary folder {folder}: its path is too long for a socket",
            hint="name one with a shorter path by the environment variable TMPDIR",
        )
    ray.init(
        address="local",
        num_cpus=cores,
        object_store_memory=_STORE,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        _temp_dir=folder,
    )
