"""Repeat steps of a run from one of its saved states, and evaluate weights again.

Nothing is written. On the machine, build and version that trained the run, the results are bit for bit the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attnlab.corpora import Corpus
from attnlab.errors import FileError
from attnlab.runs.receipts import State, state_hashes
from attnlab.training.engine import Engine, LocalProcesses, make_process_group
from attnlab.training.loop import metrics_of
from attnlab.training.spec import ResolvedRun


@dataclass
class Replay:
    """The metrics of every repeated step, and the hashes of the state at the requested steps."""

    metrics: list[dict[str, float | int]] = field(default_factory=list)
    hashes: dict[int, dict[str, str]] = field(default_factory=dict)


def replay(
    run: ResolvedRun, corpus: Corpus, first: int, last: int, *, state: State | None = None, at: Collection[int] = ()
) -> Replay:
    """Take the steps after `first` up to `last`, from `state`, or from new weights; hash the state `at` these steps."""
    found = Replay()

    def work(engine: Engine) -> None:
        leads = engine.group.leads
        for done in range(first, last + 1):
            if done > first:
                step = engine.step(done - 1)
                validation = engine.evaluate() if step.is_finite and run.is_evaluated(done) else None
                found.metrics.append(metrics_of(run, done, step, validation))
            if done in at and leads:
                found.hashes[done] = state_hashes({"weights": _weights(engine), "optimizer": engine.optimizer.state()})

    with _engine(run, corpus) as (engine, start):
        if state is not None:
            _load(engine, state["weights"])
            _load_optimizer(engine, state["optimizer"])
        start(work)
    return found


def evaluate_again(run: ResolvedRun, corpus: Corpus, weights: Mapping[str, Tensor]) -> float:
    """Return the validation loss of these weights, computed as the run computed it."""
    found = []
    with _engine(run, corpus) as (engine, start):
        _load(engine, weights)
        start(lambda engine: found.append(engine.evaluate()))
    return found[0]


@contextmanager
def _engine(run: ResolvedRun, corpus: Corpus) -> Iterator[tuple[Engine, Callable[[Callable[[Engine], None]], None]]]:
    """Yield an engine with the run's threads and processes, and what has all of them do some work."""
    before = torch.get_num_threads()
    torch.set_num_threads(run.execution.threads)
    group = make_process_group(run.execution.workers, run.execution.device)
    try:
        engine = Engine.build(run, corpus, group)

        def start(work: Callable[[Engine], None]) -> None:
            group.start(engine.optimizer)
            if isinstance(group, LocalProcesses) and not group.leads:
                group.run_worker(lambda: work(engine))
            work(engine)

        yield engine, start
    finally:
        group.stop()
        torch.set_num_threads(before)


def _weights(engine: Engine) -> dict[str, Tensor]:
    flat = engine.optimizer.flat
    return flat.named(flat.values)


def _load(engine: Engine, weights: Mapping[str, Tensor]) -> None:
    own = _weights(engine)
    if {name: tensor.shape for name, tensor in own.items()} != {name: tensor.shape for name, tensor in weights.items()}:
        raise FileError("the weights are not those of the model that the run describes")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(weights[name])


def _load_optimizer(engine: Engine, state: Mapping[str, Tensor]) -> None:
    try:
        engine.optimizer.load_state(state)
    except (KeyError, RuntimeError):
        raise FileError("the optimizer's state is not that of the model that the run describes") from None
