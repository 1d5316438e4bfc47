"""Runs of every variant, killed at random moments again and again: each ends as the one never interrupted.

    pytest -m slow tests/training/test_campaign.py                       200 kills
    ATTNLAB_KILLS=20 pytest -m slow tests/training/test_campaign.py      a shorter one

Each process trains a small run that saves after every step, and is killed (SIGKILL) after a random time: while it
starts, inside a step, inside a save, at its end. After every kill each checkpoint that has a name must be whole. The
times are drawn from a seed, but what a process does at that time is the machine's matter, so that every campaign is
another one.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from attnlab.attention import variants
from attnlab.runs import RunDirectory
from attnlab.storage.disk import find_temporaries
from attnlab.training import RunSpec, Saving
from support.training import ending, fork, smoke, train_in, wait, wait_until

KILLS = int(os.environ.get("ATTNLAB_KILLS", "200"))
PER_RUN = 5
NEEDS = {"bidirectional": {"family": "encoder"}, "prefix": {"variant": "softmax"}}  # the latter needs a longer context


@dataclass
class Summary:
    """What a campaign saw."""

    runs: int = 0
    variants: int = 0
    kills: int = 0
    before_the_first_checkpoint: int = 0
    during_a_save: int = 0
    during_another_write: int = 0
    with_two_workers: int = 0
    checkpoints_read: int = 0
    hashes_compared: int = 0


def cases() -> Iterator[tuple[RunSpec, int]]:
    """Every variant in turn, under both recipes in turn, now and then by two workers."""
    names = [variant.name for variant in variants()]
    number = 0
    while True:
        for name in names:
            recipe = ("gpt2", "fast")[number % 2]
            changes = {"variant": name, **({"position": "learned"} if recipe == "fast" else {}), **NEEDS.get(name, {})}
            spec = smoke(recipe=recipe, seed=number, steps=12, num_heads=4, model_width=32, num_layers=2, **changes)
            yield spec, 2 if number % 5 == 4 else 1
            number += 1


def look(folder: Path, summary: Summary) -> None:
    """Read all that a killed process left."""
    for path in (folder / "runs").glob("*") if (folder / "runs").exists() else ():
        if not RunDirectory.exists(path):
            continue
        directory = RunDirectory.open(path)
        wait_until(lambda directory=directory: directory.holder is None)  # until the second worker is gone, too
        steps = directory.checkpoints.steps()
        for step in steps:
            directory.checkpoints.check(step)  # raises if it is damaged
            summary.checkpoints_read += 1
        directory.metrics()
        summary.before_the_first_checkpoint += not steps
        summary.during_a_save += bool(find_temporaries(path / "checkpoints", of_living=True))
        summary.during_another_write += bool(find_temporaries(path, of_living=True))


def kill_sometimes(
    folder: Path, spec: RunSpec, workers: int, seconds: float, dice: random.Random, summary: Summary
) -> None:
    """Train until it is finished, or was killed often enough."""
    for _ in range(PER_RUN):
        process = fork(lambda: train_in(folder, spec, workers=workers, saving=Saving(steps=1)))
        time.sleep(dice.uniform(0, seconds))
        os.kill(process, signal.SIGKILL)
        status = wait(process)
        assert status in {0, -signal.SIGKILL}, f"{spec} ended with {status}"
        if status == 0:
            return
        summary.kills += 1
        summary.with_two_workers += workers == 2
        look(folder, summary)
        if summary.kills >= KILLS:
            return


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dice, summary, seen = random.Random(2026), Summary(), set()
    train_in(tmp_path / "warm", smoke(num_layers=2))  # what is made once for all processes, such as the measured peak
    for number, (spec, workers) in enumerate(cases()):
        if summary.kills >= KILLS:
            break
        folder = tmp_path / str(number)
        begin = time.perf_counter()
        whole = ending(train_in(folder / "whole", spec, workers=workers, saving=Saving(steps=1)))
        kill_sometimes(folder, spec, workers, time.perf_counter() - begin, dice, summary)
        assert ending(train_in(folder, spec, workers=workers)) == whole, f"{spec} ended differently"
        summary.runs += 1
        summary.hashes_compared += 2
        seen.add(spec.variant)
    summary.variants = len(seen)
    (tmp_path / "summary.json").write_text(json.dumps(asdict(summary), indent=2))
    with capsys.disabled():
        print(f"\n{json.dumps(asdict(summary), indent=2)}")
    assert summary.kills == KILLS
    assert KILLS < 100 or summary.during_a_save > 0, "a campaign that never meets a save proves little"
