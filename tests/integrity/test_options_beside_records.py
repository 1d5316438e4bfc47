"""Options are validated first, and beside something recorded they are refused unless they say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnlab.cli import main
from attnlab.experiments.request import Request
from attnlab.storage.plans import write_plan


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--steps", "500"], "`--steps 500` differs from what"),
        (["--variant", "sigmoid"], "`--variant sigmoid` differs from what"),
        (["--seed", "9"], "`--seed 9` differs from what"),
        (["--recipe", "fast"], "`--recipe fast` differs"),
        (["--corpus", "pydoc"], "`--corpus pydoc` differs"),
        (["--corpus", "kinship", "--corpus-option", "families=3"], "`--corpus-option {'families': 3}` differs"),
        (["--minutes", "2"], "`--minutes 2.0` differs"),
        (["--workers", "2"], "`--workers 2` differs"),
        (["--change", "batch_size=8"], "`--change batch_size=8` differs"),
        (["--change", "learning_rate=0.5"], "`--change learning_rate=0.5` differs"),
        (["--threads", "-1"], "threads is -1"),
        (["--steps", "0"], "steps of a run is 0"),
        (["--seed", "-1"], "seed of a run is -1"),
        (["--variant", "sofmax"], "did you mean 'softmax'"),
        (["--micro-batch-size", "-1"], "`--micro-batch-size -1` differs"),
    ],
)
def test_beside_a_run(options: list[str], said: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(run), *options]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert "hint:" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    "options",
    [
        ["--steps", "3", "--variant", "softmax", "--seed", "0", "--threads", "1"],
        ["--change", "batch_size=4", "--change", "learning_rate=0.001", "--corpus", "kinship"],
        ["--checkpoint-seconds", "5", "--quiet"],
    ],
)
def test_the_same_options_are_accepted(options: list[str], run: Path) -> None:
    assert main(["train", str(run), *options]) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--change", "steps=3", "--steps", "4"], "`--steps 4` and --change both set steps"),
        (["--change", "tied-kv", "--variant", "sigmoid"], "`--variant sigmoid` and --change both set variant"),
        (["--change", "steps=3", "--change", "steps=5"], "changes steps twice"),
    ],
)
def test_an_option_and_a_change_of_the_same(
    options: list[str], said: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--corpus", "kinship", *options]) == 2
    assert said in capsys.readouterr().err
    assert list(Path("runs").iterdir()) == [run]


REQUEST = Request(variants=("tied-kv",), size="pico", steps=2, seeds=2)


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The folder of a comparison whose plan says what was asked, and nothing else."""
    monkeypatch.chdir(tmp_path)
    folder = Path("runs") / REQUEST.folder
    folder.mkdir(parents=True)
    write_plan(folder, {"request": REQUEST.model_dump(mode="json")})
    return REQUEST.folder


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--seeds", "9"], "`--seeds 9` differs from what"),
        (["--steps", "7"], "`--steps 7` differs"),
        (["--baseline", "cosine"], "`--baseline cosine` differs"),
        (["--change", "batch_size=8"], "differs from what"),
        (["--alpha", "0.2"], "`--alpha 0.2` differs"),
        (["--seeds", "100000000000"], "seeds of a comparison is 100000000000"),
    ],
)
def test_beside_a_comparison(options: list[str], said: str, planned: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", planned, *options]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert "hint:" in captured.err
    assert captured.out == ""


def test_an_edited_plan_starts_no_other_comparison(planned: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path("runs", planned, "plan.json")
    path.write_text(path.read_text().replace('"seeds": 2', '"seeds": 3'))
    assert main(["compare", planned]) == 2
    assert "was changed after it was made" in capsys.readouterr().err
    assert [found.name for found in Path("runs").iterdir()] == [planned]


def test_a_plan_of_another_request_is_refused(planned: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As one that was edited together with its hash."""
    write_plan(Path("runs", planned), {"request": REQUEST.replace(seeds=3).model_dump(mode="json")})
    assert main(["compare", planned]) == 2
    assert "does not belong there" in capsys.readouterr().err
    assert [found.name for found in Path("runs").iterdir()] == [planned]
