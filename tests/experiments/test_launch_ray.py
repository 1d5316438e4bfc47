"""Jobs as tasks of real Ray clusters on this machine."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab.errors import SpecError
from attnlab.experiments.launching.launcher import launcher
from attnlab.training import Saving
from support.launching import grid
from support.training import train_in

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")

TESTS = Path(__file__).parents[1]


@pytest.fixture
def short() -> Iterator[str]:
    """A folder with a path short enough for Ray's sockets, gone afterwards with all who use it."""
    folder = tempfile.mkdtemp(prefix="t")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def run(short: str, *arguments: str) -> dict[str, Any]:
    """What the program in `support.ray_nodes` prints. No process of it is there afterwards."""
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": short}
    command = [sys.executable, "-m", "support.ray_nodes", *arguments]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as program:
        try:
            out, errors = program.communicate(timeout=120)
        finally:
            _kill_all_that_mention(short)
    assert program.returncode == 0, errors
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def _kill_all_that_mention(short: str) -> None:
    """Whatever Ray left running: each of its processes knows its folder."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if f"{short}/".encode() in words and int(process.name) != os.getpid():
            os.kill(int(process.name), 9)


def test_a_removed_node_costs_only_the_steps_since_the_checkpoint(tmp_path: Path, short: str) -> None:
    found = run(short, "removed", str(tmp_path), short)
    assert found["removed"]
    assert found["still connected"], "whoever had connected stays so"
    assert found["problems"] == [None] * 4
    assert any("taken up again" in note for note in found["notes"])
    jobs = grid(tmp_path)
    assert found["results"] == [
        train_in(tmp_path / "undisturbed", job.spec, saving=Saving()).weights_sha256 for job in jobs
    ]
    assert len(list((tmp_path / "runs").glob("*/result.json"))) == 4


@pytest.mark.slow
def test_a_cluster_of_our_own_is_interrupted_and_leaves_nothing(tmp_path: Path, short: str) -> None:
    found = run(short, "own", str(tmp_path))
    assert found["interrupted"]
    assert found["saved"]
    assert all(found["saved"])
    assert found["signal as before"]
    assert not found["connected"]
    jobs = grid(tmp_path, seeds=1)
    assert found["results"] == [
        train_in(tmp_path / "undisturbed", job.spec, saving=Saving()).weights_sha256 for job in jobs
    ]
    assert not [folder for folder in found["folders"] if Path(folder).name.startswith("ray-")]


def test_what_ray_is_not_asked_for() -> None:
    with pytest.raises(SpecError, match="-1 graphics cards"):
        launcher("ray", gpus=-1)
