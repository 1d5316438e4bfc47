"""Many runs side by side on one machine: each in a process that has its share of the threads.

    results = run_side_by_side([RunSpec(seed=seed) for seed in range(8)], Path("runs"), processes=2)

Small models train faster so than one after the other with all threads, for threads of one process wait for each other
in every operation. Each run is what `train` makes of its spec: one that has ended is not trained again, one that was
interrupted goes on, also when its process was killed. What goes wrong with one run does not stop the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.errors import SpecError
from attnlab.processes.crew import Answered, Crew, CrewListener
from attnlab.processes.machine import available_cores
from attnlab.runs.ledger import DEFAULT_ROOT
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

    By default there is a process for each core. `ended` is called with the number of a spec and what became of it.
    """
    processes, threads = divide_cores(processes, threads)
    options = {"out": str(out), "threads": threads, "cache": None if cache is None else str(cache)}
    listener = _Telling(specs, ended)
    crew = Crew(_MODULE, processes, unfinished=why_unfinished)
    answers = crew.ask_all([{"spec": spec.model_dump(mode="json"), **options} for spec in specs], listener)
    return [_result(spec, answer) for spec, answer in zip(specs, answers, strict=True)]


def divide_cores(processes: int | None, threads: int | None) -> tuple[int, int]:
    """What is given of both, and of the rest what this machine has: a process for each core, or threads for all."""
    for name, wish in {"processes": processes, "threads": threads}.items():
        if wish is not None and wish < 1:
            raise SpecError(f"{wish} {name} cannot train", hint="use 1 or more, or leave it out")
    cores = available_cores()
    processes = processes or max(1, cores // (threads or 1))
    return processes, threads or max(1, cores // processes)


def why_unfinished(result: Mapping[str, Any]) -> str | None:
    """Why a run that a process answered with must be gone on with: somebody else asked that process to end."""
    return "the process was asked to end, and saved its run" if result["outcome"] == "stopped" else None


def result_of(answer: Mapping[str, Any]) -> RunResult:
    """A result that came as JSON."""
    return RunResult(**{**answer, "path": Path(answer["path"])})


@dataclass(frozen=True)
class _Telling(CrewListener):
    specs: Sequence[RunSpec]
    ended: Ended | None

    def answered(self, number: int, answer: Answered) -> None:
        if self.ended is not None:
            self.ended(number, _result(self.specs[number], answer))


def _result(spec: RunSpec, answer: Answered) -> GridResult:
    return GridResult(spec, None if answer.content is None else result_of(answer.content), answer.problem)
