"""`attnlab knowledge`, as somebody types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnlab.cli import main
from attnlab.corpora import World

SMALL = [
    *("--num-layers", "1", "--model-width", "16", "--num-heads", "2", "--workers", "1", "--threads", "1"),
    *("--vocabulary-size", "300", "--quiet"),
]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    world = World.generate(0, people=24, unseen=4, places=5, exposures="1", details=1)
    Path("text.txt").write_text(world.text())
    pairs = [*world.pairs("train"), *world.pairs("heldout")]
    Path("pairs.tsv").write_text("".join(f"{question}\t{answer}\n" for question, answer in pairs))


def printed(capsys: pytest.CaptureFixture[str], *tokens: str) -> dict[str, object]:
    assert main(["knowledge", *tokens, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_pretrain_finetune_evaluate(capsys: pytest.CaptureFixture[str]) -> None:
    read = ["--text", "text.txt", "--pairs", "pairs.tsv"]
    pretrained = printed(capsys, "pretrain", *read, "--steps", "2", *SMALL)
    name = Path(str(pretrained["run"])).name
    finetuned = printed(capsys, "finetune", name, "--steps", "2", "--workers", "1", "--threads", "1", "--quiet")
    run = str(finetuned["run"])
    found = printed(capsys, "evaluate", run, "--samples", "2", "--predictions", "answers.tsv")
    assert found["questions_in_training_split"] == 0
    assert len(Path("answers.tsv").read_text().splitlines()) == 1 + len(found["answers"])  # type: ignore[arg-type]
    assert main(["knowledge", "evaluate", run, "--pairs", "pairs.tsv"]) == 0
    shown = capsys.readouterr()
    assert "exact match" in shown.out
    assert "always " in shown.out
    assert "are in the training split" in shown.err


def test_run_does_all_of_it_and_finds_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["run", "--text", "text.txt", "--pairs", "pairs.tsv", "--recipe", "assignment", "--epochs", "1", "--alone"]
    small = [*SMALL[:10], "--quiet"]
    first = printed(capsys, *line, *small)
    assert first["without_pretraining"] is not None
    again = printed(capsys, *line, *small)
    assert {**first, "seconds": 0, "without_pretraining": 0} == {**again, "seconds": 0, "without_pretraining": 0}
    assert len(list(Path("runs").iterdir())) == 3


def test_the_demo_at_its_smallest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["knowledge", "demo", "--smoke", "--workers", "1", "--threads", "1", "--quiet"]) == 0
    shown = capsys.readouterr().out
    for words in ("always the commonest place", "people who are nowhere in the text", "AUROC", "agreement"):
        assert words in shown


@pytest.mark.parametrize(
    ("tokens", "complaint"),
    [
        (["pretrain", "--text", "nothing.txt"], "nothing.txt cannot be read"),
        (["pretrain", "--text", "empty.txt"], "holds no text"),
        (["pretrain", "--text", "text.txt", "--recipe", "fats"], "did you mean 'fast'?"),
        (["pretrain", "--text", "text.txt", "--variant", "softmaxx"], "there is no variant"),
        (["pretrain", "--text", "text.txt", "--pairs", "bad.tsv"], "line 2 of bad.tsv has no tab"),
        (["pretrain", "--text", "text.txt", "--epochs", "1", "--minutes", "1"], "not both"),
        (["finetune"], "there is no run to finetune"),
        (["finetune", "nowhere"], "there is no run called 'nowhere'"),
        (["evaluate", "nowhere"], "there is no run called 'nowhere'"),
        (["run", "--text", "text.txt", "--pairs", "pairs.tsv", "--heldout-share", "0"], "kept back"),
        (["run", "--text", "text.txt", "--pairs", "pairs.tsv", "--calibration-share", "1"], "add up below 1"),
    ],
)
def test_bad_requests(capsys: pytest.CaptureFixture[str], tokens: list[str], complaint: str) -> None:
    Path("empty.txt").write_text("\n")
    Path("bad.tsv").write_text("a?\tX\nno tab\n")
    assert main(["knowledge", *tokens]) == 2
    assert complaint in " ".join(capsys.readouterr().err.split())
    assert not Path("runs").exists()
