"""The training loop of a run, from the last checkpoint to the end: train, evaluate, report, save, detect divergence."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import torch

from attnlab.corpora import Corpus
from attnlab.cost import model_cost
from attnlab.processes.machine import available_cores, matmul_peak
from attnlab.runs.checkpoints import Checkpoint, digest
from attnlab.runs.directory import MODEL, RunDirectory, RunResult
from attnlab.runs.receipts import State
from attnlab.storage.tensors import write_tensors
from attnlab.training.engine import Engine, ProcessGroup, Step
from attnlab.training.progress import Reporter, Silent, Tracker
from attnlab.training.spec import ResolvedRun

_HOPELESS_STEPS = 25
_HOPELESS_FACTOR = 1.5  # times the loss of a uniform guess


@dataclass(frozen=True)
class Saving:
    """The intervals at which checkpoints are written, in seconds or in steps."""

    seconds: float = 60.0
    steps: int | None = None

    def is_due(self, done: int, since: float) -> bool:
        return since >= self.seconds if self.steps is None else done % self.steps == 0


class StopRequest:
    """Ends a run between two steps: set by the first SIGINT or SIGTERM; the second SIGINT interrupts at once."""

    def __init__(self) -> None:
        self.requested = False
        self.signal: int | None = None  # the first that was received

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle these signals inside, if this is the main thread; only the main thread may."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            for number, handler in before.items():
                if handler is not signal.SIG_IGN:
                    signal.signal(number, self._handle)
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True
        self.signal = self.signal or number


class Loop:
    """The steps of a run, from the last checkpoint to the end."""

    def __init__(
        self,
        directory: RunDirectory,
        run: ResolvedRun,
        corpus: Corpus,
        group: ProcessGroup,
        reporter: Reporter,
        saving: Saving,
        start: Callable[[], Mapping[str, torch.Tensor]] | None = None,
    ) -> None:
        self.directory, self.plan, self.group, self.reporter, self.saving = directory, run, group, reporter, saving
        self.trackers: list[Tracker] = []
        self.engine = Engine.build(run, corpus, group)
        self.optimizer = self.engine.optimizer
        self.tokens_per_step = corpus.tokens_per_step(run.batch_size, run.model.context_length)
        self.stop = StopRequest()
        self.done, self.seconds, self.above, self.validation = 0, 0.0, 0, math.nan
        checkpoint = self._agreed_checkpoint()
        if checkpoint is not None:
            self._load(checkpoint)
        elif start is not None:
            self._take(start())
        if group.leads:
            directory.rewind(self.done if checkpoint is not None else -1)
            self.receipts = directory.receipts(run.steps)
            if checkpoint is None:
                self.receipts.begin(self._state())
            else:
                self.receipts.resume(self.done, self._state())

    def _agreed_checkpoint(self) -> Checkpoint | None:
        """Return the newest checkpoint that the leader can read; the others take the same."""
        found = self.directory.checkpoints.latest() if self.group.leads else None
        step = self.group.sum([0.0 if found is None else float(found.step)])[0]
        return found if found is not None or not step else self.directory.checkpoints.check(int(step))

    def run(self) -> RunResult:
        """Take the steps that are left."""
        plan = self.plan
        if self.group.leads:
            self._announce()
        with self.stop.listening():
            begin = saved = time.perf_counter()
            before = self.seconds
            while self.done < plan.steps:
                step = self.engine.step(self.done, self.stop.requested)
                self.done += 1
                message = self._diverged(step)
                evaluated = None
                if message is None and plan.is_evaluated(self.done):
                    evaluated = self.validation = self.engine.evaluate()
                now = time.perf_counter()
                self.seconds = before + now - begin
                if self.group.leads:
                    self._report(step, evaluated)
                    if message is None and self.receipts.is_due(self.done):
                        self.receipts.add(self.done, self._state())
                    if message is None and (step.stop or self.saving.is_due(self.done, now - saved)):
                        self._save()
                        saved = time.perf_counter()
                if message is not None:
                    return self._finish("diverged", message)
                if step.stop and self.done < plan.steps:
                    return self._stopped()
        return self._finish("finished")

    def _stopped(self) -> RunResult:
        number = self.stop.signal or signal.SIGINT  # if another process of the group received it
        loss = _number(self.validation)
        return RunResult(self.directory.path, "stopped", self.done, loss, self.seconds, signal=number)

    def _announce(self) -> None:
        run, execution = self.plan, self.plan.execution
        if self.done:
            self.reporter.note(f"resuming from step {self.done} of {run.steps}")
        if getattr(type(self.reporter), "begin", None) is Silent.begin:
            return  # nothing would show it, and measuring the peak takes time
        cost = model_cost(run.model, batch=run.batch_size)
        whole = self.tokens_per_step == run.tokens_per_step  # otherwise the FLOPs per step are unknown
        known = whole and execution.device == "cpu" and execution.threads <= available_cores()
        peak = matmul_peak(execution.threads, 0.1) * execution.workers if known else 0.0
        self.reporter.begin(self.done, run.steps, self.tokens_per_step, cost.useful_training_flops, peak)

    def _report(self, step: Step, validation: float | None) -> None:
        entry = metrics_of(self.plan, self.done, step, validation)
        if validation is not None:
            self.reporter.evaluated(self.done, validation)
        self.directory.log(entry)
        self.reporter.step(self.done, step.loss)
        for tracker in self.trackers:
            tracker.log(self.done, {name: value for name, value in entry.items() if name != "step"})

    def _diverged(self, step: Step) -> str | None:
        """Return why the run cannot succeed any more, if it cannot."""
        guessing = math.log(self.plan.model.vocabulary_size)
        self.above = self.above + 1 if step.loss > _HOPELESS_FACTOR * guessing else 0
        if not step.is_finite:
            return (
                f"step {self.done} has a loss of {step.loss} and a gradient of norm {step.gradient_norm}: "
                f"the learning rate of {self.plan.optimizer.learning_rate:g} is too high; train with a lower one"
            )
        if self.above >= _HOPELESS_STEPS:
            return (
                f"the loss was above {_HOPELESS_FACTOR:g} times that of guessing ({guessing:.2f}) for the "
                f"{self.above} steps up to {self.done}: the learning rate is too high; train with a lower one"
            )
        return None

    def _save(self) -> None:
        state = {"seconds": self.seconds, "above": self.above, "validation_loss": self.validation}
        tensors = {"model": self._weights(), "optimizer": self.optimizer.state()}
        self.directory.checkpoints.save(self.done, tensors, state)

    def _take(self, weights: Mapping[str, torch.Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in self._weights().items():
                tensor.copy_(weights[name])

    def _load(self, checkpoint: Checkpoint) -> None:
        self._take(checkpoint.tensors("model"))
        self.optimizer.load_state(checkpoint.tensors("optimizer"))
        self.done = checkpoint.step
        self.seconds, self.above = checkpoint.state["seconds"], checkpoint.state["above"]
        self.validation = checkpoint.state["validation_loss"]

    def _state(self) -> State:
        return {"weights": self._weights(), "optimizer": self.optimizer.state()}

    def _weights(self) -> dict[str, torch.Tensor]:
        return self.optimizer.flat.named(self.optimizer.flat.values)

    def _finish(self, outcome: str, message: str | None = None) -> RunResult:
        if self.group.leads:
            self._write_result(outcome, message)
        self.group.sum([0.0])  # the others wait until the result is written
        return RunResult.of(self.directory)

    def _write_result(self, outcome: str, message: str | None) -> None:
        weights = {name: tensor.cpu() for name, tensor in self._weights().items()}
        if outcome == "finished":
            write_tensors(self.directory.path / MODEL, weights)
        result = {
            "outcome": outcome,
            "steps": self.done,
            "validation_loss": _number(self.validation),
            "seconds": round(self.seconds, 3),
            "tokens_per_second": round(self.done * self.tokens_per_step / self.seconds, 1),
            "weights_sha256": digest(weights),
            "message": message,
        }
        self.receipts.finish(self.done, result)
        self.directory.finish(result)


def metrics_of(run: ResolvedRun, done: int, step: Step, validation: float | None) -> dict[str, float | int]:
    """Return what is logged of a step, after which `done` steps are done."""
    entry = {
        "step": done,
        "loss": step.loss,
        "gradient_norm": step.gradient_norm,
        "learning_rate": run.optimizer.learning_rate * step.factor,
    }
    return entry if validation is None else {**entry, "validation_loss": validation}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
