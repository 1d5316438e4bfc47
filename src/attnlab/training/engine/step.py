"""One training step, and one evaluation.

A step is a pure function of the parameters, the optimizer's state, the run's spec and the number of the step: the
batch, the learning rate and all random numbers are derived from these. So a run that resumes from a checkpoint gives
the same result as one that was never interrupted.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.attention.linear import adding_to_gradients
from attnlab.corpora import IGNORED, Batch, Corpus
from attnlab.models import LanguageModel, build_model
from attnlab.training.engine.optimizers import Optimizer
from attnlab.training.engine.parameters import Shard
from attnlab.training.engine.process_group import ProcessGroup, SingleProcess
from attnlab.training.spec import ResolvedRun


@dataclass(frozen=True)
class Step:
    """The mean loss of a step's batch before the update, the gradient norm, and the factor on the learning rate.

    `stop` says that some process was asked to stop; it is the same in all processes.
    """

    loss: float
    gradient_norm: float
    factor: float
    stop: bool

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.loss) and math.isfinite(self.gradient_norm)


class Engine:
    """Trains a model on a corpus, together with the other processes of a group."""

    def __init__(
        self,
        run: ResolvedRun,
        corpus: Corpus,
        model: LanguageModel,
        optimizer: Optimizer,
        group: ProcessGroup | None = None,
    ) -> None:
        self.run, self.corpus, self.model, self.optimizer = run, corpus, model, optimizer
        self.group = group or SingleProcess()
        self._loss = torch.compile(model.loss) if run.execution.compile else model.loss
        # torch.manual_seed queries every type of device, each time: a millisecond, a twentieth of a small step
        on_cpu = run.execution.device == "cpu"
        self._seed = torch.default_generator.manual_seed if on_cpu else torch.manual_seed

    @classmethod
    def build(cls, run: ResolvedRun, corpus: Corpus, group: ProcessGroup | None = None) -> Engine:
        """Return an engine with a new model and its optimizer, as the run says."""
        group = group or SingleProcess()
        model = build_model(run.model, run.seed, run.execution.device)
        return cls(run, corpus, model, Optimizer(run.optimizer, model, run.execution.dtype, group.allocate), group)

    def step(self, number: int, stop: bool = False) -> Step:
        """Take step `number`, the first being 0; `stop` tells the other processes that this one wants to end."""
        run = self.run
        if not self.model.training:
            self.model.train()
        self._seed(_seed_of(run.seed, number, self.group.shard.rank))
        batch = self.corpus.batch(
            seed=run.seed, step=number, batch_size=run.batch_size, context_length=run.model.context_length
        )
        count = _count(batch)
        loss = 0.0
        for part in _micro_batches(batch, self.group.shard, run.execution.micro_batch_size):
            share = (count if part is batch else _count(part)) / count
            if not share:
                continue  # the mean over no targets is NaN
            with self._precision():
                mean = self._mean_loss(part)
            with adding_to_gradients():
                (mean if share == 1 else mean * share).backward()  # type: ignore[no-untyped-call]
            loss += mean.item() * share
        loss, stops = self.group.sum([loss, float(stop)])
        factor = run.schedule.factor(number, run.steps)
        norm = self.group.update(self.optimizer, run.clip, factor)
        return Step(loss, norm, factor, stops > 0)

    @torch.no_grad()
    def evaluate(self) -> float:
        """Return the mean loss in nats over the validation rows, which are the same in every run on this corpus."""
        run = self.run
        self.model.eval()
        total, count = 0.0, 0
        batches = self.corpus.validation_batches(
            batch_size=max(run.batch_size, 16), context_length=run.model.context_length, limit=run.validation_rows
        )
        for batch in batches:
            for part in _micro_batches(batch, self.group.shard, run.execution.micro_batch_size):
                targets = _count(part)
                if targets:
                    with self._precision():
                        total += self._mean_loss(part).item() * targets
                    count += targets
        total, counted = self.group.sum([total, count])
        return total / counted

    def _mean_loss(self, batch: Batch) -> Tensor:
        inputs, targets, source, source_padding = (
            None if tensor is None else tensor.to(self.run.execution.device) for tensor in batch
        )
        assert inputs is not None
        assert targets is not None
        if source is None:
            return self._loss(inputs, targets)
        return self._loss(inputs, targets, source=source, source_padding=source_padding)

    def _precision(self) -> contextlib.AbstractContextManager[None]:
        execution = self.run.execution
        if execution.precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(execution.device.partition(":")[0], execution.dtype)


def _micro_batches(batch: Batch, shard: Shard, size: int | None) -> Iterator[Batch]:
    """Yield this process's rows, `size` at a time; the batch itself where that is all of them at once."""
    count = len(batch.inputs)
    mine = shard.of(count)
    size = size or max(1, mine.stop - mine.start)
    if mine.stop - mine.start == count <= size:
        yield batch
        return
    for start in range(mine.start, mine.stop, size):
        rows = slice(start, min(start + size, mine.stop))
        yield Batch(*(None if tensor is None else tensor[rows] for tensor in batch))  # type: ignore[arg-type]


def _count(batch: Batch) -> int:
    """Return how many targets there are to predict."""
    return int((batch.targets != IGNORED).sum())


def _seed_of(seed: int, step: int, rank: int) -> int:
    """Return the seed that dropout is drawn from."""
    digest = hashlib.sha256(f"{seed}/{step}/{rank}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
