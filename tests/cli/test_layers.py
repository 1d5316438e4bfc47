"""A whole layer of one's own on the command line: explained, checked, generated from and looked at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnlab.attention import load_variants
from attnlab.cli import main
from support.layers import SHIFT, forgetting
from support.training import KINSHIP, smoke, train_in


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The file, and two finished runs: of such layers alone, and of a mixture."""
    folder = tmp_path_factory.mktemp("layers")
    path = folder / "mine.py"
    path.write_text(SHIFT)
    with forgetting():
        load_variants(path)
        specs = (smoke(variant=name, corpus=KINSHIP, num_layers=2) for name in ("shift", "softmax,shift"))
        alone, mixed = (str(train_in(folder, spec).path) for spec in specs)
    return path, alone, mixed


def run(made: tuple[Path, str, str], capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with forgetting():
        assert main([*words, "--variants-from", str(made[0])]) == 0
    return capsys.readouterr().out


def test_it_is_explained(made: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    text = run(made, capsys, "variants", "shift")
    assert "What your own layer cannot provide" in text
    assert "this layer gives no attention maps" in text
    found: dict[str, Any] = json.loads(run(made, capsys, "variants", "shift", "--json"))
    assert found["kernel"] == "module"
    assert len(found["limits"]) == 5
    assert found["changes"] == {"layer": {"kind": "shift"}}
    assert "shift" in run(made, capsys, "variants", "softmax,shift")


def test_the_quick_checks_pass(made: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(made, capsys, "check", "shift", "--quick", "--json"))
    assert found["passes"]
    outcomes = {one["check"]: one["outcome"] for one in found["findings"]}
    assert outcomes["kernel"] == outcomes["padding"] == "not applicable"


def test_generation_needs_the_file(made: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(made, capsys, "generate", made[1], "is", "a", "--tokens", "5", "--json"))
    assert len(found) == 2
    with forgetting():
        assert main(["generate", made[1], "is"]) == 2
    error = capsys.readouterr().err
    assert "there is no layer called 'shift' here" in error
    assert "--variants-from FILE" in error


@pytest.mark.parametrize("number", [1, 2])
def test_looking_shows_what_there_is(
    made: tuple[Path, str, str], number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "look.html"
    text = run(made, capsys, "look", str(made[number]), "--out", str(page))
    assert "shift: this layer gives no attention maps" in text
    assert "this layer gives no attention maps" in page.read_text(encoding="utf-8")
    names = run(made, capsys, "look", str(made[number]), "--names")
    assert "blocks.1.attention.output" in names
    assert "blocks.1.attention.heads" not in names


def test_runs_are_compared(made: tuple[Path, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "look.html"
    run(made, capsys, "look", "--compare", made[2], made[1], "--out", str(page))
    assert "this layer gives no attention maps" in page.read_text(encoding="utf-8")
