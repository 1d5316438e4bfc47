"""`attnlab look`, as somebody types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnlab.cli import main
from support.training import KINSHIP, smoke, train_in


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two seeds of two variants, the first with a layer that has no map."""
    folder = tmp_path_factory.mktemp("trained")
    return [
        train_in(folder, smoke(corpus=KINSHIP, variant=variant, num_layers=2, seed=seed)).path
        for variant in ("softmax,linear", "cosine")
        for seed in (0, 1)
    ]


@pytest.fixture(autouse=True)
def _here(trained: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").symlink_to(trained[0].parent)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("ATTNLAB_CACHE", str(trained[0].parents[1] / "cache"))


@pytest.fixture
def run(trained: list[Path]) -> Path:
    return trained[0]


def test_a_page_and_a_table(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", run.name]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].split() == ["head", "does", "importance", "95", "%", "entropy", "length", "direction", "position"]
    assert [line.split()[0] for line in lines[2:6]] == ["0.0", "0.1", "1.0", "1.1"]
    assert "layer 1: no map: linear" in captured.out
    assert "Which heads are similar" in captured.out
    assert captured.err == "wrote look.html\n"
    page = Path("look.html").read_text(encoding="utf-8")
    assert "<h1>Inside" in page
    assert "Importance of each head" in page


def test_only_the_maps(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["look", str(run), "a" * 30, "--out", "mine.html", "--layer", "0", "--head", "1", "--maps-only"]
    assert main([*words, "--figures", "made"]) == 0
    captured = capsys.readouterr()
    assert "the first 8 are shown" in captured.err
    assert captured.out.split()[:3] == ["layer", "head", "entropy"]
    assert len(captured.out.splitlines()) == 3
    assert Path("mine.html").exists()
    assert not Path("look.html").exists()
    assert Path("made/attention-maps-of-all-heads-maps-1.svg").exists()


def test_what_else_can_be_asked_for(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--embeddings", "--analogy", "a", "e", "i", "o", "--beside", "a man is", "--neurons", "--token", "a"]
    assert main(["look", run.name, "man and", *words, "--over-training", "--no-importance", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    wanted = {"heads", "redundancy", "embeddings", "analogies", "same_token", "neurons", "over_training"}
    assert wanted <= set(found)
    assert "importance" not in found
    assert found["analogies"]["questions"] == [["a", "e", "i", "o"]]
    assert main(["look", run.name, "man and", *words, "--maps-only"]) == 0
    printed = capsys.readouterr().out
    for heading in ("Embeddings", "Analogies", "The same token in another sentence", "Single neurons"):
        assert heading in printed


def test_json_on_stdout_and_nothing_else(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", run.name, "abc", "--json", "--maps-only"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tokens"] == ["a", "b", "c"]
    assert set(found["layers"][0]["heads"][0]) == {"head", "numbers", "row_mass"}
    assert not Path("look.html").exists()
    assert main(["look", run.name, "abc", "--json", "--weights", "--maps-only", "--out", "look.html"]) == 0
    weights = json.loads(capsys.readouterr().out)["layers"][0]["heads"][1]["weights"]
    assert [sum(row) for row in weights] == pytest.approx([1, 1, 1])
    assert Path("look.html").exists()


def test_names(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", run.name, "--names"]) == 0
    assert "blocks.0.attention.weights" in capsys.readouterr().out
    assert main(["look", run.name, "--names", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["residual"] == ["batch", "tokens", 16]
    assert not Path("look.html").exists()


def test_runs_are_compared(trained: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    names = [path.name for path in trained]
    assert main(["look", "man and", "--compare", *names]) == 0
    captured = capsys.readouterr()
    assert "What cosine does differently" in captured.out
    assert "previous token, strongest" in captured.out
    assert captured.err == "wrote look.html\n"
    assert "<h2>Side by side</h2>" in Path("look.html").read_text(encoding="utf-8")
    Path("look.html").unlink()
    assert main(["look", "--compare", names[0], names[1], "--no-importance", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [side["name"] for side in found["sides"]] == names[:2], "two seeds of one variant are two sides"
    assert not Path("look.html").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "there is no run to look at"),
        (["--compare", "RUN"], "1 runs cannot be compared"),
        (["--compare", "RUN", "absent"], "there is no run or folder absent"),
        (["--compare", "RUN", "OTHER", "--neurons"], "--compare can be combined only with"),
        (["--compare", "RUN", "OTHER", "--layer", "0"], "--compare can be combined only with"),
        (["RUN", "text", "--compare", "RUN", "OTHER"], "there is one text"),
        (["absent"], "there is no run or folder absent"),
        (["runs"], "neither a run nor a pretrained model"),
        (["RUN", ""], "the text is empty"),
        (["RUN", "日本"], "does not know '日'"),
        (["RUN", "\udcff\udcfe"], "does not know"),
        (["RUN", "--layer", "7"], "there is no layer 7"),
        (["RUN", "--tokens", "0"], "a text of 0 tokens"),
        (["RUN", "--step", "99"], "no weights of step 99"),
        (["RUN", "--weights"], "--weights belongs to --json"),
        (["RUN", "--out", "missing/look.html"], "there is no folder missing"),
        (["RUN", "--source", "a"], "takes no source"),
        (["RUN", "--maps-only", "--importance"], "--maps-only does not measure the importance of heads"),
        (["RUN", "--facts"], "generated world"),
        (["RUN", "--on", "absent.txt"], "there is no file or folder absent.txt"),
        (["RUN", "--analogy", "a", "b", "c", "de"], "'de' is 2 tokens"),
    ],
)
def test_what_cannot_be_is_explained(
    trained: list[Path], arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    named = {"RUN": trained[0].name, "OTHER": trained[2].name}
    assert main(["look", *(named.get(word, word) for word in arguments)]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert "hint:" in captured.err
    assert captured.out == ""
    assert not Path("look.html").exists()
