"""Values that cannot be are refused in one sentence with a hint, before anything is built or trained."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnlab.cli import main

HUGE = "99999999999999999999999"
SMALL = ["--corpus", "kinship", "--corpus-option", "families=2", "--corpus-option", "sentences=200"]
FINETUNE = ["knowledge", "run", "--text", "text.txt", "--pairs", "pairs.tsv"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a text, pairs, a binary file, an empty file and a fact store of one fact."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path / "cache"))
    Path("text.txt").write_text("Ada was born in Wickholm.\n")
    Path("pairs.tsv").write_text("Where was Ada born?\tWickholm\nWho was born?\tAda\n")
    Path("binary").write_bytes(b"a\0b")
    Path("empty").touch()
    Path("loop").symlink_to("loop")
    assert main(["knowledge", "facts", "add", "Where was Ada born?", "Wickholm", "--store", "facts.sqlite"]) == 0
    return tmp_path


@pytest.mark.parametrize(
    ("command", "said", "hint"),
    [
        (["train", *SMALL, "--change", "model_width=1000000"], "this run needs about", "use a smaller model or batch"),
        (["train", *SMALL, "--change", "batch_size=10000000000"], "this run needs about", "smaller model or batch"),
        (["train", *SMALL, "--change", "num_layers=1000000"], "num_layers is 1000000", "up to 10000"),
        (["train", *SMALL, "--change", "steps=1000000000000000"], "years on this machine", "use fewer `--steps`"),
        (["train", *SMALL, "--steps", "1", "--out", "empty"], "cannot be made", "a file has the name of a folder"),
        (["train", *SMALL, "--vocabulary-size", "400"], "has a vocabulary of its own", "or use `--tokenizer bpe`"),
        (
            ["train", *SMALL, "--tokenizer", "bpe", "--vocabulary-size", HUGE],
            "too large",
            "use `--vocabulary-size` up to",
        ),
        (["train", *SMALL, "--threads", "100000000"], "threads is 100000000", "use `--threads 1` or more, up to 1024"),
        (["train", *SMALL, "--workers", "100000000"], "workers is 100000000", "use `--workers 1` or more, up to 1024"),
        (["train", *SMALL, "--minutes", "1e300"], "minutes of a run is 1e+300", "for `--minutes`"),
        (["train", *SMALL, "--minutes", "nan"], "minutes of a run is nan", "that is finite for `--minutes`"),
        (["train", *SMALL, "--bundle-limit", "nan"], "a bundle of nan MB", "above 0 for `--bundle-limit`"),
        (["compare", "tied-kv", "--smoke", "--bundle-limit", "inf"], "a bundle of inf MB", "for `--bundle-limit`"),
        (["compare", "tied-kv", "--smoke", "--processes", HUGE], f"processes is {HUGE}", "use `--processes 1` or more"),
        (
            ["compare", "tied-kv", "--smoke", "--margin", "nan"],
            "margin of a comparison is nan",
            "finite for `--margin`",
        ),
        (
            ["compare", "tied-kv", "--smoke", "--plan", "--change", "batch_size=10000000000"],
            "`--smoke` sets its own change",
            "leave out",
        ),
        (
            ["compare", "tied-kv", *SMALL, "--plan", "--steps", "1", "--change", "batch_size=10000000000"],
            "are too many to count at once",
            "give `batch_size=",
        ),
        (["studio", "--no-browser", "--runs", "loop/x"], "loop", "name another"),
        (["variants", "--variants-from", "/dev/zero"], "/dev/zero is a device and no file", "name a file"),
        (["knowledge", "facts", "import", "/dev/zero", "--store", "facts.sqlite"], "is a device", "name a file"),
        (["train", "--corpus", "/dev/zero"], "/dev/zero", "a"),
        (["train", "--corpus", "binary"], "binary is no text", "or use `--tokenizer byte`"),
        (["compare", "tied-kv", "--seeds", "100000000000", "--plan"], "seeds of a comparison is", "for `--seeds`"),
        (["compare", "tied-kv", "--add-seeds", HUGE], "seeds cannot be added", "for `--add-seeds`"),
        (
            [*FINETUNE, "--heldout-share", "nan"],
            "the shares nan, 0.1",
            "`--heldout-share` and `--calibration-share`",
        ),
        ([*FINETUNE, "--tokenizer", "bpe", "--vocabulary-size", HUGE], HUGE, "for `--vocabulary-size`"),
        ([*FINETUNE, "--heldout-share", "inf"], "the shares inf, 0.1", "that add up below 1"),
        (["knowledge", "facts", "search", "Ada", "--store", "facts.sqlite", "--limit", HUGE], HUGE, "use `--limit 1`"),
        (["knowledge", "facts", "search", "Ada", "--store", "facts.sqlite", "--limit", "0"], "got 0", "`--limit 1`"),
        (["knowledge", "facts", "retract", HUGE, "--store", "facts.sqlite"], f"no fact {HUGE}", "search for it"),
        (["knowledge", "facts", "search", "Ada", "--store", "empty"], "empty is empty and no fact store", "remove it"),
        (["knowledge", "facts", "add", "a", "b", "--store", "empty"], "empty is empty and no fact store", "remove it"),
    ],
)
@pytest.mark.usefixtures("here")
def test_refused(command: list[str], said: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name for path in Path().iterdir()}
    capsys.readouterr()
    assert main(command) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    error, _, hinted = captured.err.partition("\n\nhint: ")
    assert said in error
    assert hint in hinted
    assert "should not" not in error
    assert Path("empty").stat().st_size == 0
    assert {path.name for path in Path().iterdir()} - before <= {"cache", "runs"}


@pytest.mark.parametrize(
    ("options", "said", "hint"),
    [
        (["--seed", "9223372036854775807"], "seed of sampling is 9223372036854775807", "for `--seed`"),
        (["--samples", "100000000000"], "this generation needs about", "use fewer `--samples` or `--tokens`"),
        (["--tokens", "1000000000000"], "this generation needs about", "use fewer `--samples` or `--tokens`"),
    ],
)
def test_generation_is_refused(
    options: list[str], said: str, hint: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(run), "a", *options]) == 2
    error, _, hinted = capsys.readouterr().err.partition("\n\nhint: ")
    assert said in error
    assert hint in hinted


def test_a_host_without_an_address(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(host: str, *_: object) -> None:
        raise socket.gaierror(-2, f"{host}: name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert main(["studio", "--host", "nosuch.invalid"]) == 2
    error = capsys.readouterr().err
    assert "'nosuch.invalid' is no known host" in error
    assert "hint: leave `--host` out" in error


@pytest.mark.usefixtures("here")
def test_a_second_retraction_says_that_there_was_one(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["knowledge", "facts", "retract", "1", "--store", "facts.sqlite"]
    capsys.readouterr()
    assert main(command) == 0
    assert capsys.readouterr().out.startswith("no longer used: Where was Ada born? Wickholm")
    assert main(command) == 0
    assert capsys.readouterr().out.startswith("already retracted: Where was Ada born? Wickholm")


def test_a_folder_without_permission(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking into it fails here as it does without the right to: root, who may run the tests, has every right."""
    stat: Callable[..., os.stat_result] = os.stat

    def refuse(path: Any, *rest: Any, **options: Any) -> os.stat_result:
        if not isinstance(path, int) and Path(path).parent.name == run.name:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, *rest, **options)

    monkeypatch.setattr(os, "stat", refuse)
    assert main(["runs", "show", str(run)]) == 2
    error = capsys.readouterr().err
    assert "permission denied" in error
    assert "hint:" in error
    assert "should not" not in error
