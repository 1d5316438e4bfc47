"""Runs so small that a test can train them many times, in this process or in one that may be killed."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from attnlab.corpora import Corpus, open_corpus
from attnlab.models import build_model
from attnlab.runs import RunDirectory
from attnlab.runs.checkpoints import digest
from attnlab.storage.tensors import read_tensors
from attnlab.training import RunResult, RunSpec, Saving, train
from attnlab.training.engine import Engine, Step
from attnlab.training.engine.optimizers import Optimizer
from attnlab.training.execution import Execution
from attnlab.training.progress import Silent
from attnlab.training.spec import ResolvedRun

MQAR = {"name": "mqar", "vocabulary_size": 16, "options": {"pairs": 2, "validation_examples": 8}}
KINSHIP = {"name": "kinship", "options": {"families": 2, "sentences": 200}}
TRANSLATION = {"name": "translation", "options": {"clauses": 1, "adjectives": 0, "validation_examples": 8}}
SHAPE = {"num_layers": 1, "model_width": 16, "num_heads": 2, "context_length": 8, "batch_size": 4, "validation_rows": 4}
ALONE = {"threads": 1, "workers": 1, "precision": "float32"}


def smoke(**changes: Any) -> RunSpec:
    """A spec that takes a tenth of a second."""
    return RunSpec(**{"corpus": MQAR, "steps": 6, "evaluate_every": 4, **SHAPE, **changes})


def train_in(folder: Path, spec: RunSpec | None = None, **options: Any) -> RunResult:
    """Train below a folder of the test's own, saving every other step."""
    options = {**ALONE, "saving": Saving(steps=2), "cache": folder / "cache", **options}
    return train(spec or smoke(), folder / "runs", **options)


def ending(result: RunResult) -> tuple[str | None, str, bytes]:
    """What must be equal where two runs are: the hash in the result, that of the weights on disk, and the metrics."""
    assert result.outcome == "finished", result.message
    weights = read_tensors(result.path / "model.safetensors")
    return result.weights_sha256, digest(weights), (result.path / "metrics.jsonl").read_bytes()


def losses(result: RunResult) -> list[float]:
    """The training loss of every step."""
    return [entry["loss"] for entry in RunDirectory.open(result.path).metrics()]


# Without a directory: the engine alone


def resolve(spec: RunSpec, **execution: Any) -> tuple[ResolvedRun, Corpus]:
    """What a spec on a task, which needs no cache, comes to."""
    corpus = open_corpus(spec.corpus)
    return spec.resolve(corpus, Execution(**execution)), corpus


def make_engine(
    spec: RunSpec, dtype: torch.dtype = torch.float32, corpus: Corpus | None = None, **execution: Any
) -> Engine:
    corpus = corpus or open_corpus(spec.corpus)
    run = spec.resolve(corpus, Execution(**execution))
    model = build_model(run.model, run.seed).to(dtype)
    return Engine(run, corpus, model, Optimizer(run.optimizer, model, dtype))


def take_steps(engine: Engine, count: int) -> list[Step]:
    return [engine.step(number) for number in range(count)]


def perturb(engine: Engine, seed: int) -> None:
    """Move every weight by one unit in the last place, up or down."""
    values = engine.optimizer.flat.values
    signs = torch.randint(0, 2, values.shape, generator=torch.Generator().manual_seed(seed)) * 2.0 - 1
    values.mul_(1 + signs * torch.finfo(torch.float32).eps)


def rounding(make: Callable[[], Engine], steps: int, tries: int = 6) -> list[float]:
    """How far the loss of each step moves when every weight moves by one unit in the last place: the least that two
    correct computations in another order differ by."""
    plain = [step.loss for step in take_steps(make(), steps)]
    spread = [0.0] * steps
    for seed in range(tries):
        engine = make()
        perturb(engine, seed)
        moved = [step.loss for step in take_steps(engine, steps)]
        spread = [max(old, abs(a - b)) for old, a, b in zip(spread, plain, moved, strict=True)]
    return list(itertools.accumulate(spread, max))  # what one step moved, the later ones inherit


# In another process


def fork(work: Callable[[], object]) -> int:
    """Do `work` in another process; it ends with 0 if that succeeds, and with 1 otherwise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of threads, which the child has no need of
        process = os.fork()
    if process == 0:
        try:
            signal.alarm(100)
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return process


def wait(process: int) -> int:
    """The exit status of a process: negative for the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


def children_of(process: int) -> list[int]:
    """The living processes that this one started."""
    with contextlib.suppress(FileNotFoundError):
        threads = Path(f"/proc/{process}/task").glob("*/children")
        return [int(child) for thread in threads for child in thread.read_text().split()]
    return []


class At(Silent):
    """Does something after a step."""

    def __init__(self, step: int, work: Callable[[], object]) -> None:
        self._step, self._work = step, work

    def step(self, done: int, loss: float) -> None:
        del loss
        if done == self._step:
            self._work()


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
