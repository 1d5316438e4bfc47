"""The campaign at its smallest, and that it notices what it is there for."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from attnlab.errors import FileError
from support.campaign.children import CRASHED, Circumstances, Outcome, run
from support.campaign.digests import lost
from support.campaign.judging import problems
from support.campaign.system_calls import Trouble

TESTS = Path(__file__).parents[1]
KINDS = {"values", "faults", "interruptions", "read_only", "clock", "users", "hostile", "studio", "facts"}


def test_a_small_campaign_finds_nothing() -> None:
    paths = {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    with tempfile.TemporaryDirectory(prefix="attnlab-campaign-") as folder:
        Path(folder).chmod(0o755)  # for the other user, who may not enter pytest's own folders
        command = [sys.executable, "-m", "support.campaign", "--smoke", "--folder", folder]
        done = subprocess.run(command, env={**os.environ, **paths}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    headings, *rows = (line.split() for line in done.stdout.replace("too long", "too-long").splitlines())
    assert {row[0] for row in rows} == {*KINDS, "all"}
    counts = dict(zip(headings, rows[-1], strict=True))
    assert int(counts["commands"]) >= 50
    assert int(counts["faults"]) >= 8


def write_twice() -> int:
    Path("first").write_text("1")
    with Path("second").open("w") as file:
        file.write("2")
    return 0


def ended(folder: Path, work: Callable[[], int], **circumstances: object) -> Outcome:
    return run(("train",), folder, Circumstances(**circumstances), work)  # type: ignore[arg-type]


def test_effects_are_counted_inside_the_folder_only(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()

    def work() -> int:
        Path("../outside").write_text("0")
        return write_twice()

    done = ended(tmp_path / "inside", work, counted=True)
    assert done.effects == ("openat first", "write first", "openat second", "write second")
    assert (done.code, problems(done)) == (0, [])


def test_an_effect_fails_with_an_error(tmp_path: Path) -> None:
    done = ended(tmp_path, write_twice, trouble=Trouble(3, "error", errno.ENOSPC, for_ever=True))
    assert done.troubled >= 1
    assert "No space left on device" in done.err
    assert (tmp_path / "second").read_text() == ""
    assert problems(done) == ["traceback", f"exit code {CRASHED}"]


def test_sqlite_meets_it_too(tmp_path: Path) -> None:
    def work() -> int:
        with sqlite3.connect("store") as database:
            database.execute("CREATE TABLE facts (answer)")
        return 0

    assert "disk I/O error" in ended(tmp_path, work, trouble=Trouble(2, "error", errno.EIO, for_ever=True)).err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, CRASHED)])
def test_an_effect_is_followed_by_a_signal(tmp_path: Path, number: signal.Signals, code: int) -> None:
    def work() -> int:
        write_twice()
        time.sleep(20)
        return 0

    done = ended(tmp_path, work, trouble=Trouble(1, "signal", number))
    assert done.code == code
    assert not (tmp_path / "second").exists() or number == signal.SIGINT


def test_what_never_ends_is_interrupted(tmp_path: Path) -> None:
    def work() -> int:
        time.sleep(100)
        return 0

    done = ended(tmp_path, work, seconds=0.1)
    assert done.too_long
    assert problems(done)


def test_a_refusal_needs_words(tmp_path: Path) -> None:
    assert problems(ended(tmp_path, lambda: 2)) == ["refused without a word"]

    def refuse() -> int:
        print(f"error: {FileError('no')}", file=sys.stderr)
        return 2

    assert problems(ended(tmp_path, refuse)) == []


def test_losses_are_seen() -> None:
    before = {"run a": "12", "run b": "unfinished", "store": "facts\na\tb"}
    assert lost(before, {**before, "run b": "34", "store": "facts\na\tb\nc\td"}) == []
    assert len(lost(before, {"run a": "13", "store": "facts\nc\td"})) == 2
