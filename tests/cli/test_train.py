"""`attnlab train` and `attnlab generate`, as somebody types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnlab.cli import main

MODEL = [
    *("--change", "num_layers=1", "--change", "model_width=16", "--change", "num_heads=2"),
    *("--change", "context_length=8", "--change", "batch_size=4"),
]
SMALL = ["train", "--corpus", "kinship", "--workers", "1", "--threads", "1", "--steps", "6", *MODEL]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path / "cache"))


def trained(capsys: pytest.CaptureFixture[str], *more: str) -> Path:
    assert main([*SMALL, "--json", "--quiet", *more]) == 0
    return Path(json.loads(capsys.readouterr().out)["path"])


def test_a_run_and_the_same_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(SMALL) == 0
    first = capsys.readouterr()
    assert "validation loss" in first.out
    assert "finished" in first.out
    assert main(SMALL) == 0
    again = capsys.readouterr()
    assert again.out == first.out
    assert "is left as it is" in again.err
    (run,) = Path("runs").iterdir()
    assert main(["train", str(run)]) == 0
    assert main(["train", run.name]) == 0


def test_data_is_on_stdout_and_talk_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["outcome"] == "finished"
    assert result["steps"] == 6
    assert len(result["weights_sha256"]) == 64


def test_a_rate_that_diverges(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--change", "learning_rate=1e30"]) == 3
    captured = capsys.readouterr()
    assert "diverged" in captured.out
    assert "hint: try --change learning_rate" in captured.err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--change", "learning_rat=1"], "did you mean 'learning_rate'"),
        (["--variant", "tied-kb"], "did you mean"),
        (["--size", "nanno"], "did you mean 'nano'"),
        (["--recipe", "fats"], "did you mean 'fast'"),
        (["--corpus", "kinshp"], "did you mean 'kinship'"),
        (["--corpus", "missing.txt"], "missing.txt"),
        (["--steps", "0"], "steps"),
        (["--steps", "5", "--minutes", "1"], "not both"),
        (["--workers", "0"], "workers is 0"),
        (["--checkpoint-seconds", "0"], "between checkpoints"),
    ],
)
def test_what_cannot_be_is_explained(more: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = [] if "--corpus" in more else ["--corpus", "kinship"]
    assert main(["train", *corpus, *MODEL, *more]) == 2
    assert said in capsys.readouterr().err
    assert not Path("runs").exists()


def test_no_such_run(capsys: pytest.CaptureFixture[str]) -> None:
    for verb, words in (
        ("train", "there is no run called 'nowhere'"),
        ("generate", "neither a run nor a pretrained model"),
    ):
        assert main([verb, "nowhere"]) == 2
        assert words in capsys.readouterr().err


def test_one_text_as_it_comes(capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(capsys)
    texts = []
    for _ in range(2):
        assert main(["generate", str(run), "The ", "--tokens", "12", "--seed", "3"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert texts[0].startswith("The ")
    assert len(texts[0]) == len("The ") + 12 + 1  # characters, and the end of the line


def test_several_texts_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(capsys)
    assert main(["generate", run.name, "The ", "a", "--samples", "2", "--tokens", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["prompt"] for one in found] == ["The ", "The ", "a", "a"]
    assert all(len(one["text"]) == 5 for one in found)
    assert main(["generate", run.name, "The ", "a", "--tokens", "5"]) == 0
    assert "\n---\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["☃"], "☃"),
        (["a", "--samples", "0"], "0 samples"),
        (["a", "--tokens", "-1"], "-1 tokens"),
        (["a", "--top-p", "2"], "top_p"),
    ],
)
def test_what_cannot_be_written(more: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(capsys)
    assert main(["generate", str(run), *more]) == 2
    assert said in capsys.readouterr().err
