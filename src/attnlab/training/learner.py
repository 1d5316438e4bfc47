"""Train a model in memory and inspect it on the way: the same steps as a run, without its directory.

    learner = Learner(RunSpec(variant="tied-kv", steps=500), corpus)
    for loss in learner:                     one step each
        if learner.done % 100 == 0:
            inspect(learner.model)

Its weights are bit for bit those of `train` with one thread, but nothing is saved from which an interrupted run could
resume. It is meant for training that takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from attnlab.corpora import Corpus
from attnlab.errors import AttnlabError, UnsupportedError
from attnlab.models import LanguageModel
from attnlab.processes.machine import using_threads
from attnlab.training.engine import Engine
from attnlab.training.execution import Execution
from attnlab.training.fitting import fitted
from attnlab.training.spec import ResolvedRun, RunSpec


class DivergedError(AttnlabError):
    """The loss or the gradient is not finite."""


class Learner:
    """`plan` is the resolved run, `done` the number of steps taken. Iterating takes the remaining steps."""

    def __init__(self, spec: RunSpec, corpus: Corpus, steps: int | None = None) -> None:
        if spec.start is not None:
            raise UnsupportedError("a learner begins with new weights", hint="train a run that starts from another")
        self.plan: ResolvedRun = fitted(spec.resolve(corpus, Execution(), steps))
        self._engine = Engine.build(self.plan, corpus)
        self.model: LanguageModel = self._engine.model
        self.done = 0

    def __len__(self) -> int:
        """Return how many steps are left."""
        return self.plan.steps - self.done

    def __iter__(self) -> Iterator[float]:
        """Take a step and yield the loss that its batch had before it, in nats."""
        while self.done < self.plan.steps:
            with using_threads(1):
                step = self._engine.step(self.done)
            self.done += 1
            if not step.is_finite:
                raise DivergedError(
                    f"step {self.done} has a loss of {step.loss} and a gradient of norm {step.gradient_norm}",
                    hint=f"train with a learning rate below {self.plan.optimizer.learning_rate:g}",
                )
            yield step.loss
