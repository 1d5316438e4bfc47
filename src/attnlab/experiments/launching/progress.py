"""How a grid tells what it is at: a bar with a line for each run in a terminal, plain lines now and then elsewhere.

12 of 90 runs   34 %   18.4k tokens/s   5:12 left   tied-kv seed 3 120/330 loss 2.31 · …
tied-kv seed 2: validation 2.2891 after 330 steps in 0:13
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from attnlab.experiments.launching.jobs import GridState, Job, JobEnd, JobState, LaunchListener
from attnlab.formats import clock_time, count

_PLAIN_SECONDS = 10.0  # between two plain lines
_LINES = 12  # of runs under way in a terminal
_NAMED = 4  # runs under way in a plain line


class LaunchConsole(LaunchListener):
    """Speaks to a person on stderr. Use it as a context, so that the bar goes when the work is over."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self._clock = clock
        self._live: Live | None = None
        self._total = self._ended = 0
        self._told = clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the bar away."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def planned(self, jobs: Sequence[Job]) -> None:
        self.close()
        self._total, self._ended, self._told = len(jobs), 0, self._clock()

    def progressed(self, state: GridState) -> None:
        if self.console.is_terminal:
            if self._live is None:
                self._live = Live(console=self.console, auto_refresh=False, transient=True)
                self._live.start()
            self._live.update(self._draw(state), refresh=True)
        elif self._clock() - self._told >= _PLAIN_SECONDS:
            self._told = self._clock()
            running = [describe_job(job) for job in state.running[:_NAMED]]
            more = len(state.running) - len(running)
            self._say("   ".join([self._summary(state), " · ".join([*running, *([f"{more} more"] if more else [])])]))

    def ended(self, end: JobEnd) -> None:
        self._ended += 1
        if end.result is None or not end.result.already or end.problem is not None:
            self._say(describe_end(end))

    def note(self, text: str) -> None:
        self._say(text)

    def _say(self, text: str) -> None:
        self.console.print(Text(text.rstrip()), soft_wrap=True)

    def _summary(self, state: GridState) -> str:
        parts = [f"{self._ended} of {self._total} runs", f"{state.share:.0%}".replace("%", " %")]
        if state.tokens_per_second:
            parts.append(f"{count(state.tokens_per_second)} tokens/s")
        if state.seconds_left is not None:
            parts.append(f"{clock_time(state.seconds_left)} left")
        return "   ".join(parts)

    def _draw(self, state: GridState) -> Group:
        head = Table.grid(padding=(0, 2))
        head.add_row(ProgressBar(total=1.0, completed=state.share, width=24), Text(self._summary(state)))
        shown = state.running[: max(1, min(_LINES, self.console.height - 4))]
        lines = [Text(f"  {describe_job(job)}", overflow="ellipsis", no_wrap=True) for job in shown]
        if len(state.running) > len(shown):
            lines.append(Text(f"  and {len(state.running) - len(shown)} more"))
        return Group(head, *lines)


def describe_job(job: JobState) -> str:
    """Return a line such as: tied-kv seed 3 120/330 loss 2.31."""
    parts = [job.label, f"{job.step}/{'?' if job.steps is None else job.steps}"]
    if job.loss is not None:
        parts.append(f"loss {job.loss:.3f}")
    if job.word is not None:
        parts.append(job.word.lower())
    return " ".join(parts)


def describe_end(end: JobEnd) -> str:
    """Return what became of a job, in a line; more if something went wrong."""
    if end.result is None:
        return f"{end.job} failed: {end.problem}"
    result = end.result
    if result.outcome == "diverged":
        text = f"{end.job}: diverged after {result.steps} steps: {result.message}"
    else:
        loss = "unknown" if result.validation_loss is None else f"{result.validation_loss:.4f}"
        text = f"{end.job}: validation {loss} after {result.steps} steps in {clock_time(result.seconds)}"
    return text if end.problem is None else f"{text}\n  {end.problem}"
