"""Jobs of Slurm, submitted through submitit: an array of all runs, each a job that can be put back into the queue.

A job that is preempted or runs out of time is queued again by submitit and resumes from the run's last checkpoint. The
folder of the runs must be one that all nodes share; what the jobs say lies in it under slurm/.
"""

from __future__ import annotations

import re
import shutil
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attnlab.errors import AttnlabError, SpecError, UnknownNameError, check_extra, import_extra
from attnlab.experiments.launching.jobs import Job, JobEnd, LaunchListener, Work
from attnlab.experiments.launching.status_table import POLL, StatusTable, interruptible
from attnlab.experiments.launching.worker import attempt

LOGS = "slurm"
CLUSTERS = ("slurm", "local")  # the latter: processes of this machine, to try it out
_SHORT = {"time": "timeout_min", "gpus": "gpus_per_node", "memory": "mem_gb"}
_SHARED = ("name", "timeout_min", "mem_gb", "nodes", "cpus_per_task", "gpus_per_node", "tasks_per_node")
_AT_A_TIME = 16
_MINUTES = 60
_PATIENCE = 30.0  # seconds that runs have to save when they are cancelled, which is what Slurm gives them
_TAIL = 3  # lines of what a job said before it was lost


class Task:
    """What is submitted. It needs nothing but its order, so that it can begin again anywhere."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self.order = order

    def __call__(self) -> Mapping[str, Any]:
        return attempt(self.order)

    def checkpoint(self) -> Any:
        """Return what submitit queues when the job is preempted or out of time: the same again, for the run resumes."""
        return import_extra("submitit.helpers", "slurm").DelayedSubmission(self)


class SlurmLauncher:
    """Has jobs done by Slurm, `processes` at a time.

    `parameters` are `partition`, `time` (minutes, or as in 1:30:00), `gpus`, `memory` (GiB), `cpus_per_task`, and any
    other that sbatch knows, such as `account` or `qos`.
    """

    def __init__(
        self,
        work: Work,
        processes: int | None = None,
        *,
        cluster: str = "slurm",
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        check_extra("submitit", "slurm")
        if cluster not in CLUSTERS:
            raise UnknownNameError("cluster", cluster, CLUSTERS)
        if cluster == "slurm" and shutil.which("sbatch") is None:
            raise AttnlabError(
                "there is no Slurm here: sbatch is not found", hint="call this where sbatch can be called"
            )
        self.work, self.threads, self.processes = work, work.threads, processes or _AT_A_TIME
        self._cluster = cluster
        self._parameters = _translate({"time": _MINUTES, "cpus_per_task": work.threads, **(parameters or {})})

    def run(self, jobs: Sequence[Job], *, listener: LaunchListener | None = None) -> list[JobEnd]:
        """Have all jobs done. Interrupted, it cancels them, which saves their runs, and raises KeyboardInterrupt."""
        table = StatusTable(jobs, self.work, listener)
        if table.left:
            executor = self._executor(table.jobs[table.left[0]].out / LOGS)
            with interruptible():
                # Slurm keeps to the limit by itself; processes of this machine do not.
                _Submissions(executor, table, None if self._cluster == "slurm" else self.processes).finish()
        return table.ends()

    def _executor(self, folder: Path) -> Any:
        submitit = import_extra("submitit", "slurm")
        parameters = {"name": "attnlab", "slurm_array_parallelism": self.processes, **self._parameters}
        try:
            executor = submitit.AutoExecutor(folder=folder.resolve(), cluster=self._cluster)
            executor.update_parameters(**parameters)
        except (NameError, AssertionError, ValueError, TypeError) as error:
            raise SpecError(
                f"Slurm cannot be asked for that: {str(error).splitlines()[0]}",
                hint="use partition, time, gpus, memory, cpus_per_task, or the long name of another option of sbatch",
            ) from None
        except OSError as error:
            raise AttnlabError(f"{folder} cannot be made: {error}", hint="choose a folder of your own") from error
        return executor


class _Submissions:
    """The jobs that are submitted."""

    def __init__(self, executor: Any, table: StatusTable, limit: int | None) -> None:
        self._executor, self._table, self._limit = executor, table, limit
        self._waiting = deque(table.left)
        self._running: dict[int, Any] = {}

    def finish(self) -> None:
        """Have all jobs done."""
        try:
            while self._waiting or self._running:
                self._submit()
                for number, submitted in list(self._running.items()):
                    if submitted.done():
                        del self._running[number]
                        if self._settle(submitted, number):
                            self._waiting.append(number)
                self._table.look({number: job.state for number, job in self._running.items()})
                if self._running:
                    time.sleep(POLL)
        except BaseException:
            self._stop()
            raise

    def _submit(self) -> None:
        room = len(self._waiting) if self._limit is None else self._limit - len(self._running)
        numbers = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
        if not numbers:
            return
        try:
            with self._executor.batch():
                submitted = [self._executor.submit(Task(self._table.order(number))) for number in numbers]
        except Exception as error:  # sbatch says no in many ways
            raise AttnlabError(f"the jobs could not be submitted: {error}", hint="see what sbatch says") from error
        self._running |= dict(zip(numbers, submitted, strict=True))

    def _settle(self, submitted: Any, number: int) -> bool:
        """Note how a job ended; return whether it must be taken up again."""
        if not submitted.paths.result_pickle.exists():
            if self._table.is_over(number):
                self._table.find(number)
                return False
            said = f"job {submitted.job_id} was lost (state {submitted.state}){_last_words(submitted.paths.stderr)}"
            return self._table.lose(number, said)
        try:
            content = submitted.result()
        except Exception as error:  # whatever happened there comes as what submitit makes of it
            return self._table.lose(number, f"job {submitted.job_id} failed: {error}")
        for pickle in (submitted.paths.submitted_pickle, submitted.paths.result_pickle):
            pickle.unlink(missing_ok=True)
        return self._table.answer(number, content)

    def _stop(self) -> None:
        """Cancel all jobs, and give them time to save."""
        for submitted in self._running.values():
            submitted.cancel(check=False)
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end and not all(job.done() for job in self._running.values()):
            time.sleep(POLL / 4)


def _translate(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return parameters by the names that submitit has for them."""
    translated = {}
    for name, value in parameters.items():
        key = _SHORT.get(name, name)
        if key == "timeout_min":
            value = _minutes(value)
        elif isinstance(value, str) and value.isdigit():
            value = int(value)
        translated[key if key in _SHARED or key.startswith("slurm_") else f"slurm_{key}"] = value
    return translated


def _minutes(value: Any) -> int:
    """Return minutes, also of [days-]hours:minutes:seconds."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", str(value))
    if found:
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        value = (days * 24 + hours) * 60 + minutes + (seconds > 0)
    if not str(value).isdigit() or int(value) < 1:
        raise SpecError(f"a job cannot have {value!r} as its time", hint="use minutes, as in 60, or 1:30:00")
    return int(value)


def _last_words(log: Path) -> str:
    try:
        lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    return "".join(f"\n  {line}" for line in lines[-_TAIL:])
