"""Choose the micro-batch size that fits into memory, and the number of steps that fits into the given minutes.

A batch with large activations is split into micro-batches whose gradients are accumulated: as few rows at a time as
keep the matrix products at full speed. On a CPU this costs no time and saves most of the memory.
"""

from __future__ import annotations

import os
import time

from attnlab.corpora import Corpus
from attnlab.cost import model_cost
from attnlab.training.engine import Engine
from attnlab.training.execution import Execution, under_torchrun
from attnlab.training.limits import check_run
from attnlab.training.spec import ResolvedRun, RunSpec

_LARGE = 512 << 20  # bytes of activations below which a batch is not split
_ENOUGH = 1024  # tokens from which on products run at full speed
_WARM_UP = 2  # steps
_LONG = 5.0  # seconds per step, above which no warm-up is needed
_SECONDS = 1.5
_FOR_STEPS = 0.9  # of the time; the rest is for evaluations, checkpoints and a machine that slows down


def fitted(run: ResolvedRun) -> ResolvedRun:
    """Return the run with the rows that it takes at a time, where that was not given."""
    execution = run.execution
    if execution.micro_batch_size is not None or execution.device != "cpu":
        return run
    rows = -(-run.batch_size // execution.workers)
    least = -(-_ENOUGH // run.model.context_length)
    if least >= rows:
        return run  # without the cost model, which takes seconds the first time
    size = max(least, _LARGE // max(1, model_cost(run.model).activation_bytes))
    if size >= rows:
        return run
    size = -(-rows // -(-rows // size))  # about the same number in each
    return run.model_copy(update={"execution": execution.model_copy(update={"micro_batch_size": size})})


def steps_in(spec: RunSpec, corpus: Corpus, execution: Execution) -> int:
    """Return the steps that `spec.minutes` allow, evaluations and checkpoints included; kept with the run."""
    assert spec.minutes is not None
    alone = execution.model_copy(update={"workers": 1})
    run = spec.resolve(corpus, alone, steps=1)
    processes = int(os.environ["WORLD_SIZE"]) if under_torchrun() else execution.workers
    run = run.model_copy(update={"batch_size": max(1, run.batch_size // processes)})
    return max(1, int(spec.minutes * 60 * _FOR_STEPS / step_seconds(run, corpus)))


def step_seconds(run: ResolvedRun, corpus: Corpus, seconds: float = _SECONDS) -> float:
    """Return the time of one step in this process, measured for about so many seconds.

    If a batch is split, one micro-batch is timed for all; a long step is taken only once.
    """
    check_run(run)
    run = fitted(run)
    rows = run.execution.micro_batch_size or run.batch_size
    pieces = -(-run.batch_size // rows)
    engine = Engine.build(run.model_copy(update={"batch_size": min(rows, run.batch_size)}), corpus)
    for number in range(_WARM_UP):
        begin = time.perf_counter()
        engine.step(number)
        if (taken := time.perf_counter() - begin) > _LONG:
            return pieces * taken
    begin, steps = time.perf_counter(), 0
    while steps < 3 or time.perf_counter() - begin < seconds:
        engine.step(_WARM_UP + steps)
        steps += 1
    return pieces * (time.perf_counter() - begin) / steps
