"""Many runs side by side on one machine: each in a process that has its share of the threads.

    results = run_side_by_side([RunSpec(seed=seed) for seed in range(8)], Path("runs"), processes=2)

Small models train faster so than one after the other with all threads, for threads of one process wait for each other
in every operation. Each run is what `train` makes of its spec: one that has ended is not trained again, one that was
interrupted goes on. What goes wrong with one run does not stop the others.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.errors import SpecError
from attnlab.training.children import Child, ChildError
from attnlab.training.ledger import DEFAULT_ROOT
from attnlab.training.machine import available_cores
from attnlab.training.run import RunResult
from attnlab.training.spec import RunSpec

_MODULE = "attnlab.training.grid_process"


@dataclass(frozen=True)
class GridResult:
    """What became of one run: its result, or why there is none."""

    spec: RunSpec
    result: RunResult | None
    problem: str | None = None


Ended = Callable[[int, GridResult], None]


def run_side_by_side(
    specs: Sequence[RunSpec],
    out: Path = Path(DEFAULT_ROOT),
    processes: int | None = None,
    threads: int | None = None,
    *,
    cache: Path | None = None,
    ended: Ended | None = None,
) -> list[GridResult]:
    """Train all specs below the folder `out`, `processes` at a time with `threads` each; the results are in order.

    By default there is a process for each core. `ended` is called with the number of a spec and what became of it, from
    whichever thread saw it end.
    """
    for name, wish in {"processes": processes, "threads": threads}.items():
        if wish is not None and wish < 1:
            raise SpecError(f"{wish} {name} cannot train", hint="use 1 or more, or leave it out")
    cores = available_cores()
    processes = min(processes or cores, max(1, len(specs)))
    threads = threads or max(1, cores // processes)
    grid = _Grid(specs, {"out": str(out), "threads": threads, "cache": None if cache is None else str(cache)}, ended)
    with ThreadPoolExecutor(processes) as pool:
        workers = [pool.submit(grid.work) for _ in range(processes)]
        try:
            for worker in workers:
                worker.result()
        except BaseException:
            grid.stop()
            raise
    return [grid.results[number] for number in range(len(specs))]


class _Grid:
    """The runs that are left, and what became of the others."""

    def __init__(self, specs: Sequence[RunSpec], options: dict[str, Any], ended: Ended | None) -> None:
        self.specs, self.options, self.ended = specs, options, ended
        self.results: dict[int, GridResult] = {}
        self._left: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._children: set[Child] = set()
        self._lock = threading.Lock()
        self._stopped = False
        for number in range(len(specs)):
            self._left.put(number)

    def work(self) -> None:
        """Train what is left, run after run, in one process as long as that lives."""
        child: Child | None = None
        try:
            while not self._stopped:
                try:
                    number = self._left.get_nowait()
                except queue.Empty:
                    return
                child = child or self._start()
                found = self._train(child, self.specs[number])
                if found.result is None and child.has_ended:
                    self._end(child)
                    child = None
                with self._lock:
                    self.results[number] = found
                if self.ended is not None:
                    self.ended(number, found)
        finally:
            if child is not None:
                self._end(child)

    def stop(self) -> None:
        """Ask every process to save and end."""
        with self._lock:
            self._stopped = True
            for child in self._children:
                child.interrupt()

    def _train(self, child: Child, spec: RunSpec) -> GridResult:
        try:
            answer = child.ask(spec=spec.model_dump(mode="json"), **self.options)
        except ChildError as error:
            return GridResult(spec, None, str(error))
        return GridResult(spec, RunResult(**{**answer, "path": Path(answer["path"])}))

    def _start(self) -> Child:
        child = Child(_MODULE, name="a process of the grid")
        with self._lock:
            self._children.add(child)
            if self._stopped:
                child.interrupt()
        return child

    def _end(self, child: Child) -> None:
        with self._lock:
            self._children.discard(child)
        child.close()
