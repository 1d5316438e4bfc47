"""Signals, endless files, warnings and narrow or broken terminals."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from attnlab.attention.names import catalogue, files
from attnlab.cli import main
from attnlab.errors import Terminated
from attnlab.experiments.launching.status_table import interruptible
from support.training import At

ADDED = """
from attnlab.attention import Variant, add_variant
add_variant(Variant("half-made", "Softmax once more.", {}))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_exit_code_names_the_signal(
    number: signal.Signals, code: int, run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "result.json").unlink()
    for path in (run / "checkpoints").glob("*/*"):
        path.unlink()
    stopped = At(1, lambda: os.kill(os.getpid(), number))
    monkeypatch.setattr("attnlab.cli.commands.train.Silent", lambda: stopped)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of checkpoints that are gone
        assert main(["train", str(run), "--quiet"]) == code
    assert "The same command resumes it" in capsys.readouterr().err


def test_ctrl_c_before_the_command_begins(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnlab.cli.app.build_app", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    assert main(["variants"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_sigterm_differs_from_ctrl_c() -> None:
    with pytest.raises(Terminated), interruptible():
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    "body",
    [
        "while True:\n    try:\n        pass\n    except Exception:\n        pass\n",
        "import time\ntime.sleep(1000)\n",
        "while True:\n    try:\n        pass\n    except:\n        pass\n",
        "import time\nwhile True:\n    try:\n        time.sleep(1000)\n    except:\n        pass\n",
    ],
)
def test_a_file_that_never_ends(
    body: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LIMIT", 0.2)
    before = signal.getsignal(signal.SIGALRM)
    path = tmp_path / "endless.py"
    path.write_text(ADDED + body)
    assert main(["variants", "--variants-from", str(path)]) == 2
    error = capsys.readouterr().err
    assert f"{path} did not end within 0.2 s" in error
    assert "hint:" in error
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert catalogue._adding is None
    assert signal.getsignal(signal.SIGALRM) is before
    assert main(["variants", "half-made"]) == 2


def test_warnings_do_not_quote_python(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "result.json").unlink()
    newest = max((run / "checkpoints").iterdir())
    (newest / "model.safetensors").write_bytes(b"damaged")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["train", str(run), "--quiet"]) == 0
    error = capsys.readouterr().err
    assert f"warning: {newest} is damaged and passed over" in error
    assert "warnings.warn" not in error
    assert ".py:" not in error


def test_signs_that_the_terminal_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert main(["variants", "tied-kv"]) == 0
    assert b"One projection is both key and value" in written.getvalue()
    assert b"?" in written.getvalue()


def test_a_thread_that_fails_to_write_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), b"events")

    def work(*_: object) -> None:
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        fail()

    monkeypatch.setattr("attnlab.cli.app.build_app", lambda *_: SimpleNamespace(meta=lambda *_, **__: work()))
    monkeypatch.setattr("attnlab.cli.app.add_example", lambda *_: None)
    assert main(["variants"]) == 2
    error = capsys.readouterr().err
    assert "warning: a file cannot be read or written: no space left on device" in error
    assert "error: events cannot be used: no space left on device" in error
    assert "Traceback" not in error


def test_a_disk_that_fails_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("attnlab.cli.app.build_app", lambda *_: SimpleNamespace(meta=fail))
    monkeypatch.setattr("attnlab.cli.app.add_example", lambda *_: None)
    assert main(["variants"]) == 2
    error = capsys.readouterr().err
    assert "error: a file cannot be read or written: input/output error" in error
    assert "hint: check the disk" in error


def test_output_that_cannot_be_written(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["variants"]) == 2
        monkeypatch.undo()
    error = capsys.readouterr().err
    assert "error: the output cannot be written: no space left on device" in error
    assert "hint: free some space" in error


@pytest.mark.parametrize("command", [["--help"], ["train", "--help"], ["variants"]])
def test_a_terminal_of_one_column(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1")
    assert main(command) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) >= 10
    assert os.environ["COLUMNS"] == "1"
