"""How long a step takes, measured before the first; and so how many fit into the minutes that there are."""

from __future__ import annotations

import os
import time

from attnlab.corpora import Corpus
from attnlab.models import build_model
from attnlab.training.engine import Engine
from attnlab.training.execution import Execution, under_torchrun
from attnlab.training.optimizers import Optimizer
from attnlab.training.spec import ResolvedRun, RunSpec
from attnlab.training.team import Alone

_WARM_UP = 2
_SECONDS = 1.5
_FOR_STEPS = 0.9  # of the time; the rest is for evaluations, checkpoints and a machine that slows down


def steps_in(spec: RunSpec, corpus: Corpus, execution: Execution) -> int:
    """The steps that `spec.minutes` allow, evaluations and checkpoints included; kept with the run."""
    assert spec.minutes is not None
    alone = execution.model_copy(update={"workers": 1})
    run = spec.resolve(corpus, alone, steps=1)
    processes = int(os.environ["WORLD_SIZE"]) if under_torchrun() else execution.workers
    run = run.model_copy(update={"batch_size": max(1, run.batch_size // processes)})
    return max(1, int(spec.minutes * 60 * _FOR_STEPS / step_seconds(run, corpus)))


def step_seconds(run: ResolvedRun, corpus: Corpus, seconds: float = _SECONDS) -> float:
    """The time of one step in this process, measured for about so many seconds."""
    model = build_model(run.model, run.seed, run.execution.device)
    engine = Engine(run, corpus, model, Optimizer(run.optimizer, model, run.execution.dtype), Alone())
    for number in range(_WARM_UP):
        engine.step(number)
    begin, taken = time.perf_counter(), 0
    while taken < 3 or time.perf_counter() - begin < seconds:
        engine.step(_WARM_UP + taken)
        taken += 1
    return (time.perf_counter() - begin) / taken
