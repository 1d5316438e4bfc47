"""Reporting the numbers of a run: a progress line on the console, and trackers such as TensorBoard.

step 400/2000   loss 2.31   validation 2.29   18.4 k tokens/s   71 % of peak   1:12 left

To track runs with another tool, write a class with the methods of `Tracker` and pass it to `train`. Nothing is sent
anywhere by default.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from attnlab.errors import UnsupportedError
from attnlab.formats import clock_time, count, percent
from attnlab.storage.disk import refusal

_PLAIN_SECONDS = 10.0  # between two lines of plain output


class Reporter(Protocol):
    """Receives the progress of a run. All methods are called in the leading process of the run."""

    def note(self, text: str) -> None:
        """Report something worth a line of its own."""

    def begin(self, step: int, steps: int, tokens_per_step: float, flops_per_step: float, peak: float) -> None:
        """Report that training starts at `step`."""

    def step(self, done: int, loss: float) -> None: ...

    def evaluated(self, done: int, validation_loss: float) -> None: ...

    def end(self) -> None:
        """Report that no more steps will come."""


class Silent:
    """Reports nothing."""

    def note(self, text: str) -> None:
        del text

    def begin(self, step: int, steps: int, tokens_per_step: float, flops_per_step: float, peak: float) -> None:
        del step, steps, tokens_per_step, flops_per_step, peak

    def step(self, done: int, loss: float) -> None:
        del done, loss

    def evaluated(self, done: int, validation_loss: float) -> None:
        del done, validation_loss

    def end(self) -> None:
        return


class ConsoleReporter(Silent):
    """Reports progress on stderr."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._validation: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def note(self, text: str) -> None:
        self.console.print(text, markup=False)

    def begin(self, step: int, steps: int, tokens_per_step: float, flops_per_step: float, peak: float) -> None:
        self._first, self._steps = step, steps
        self._tokens, self._flops, self._peak = tokens_per_step, flops_per_step, peak
        self._begin = self._told = self._drawn = time.perf_counter()
        if self.console.is_terminal:
            columns = (BarColumn(24), TextColumn("{task.description}"), TimeRemainingColumn(compact=True))
            self._progress = Progress(*columns, console=self.console, auto_refresh=False, transient=True)
            self._progress.start()
            self._task = self._progress.add_task("starting", total=steps, completed=step)

    def step(self, done: int, loss: float) -> None:
        now = time.perf_counter()
        if self._progress is not None and self._task is not None:
            if now - self._drawn > 0.2 or done == self._steps:
                self._drawn = now
                self._progress.update(self._task, completed=done, description=self._describe(done, loss, now))
                self._progress.refresh()
        elif now - self._told > _PLAIN_SECONDS:
            self._told = now
            left = (now - self._begin) / max(1, done - self._first) * (self._steps - done)
            self.note(f"{self._describe(done, loss, now)}   {clock_time(left)} left")

    def evaluated(self, done: int, validation_loss: float) -> None:
        self._validation = validation_loss
        del done

    def end(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _describe(self, done: int, loss: float, now: float) -> str:
        rate = (done - self._first) / max(1e-9, now - self._begin)
        parts = [f"step {done}/{self._steps}", f"loss {loss:.3f}"]
        if self._validation is not None:
            parts.append(f"validation {self._validation:.3f}")
        parts.append(f"{count(rate * self._tokens)} tokens/s")
        if self._peak:
            parts.append(f"{percent(rate * self._flops / self._peak)} of peak")
        return "   ".join(parts)


class Tracker(Protocol):
    """Receives every metric of a run as it is computed."""

    def log(self, step: int, numbers: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files for TensorBoard, in the folder `tensorboard` of the run. A resumed run hides the points after its
    checkpoint."""

    def __init__(self, run: Path, step: int = 0) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UnsupportedError(
                "TensorBoard is not installed", hint="pip install 'attnlab[tensorboard]', or leave the tracker out"
            ) from None
        with _explained():
            self._writer = SummaryWriter(run / "tensorboard", purge_step=step + 1)

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        with _explained():
            for name, number in numbers.items():
                self._writer.add_scalar(name, number, step)

    def close(self) -> None:
        with _explained():
            self._writer.close()


@contextmanager
def _explained() -> Iterator[None]:
    """Report files that could not be written inside as errors."""
    try:
        yield
    except OSError as error:
        what = "the event files for TensorBoard cannot be written"
        raise refusal(what, error, after="training again resumes") from error
