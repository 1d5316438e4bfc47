"""How this machine runs a model: threads, processes, precision, compilation.

They are chosen once, before the first step, and saved with the run: a run gives the same numbers only with the same
number of threads and the same precision.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Literal

import torch
from pydantic import PositiveInt

from attnlab.errors import SpecError
from attnlab.processes.machine import available_cores, cpu_quota, has_total_store_order
from attnlab.specification import Specification

MOST_AT_ONCE = 1024  # threads or processes


class Execution(Specification):
    """The settings that are fixed before step 0 and kept for the whole run."""

    what = "an execution"

    device: str = "cpu"
    threads: PositiveInt = 1  # per process
    workers: PositiveInt = 1  # local processes that share one batch
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    micro_batch_size: PositiveInt | None = None  # rows per forward pass; None: all at once

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.precision == "bfloat16" else torch.float32


def check_counts(**counts: int | None) -> None:
    """Refuse numbers of threads or processes, by their names, that no machine runs; PyTorch would end the process."""
    for name, count in counts.items():
        if count is not None and not 1 <= count <= MOST_AT_ONCE:
            raise SpecError(f"{name} is {count}", hint=f"use `{name}=1` or more, up to {MOST_AT_ONCE}, or leave it out")


def choose_execution(
    batch_size: int,
    *,
    threads: int | None = None,
    workers: int | None = None,
    precision: Literal["float32", "bfloat16"] | None = None,
    compile: bool = False,
    micro_batch_size: int | None = None,
) -> Execution:
    """Return the execution: the given options, and the best of this machine for the rest.

    Parameters
    ----------
    batch_size
        Rows per step.
    threads
        Threads per process.
    workers
        Processes that share each batch.
    precision
        float32 or bfloat16.
    compile
        Whether PyTorch compiles the model.
    micro_batch_size
        Rows per forward pass.
    """
    check_counts(threads=threads, workers=workers)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    cores = available_cores()
    if under_torchrun() or device != "cpu":
        if workers not in {None, 1}:
            raise SpecError("workers are for a CPU and one machine", hint="leave `workers` out: torchrun has its own")
        workers = 1
        cores = max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    if workers is None:
        workers = max(1, cores // (threads or 1)) if prefers_workers(cores) else 1
    if workers > batch_size:
        workers = batch_size
    return Execution(
        device=device,
        threads=threads or max(1, cores // workers),
        workers=workers,
        precision=precision or default_precision(device),
        compile=compile,
        micro_batch_size=micro_batch_size,
    )


def prefers_workers(cores: int) -> bool:
    """Return whether one worker process for each core is the default on this machine.

    Two workers of one thread took 41 ms a step where one process of two threads took 52 ms (see `docs/log.md`). They
    are forked while PyTorch is loaded, which is safe on Linux and not on macOS, and they spin on shared counters, which
    needs the memory order of x86 and cores of their own: under a smaller CPU quota they would take time from each
    other. The answer does not depend on anything that changes from run to run, because it affects rounding.
    """
    quota = cpu_quota()
    enough = quota is None or quota >= cores
    return sys.platform.startswith("linux") and hasattr(os, "fork") and has_total_store_order() and enough


def divide_cores(processes: int | None, threads: int | None) -> tuple[int, int]:
    """Return how many processes train at a time and the threads of each: by default a process for each core."""
    check_counts(processes=processes, threads=threads)
    cores = available_cores()
    processes = processes or max(1, cores // (threads or 1))
    return processes, threads or max(1, cores // processes)


def under_torchrun() -> bool:
    """Return whether this process is one of those that `torchrun` started."""
    return "WORLD_SIZE" in os.environ and "RANK" in os.environ


def default_precision(device: str) -> Literal["float32", "bfloat16"]:
    """Return bfloat16 on a GPU that computes in it, else float32: on CPUs the same run gives the same numbers.

    Some CPUs multiply matrices faster in bfloat16, but small models train at half the speed in it (see `docs/log.md`),
    and a measurement that decides could decide otherwise on the next machine.
    """
    if device == "cpu":
        return "float32"
    return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float32"


def can_compile() -> bool:
    """Return whether torch.compile finds what it needs on this machine."""
    return torch.cuda.is_available() or shutil.which("g++") is not None or shutil.which("clang++") is not None
