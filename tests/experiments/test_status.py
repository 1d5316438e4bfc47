"""A comparison as its folder shows it: before, while it runs, stopped, and ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest

from attnlab.errors import AttnlabError
from attnlab.experiments import compare
from attnlab.experiments.reporting.exports import conclude
from attnlab.experiments.status import Following, looks_taken, status_of, stop
from attnlab.storage.locks import holding
from support.requests import InProcess, small

REQUEST = small(seeds=2, looks=2)


def run(folder: Path, *, fails: int | None = None, more: int = 0) -> Path:
    launcher = InProcess(folder / "cache", fails=fails)
    comparison = compare(REQUEST, out=folder / "runs", on=launcher, cache=folder / "cache", add_seeds=more)
    conclude(comparison)
    return comparison.path


def test_a_finished_comparison(tmp_path: Path) -> None:
    folder = run(tmp_path)
    state = Following(folder).look()
    assert state.status == "finished"
    assert state.request == REQUEST
    assert [(one.arm, one.seed, one.ended, one.step) for one in state.runs] == [
        ("softmax", 0, True, 6),
        ("tied-kv", 0, True, 6),
        ("softmax", 1, True, 6),
        ("tied-kv", 1, True, 6),
    ]
    assert [step for step, _ in state.runs[0].validation] == [2, 4, 6]
    assert len(state.runs[0].training) == 6
    assert state.grid is not None
    assert (state.grid.share, state.grid.ended) == (1.0, 4)
    assert looks_taken(folder) == 1


def test_one_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    with pytest.raises(AttnlabError, match="have not ended"):
        run(tmp_path, fails=1)
    (folder,) = (tmp_path / "runs").iterdir()
    following = Following(folder)
    state = following.look()
    assert state.status == "stopped"
    assert [one.ended for one in state.runs] == [True, False, False, False]
    assert state.grid is not None
    assert state.grid.share == pytest.approx(1 / 4)
    run(tmp_path)
    state = following.look()  # the same eyes see what was added
    assert state.status == "finished"
    assert all(one.ended and len(one.training) == 6 for one in state.runs)


def test_more_seeds_are_seen(tmp_path: Path) -> None:
    following = Following(run(tmp_path))
    assert len(following.look().runs) == 4
    run(tmp_path, more=1)
    assert len(following.look().runs) == 6


def test_metrics_are_read_as_they_are_written(tmp_path: Path) -> None:
    folder = run(tmp_path)
    following = Following(folder)
    first = following.look().runs[0]
    path = next((folder / "runs").glob("softmax-*seed0*")) / "metrics.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"step": 7, "loss": 1.5}\n{"step": 8, "lo')  # half a line is still being written
    later = following.look().runs[0]
    assert later.training == (*first.training, (7, 1.5))
    with path.open("ab") as file:
        file.write(b'ss": 1.25}\nrubbish\n{"step": 9, "loss": "nan"}\n')
    assert following.look().runs[0].training[-1] == (8, 1.25)
    path.write_bytes(whole[: len(whole) // 2])  # taken up again from a checkpoint
    assert len(following.look().runs[0].training) < 6


def test_a_long_run_takes_no_more_memory_than_a_short_one(tmp_path: Path) -> None:
    folder = run(tmp_path)
    path = next((folder / "runs").glob("softmax-*seed0*")) / "metrics.jsonl"
    following, steps = Following(folder), 100_000
    path.write_text("".join(f'{{"step": {step}, "loss": {step % 2}}}\n' for step in range(1, steps + 1)))
    tracemalloc.start()
    found = following.look().runs[0]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000, "neither the lines nor all points are kept"
    assert found.step == found.training[-1][0] == steps
    assert 60 <= len(found.training) <= 122
    assert all(mean == 0.5 for _, mean in found.training[:-1]), "means over stretches, as a report draws them"
    apart = [after - before for (before, _), (after, _) in pairwise(found.training[:-2])]
    assert len({*apart}) == 1


def test_whoever_holds_the_folder_is_at_work(tmp_path: Path) -> None:
    folder = run(tmp_path)
    with holding(folder):
        assert status_of(folder) == "running"
        (folder / "plan.json").rename(folder / "away")
        assert status_of(folder) == "planning"
        assert Following(folder).look().plan is None
    assert status_of(folder) == "failed"


def test_stopping_asks_the_process_to_end(tmp_path: Path) -> None:
    with pytest.raises(AttnlabError, match="no process carries"):
        stop(tmp_path)
    program = (
        "import sys, signal; from pathlib import Path; from attnlab.storage.locks import holding\n"
        "with holding(Path(sys.argv[1])):\n    print('held', flush=True); signal.pause()"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert stop(tmp_path).pid == process.pid
        assert process.wait(60) == -signal.SIGTERM
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_what_another_machine_holds_is_left_alone(tmp_path: Path) -> None:
    with holding(tmp_path):
        record = json.loads((tmp_path / ".holder.json").read_text())
        (tmp_path / ".holder.json").write_text(json.dumps({**record, "host": "elsewhere", "pid": os.getpid()}))
        with pytest.raises(AttnlabError, match=r"is held by process .* on elsewhere"):
            stop(tmp_path)
