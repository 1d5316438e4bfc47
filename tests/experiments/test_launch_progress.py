"""What is seen of all runs at once: read from their directories, told in plain lines or drawn in a terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from attnlab.experiments.launching.jobs import GridState, Job, JobEnd, JobState, Place, Watch
from attnlab.experiments.launching.progress import LaunchConsole, describe_end, describe_job
from attnlab.training import RunResult
from support.training import smoke


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, color_system=None, highlight=False)


def written(to: Console) -> str:
    assert isinstance(to.file, io.StringIO)
    return to.file.getvalue()


def log(path: Path, *steps: int, loss: float | str = 2.5) -> None:
    path.mkdir(exist_ok=True)
    with (path / "metrics.jsonl").open("a", encoding="utf-8") as file:
        for step in steps:
            file.write(json.dumps({"step": step, "loss": loss}) + "\n")


def test_how_far_all_runs_are(tmp_path: Path) -> None:
    clock = Clock()
    a, b, c = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    log(b, *range(1, 6))  # by an earlier call
    places = [Place("a", a, 10, 100), Place("b", b, 10, 100), Place("c", c, 20, 100)]
    watch = Watch(places, clock)
    state = watch.look()
    assert [job.status for job in state.jobs] == ["waiting"] * 3
    assert (state.share, state.tokens_per_second, state.seconds_left) == (5 / 40, 0.0, None)

    clock.now += 10
    log(a, 1, 2, 3, 4, loss=1.25)
    log(b, 6)
    state = watch.look({2: "PENDING"})
    assert state.jobs[0] == JobState("a", "running", 4, 10, 1.25)
    assert state.jobs[1] == JobState("b", "running", 6, 10, 2.5)
    assert state.jobs[2] == JobState("c", "waiting", 0, 20, word="PENDING")
    assert state.running == state.jobs[:2]
    assert state.share == 10 / 40
    assert state.tokens_per_second == 50.0, "what an earlier call did is not counted"
    assert state.seconds_left == 3000 / 50

    clock.now += 10
    watch.end(0)  # it diverged
    log(c, 1, loss="nan")
    state = watch.look()
    assert state.ended == 1
    assert state.jobs[2].loss != state.jobs[2].loss
    assert state.share == 1 - (400 + 1900) / 4000, "what has ended is done"

    watch.end(1)
    watch.end(2)
    assert (watch.look().share, watch.look().seconds_left) == (1.0, 0.0)


def test_what_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    clock = Clock()
    watch = Watch([Place("a", tmp_path, None, 10)], clock)
    assert watch.look() == GridState((JobState("a", "waiting"),), 0.0, 0.0, None)
    clock.now += 1
    log(tmp_path, 1, 2)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "lo')  # half a line
    (tmp_path / "run.json").write_text('{"resolved": {"steps": 8}}')
    state = watch.look()
    assert (state.jobs[0].step, state.jobs[0].steps) == (2, 8), "as measured when the run began"
    assert state.share == 2 / 8
    for line in ("garbage", '{"step": "x"}', "[]", '{"step": 4, "loss": []}'):
        with (tmp_path / "metrics.jsonl").open("a") as file:
            file.write(f"\n{line}\n")
        watch.look()
    assert watch.look().jobs[0].step == 4
    assert watch.look().jobs[0].loss is None
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2}\n')  # a killed run went back to its checkpoint
    state = watch.look()
    assert state.jobs[0].step == 1
    assert state.tokens_per_second >= 0


def test_only_the_last_minute_makes_the_speed(tmp_path: Path) -> None:
    clock = Clock()
    watch = Watch([Place("a", tmp_path, 1000, 10)], clock)
    step = 0
    for _ in range(100):
        clock.now += 2
        step += 1
        log(tmp_path, step)
        watch.look()
    for _ in range(40):
        clock.now += 2
        step += 4
        log(tmp_path, step)
        state = watch.look()
    assert state.tokens_per_second == pytest.approx(20.0)


def end(outcome: str = "finished", problem: str | None = None, **changes: object) -> JobEnd:
    known = {"validation_loss": 2.28911, "seconds": 13.2, **changes}
    result = RunResult(Path("x"), outcome, 330, **known)  # type: ignore[arg-type]
    return JobEnd(Job(0, smoke(variant="tied-kv", seed=2), Path("runs")), result, problem, None)


def test_plain_lines_without_a_terminal() -> None:
    clock, to = Clock(), console(terminal=False)
    jobs = tuple(JobState(f"run {number}", "running", number, 9, 2.0) for number in range(6))
    with LaunchConsole(to, clock) as shown:
        shown.planned([end().job] * 90)
        for _ in range(25):  # of one second each
            clock.now += 1
            shown.progressed(GridState(jobs, 0.34, 18_400.0, 312.0))
        shown.ended(end())
        shown.ended(end(already=True))
        shown.note("a [bold]note[/bold]")
        clock.now += 10
        shown.progressed(GridState(jobs[:1], 0.5, 0.0, None))
    several = "run 0 0/9 loss 2.000 · run 1 1/9 loss 2.000 · run 2 2/9 loss 2.000 · run 3 3/9 loss 2.000 · 2 more"
    assert written(to).splitlines() == [
        f"0 of 90 runs   34 %   18.4 k tokens/s   5:12 left   {several}",
        f"0 of 90 runs   34 %   18.4 k tokens/s   5:12 left   {several}",
        "tied-kv seed 2: validation 2.2891 after 330 steps in 0:13",
        "a [bold]note[/bold]",
        "2 of 90 runs   50 %   run 0 0/9 loss 2.000",
    ]


def test_a_bar_and_a_line_for_each_run_in_a_terminal() -> None:
    to = console(terminal=True)
    jobs = tuple(JobState(f"run {number}", "running", number, None, word="RUNNING") for number in range(40))
    shown = LaunchConsole(to)
    shown.planned([end().job] * 40)
    shown.progressed(GridState(jobs, 0.34, 18_400.0, 312.0))
    shown.ended(end())
    shown.close()
    shown.close()  # twice is no mistake
    text = written(to)
    assert "━" in text
    assert "0 of 40 runs   34 %   18.4 k tokens/s   5:12 left" in text
    assert "  run 11 11/? running" in text
    assert "  and 28 more" in text
    assert "run 12" not in text
    assert "tied-kv seed 2: validation 2.2891" in text


def test_how_a_job_ended() -> None:
    assert describe_end(end("diverged", message="too fast")) == "tied-kv seed 2: diverged after 330 steps: too fast"
    assert describe_end(end(problem="no map")).endswith("in 0:13\n  no map")
    assert describe_end(JobEnd(end().job, None, "no disk", None)) == "tied-kv seed 2 failed: no disk"
    assert describe_job(JobState("a", "running", 1, 2, 0.5)) == "a 1/2 loss 0.500"
