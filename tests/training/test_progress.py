"""What a person sees while a run trains: lines without a terminal, a bar with one."""

from __future__ import annotations

import io
import os
import signal
from pathlib import Path

import pytest
from rich.console import Console

from attnlab.training import ConsoleReporter, progress
from support.training import At, smoke, train_in


class Clock:
    """Time that passes when it is asked for."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds

    def __call__(self) -> float:
        self.now += self.seconds
        return self.now


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=120, color_system=None, highlight=False)


def written(to: Console) -> str:
    assert isinstance(to.file, io.StringIO)
    return to.file.getvalue()


def test_plain_lines_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.time, "perf_counter", Clock(4.0))
    to = console(terminal=False)
    with ConsoleReporter(to) as reporter:
        reporter.begin(0, 9, tokens_per_step=8000, flops_per_step=2e9, peak=1e9)
        for step in range(1, 10):
            if step == 5:
                reporter.evaluated(step, 2.25)
            reporter.step(step, 3.0 - step / 10)
    lines = written(to).splitlines()
    assert lines == [
        "step 3/9   loss 2.700   2.00 k tokens/s   50 % of peak   0:24 left",
        "step 6/9   loss 2.400   validation 2.250   2.00 k tokens/s   50 % of peak   0:12 left",
        "step 9/9   loss 2.100   validation 2.250   2.00 k tokens/s   50 % of peak   0:00 left",
    ]


def test_a_bar_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.time, "perf_counter", Clock(0.5))
    to = console(terminal=True)
    reporter = ConsoleReporter(to)
    reporter.begin(2, 4, tokens_per_step=1_000_000, flops_per_step=1e9, peak=4e9)
    reporter.evaluated(2, 3.5)
    reporter.step(3, 3.25)
    reporter.step(4, 3.0)
    reporter.end()
    reporter.end()  # a second time changes nothing
    text = written(to)
    assert "━" in text
    assert "step 4/4   loss 3.000   validation 3.500   2.00 M tokens/s   50 % of peak" in text


def test_without_a_known_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.time, "perf_counter", Clock(20.0))
    to = console(terminal=False)
    reporter = ConsoleReporter(to)
    reporter.begin(0, 2, tokens_per_step=10, flops_per_step=1e9, peak=0.0)
    reporter.step(1, 1.0)
    assert "peak" not in written(to)
    assert "tokens/s" in written(to)


def test_a_note_is_text_and_not_markup() -> None:
    to = console(terminal=False)
    ConsoleReporter(to).note("step [bold]1[/bold]")
    assert written(to) == "step [bold]1[/bold]\n"


@pytest.mark.parametrize("terminal", [False, True])
def test_a_run_tells_how_it_gets_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    monkeypatch.setattr(progress, "_PLAIN_SECONDS", 0.0)
    train_in(tmp_path, smoke(), reporter=At(3, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    to = console(terminal=terminal)
    train_in(tmp_path, smoke(), reporter=ConsoleReporter(to), workers=2)
    text = written(to)
    assert "resuming from step 4 of 6" in text
    assert "step 6/6   loss " in text
    assert "tokens/s" in text
    assert "of peak" in text


def test_the_bar_goes_when_a_run_fails(tmp_path: Path) -> None:
    to = console(terminal=True)

    class Failing(ConsoleReporter):
        def step(self, *_: object) -> None:
            raise RuntimeError("pulled the plug")

    reporter = Failing(to)
    with pytest.raises(RuntimeError, match="plug"):
        train_in(tmp_path, reporter=reporter)
    assert reporter._progress is None
