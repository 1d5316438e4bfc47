"""`attnlab compare`, as somebody types it."""

from __future__ import annotations

import contextlib
import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from attnlab.cli import main

SMALL = [
    *("compare", "tied-kv", "--corpus", "kinship", "--steps", "6", "--seeds", "3", "--pilot", "0", "--processes", "1"),
    *("--change", "num_layers=1", "--change", "model_width=16", "--change", "num_heads=2"),
    *("--change", "context_length=8", "--change", "batch_size=4", "--change", "validation_rows=8"),
]


FEW = ["2" if before == "--seeds" else word for before, word in zip(["", *SMALL], SMALL, strict=False)]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    with contextlib.chdir(folder):
        assert main([*SMALL, "--quiet"]) == 0
    return folder / "runs"


@pytest.fixture
def finished(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Return the folder of a finished comparison in a copy of its own, below `runs`."""
    shutil.copytree(trained, tmp_path / "runs")
    capsys.readouterr()
    return next(Path("runs").iterdir())


def test_a_comparison_and_the_same_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(SMALL) == 0
    first = capsys.readouterr()
    assert "Against softmax at 4.11 k parameters and 192 tokens (context 8, 3 paired seeds), tied-kv" in first.out
    assert "GPT-2 small has 30,156 times as many parameters" in first.out
    assert "too short to judge it. softmax ends at" in " ".join(first.out.split())  # six steps leave no plateau
    assert "The plan:" in first.err
    assert "sign-flip" in first.err
    assert re.search(r"tied-kv seed 2: validation \d", first.err)
    (folder,) = Path("runs").iterdir()
    report = (folder / "report.html").read_text()
    assert "tied-kv" in report
    assert (folder / "runs.csv").read_text().count("\n") == 7
    assert main(SMALL) == 0
    again = capsys.readouterr()
    assert again.out == first.out
    assert "seed" not in again.err
    assert main(["compare", str(folder)]) == 0
    assert capsys.readouterr().out == first.out


@pytest.mark.usefixtures("finished")
def test_an_answer_that_is_there_needs_no_pytorch(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--quiet"]) == 0
    said = capsys.readouterr().out
    code = (
        "import sys; from attnlab.cli import main; code = main(sys.argv[1:]); sys.exit(code or 'torch' in sys.modules)"
    )
    again = subprocess.run([sys.executable, "-c", code, *SMALL], capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout) == (0, said)


def test_a_mixture_and_a_number_are_arms(capsys: pytest.CaptureFixture[str]) -> None:
    arms = ["gqa:1", "window:3*2,softmax", "softmax,(linear),softmax"]
    four = ["num_layers=4" if word == "num_layers=1" else word for word in FEW[2:]]
    assert main(["compare", *arms, *four, "--quiet", "--json", "--csv", "runs.csv"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [arm["name"] for arm in data["arms"]] == ["softmax", *arms]
    assert [len(arm["runs"]) for arm in data["arms"]] == [2] * 4
    (folder,) = Path("runs").iterdir()
    assert not set(folder.name) & set(":*,()")
    assert '"softmax,(linear),softmax",25k' in Path("runs.csv").read_text()
    assert main(["compare", arms[1], *SMALL[2:]]) == 2
    assert "lists 3 layers, and the model has 1" in capsys.readouterr().err


@pytest.mark.usefixtures("finished")
def test_data_tables_and_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--quiet", "--json", "--report", "page.html", "--csv", "runs.csv", "--figures", "made"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["verdicts"][0]["arm"] == "tied-kv"
    assert {"paired-differences-figure-1.pdf", "verdict-table-1.tex"} <= {path.name for path in Path("made").iterdir()}
    assert [len(arm["runs"]) for arm in data["arms"]] == [3, 3]
    assert Path("page.html").exists()
    assert (data["rungs"], data["trends"]) == ([], [])
    header, first = (line.split(",") for line in Path("runs.csv").read_text().splitlines()[:2])
    assert header[:6] == ["arm", "size", "parameters", "tokens", "seed", "difference"]
    assert first[:5] == ["softmax", "25k", "4112", "192", "0"]
    assert main([*SMALL, "--markdown"]) == 0
    assert "| tied-kv | **" in capsys.readouterr().out


def test_a_plan_alone_trains_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--plan"]) == 0
    said = capsys.readouterr().out
    assert "validation loss in nats after the last step" in said
    (folder,) = Path("runs").iterdir()
    assert (folder / "plan.json").exists()
    assert not (folder / "runs").exists()


def test_seeds_are_added_once(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SMALL, "--looks", "2", "--quiet"]
    assert main(words) == 0
    assert main([*words, "--add-seeds", "2"]) == 0
    assert "Analysis 2 added seeds 3 and 4" in " ".join(capsys.readouterr().out.split())
    assert main([*words, "--add-seeds", "2"]) == 2
    assert "all planned interim analyses (2) are done" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compare", "tied-kvv"], "did you mean 'tied-kv'"),
        (["compare", "--smoke", "--seeds", "3"], "--smoke` sets its own seeds"),
        (["compare", "--smoke", "--change", "dropout=0.1"], "--smoke` sets its own change"),
        (["compare", "--smoke", "--size", "25k"], "--smoke` sets its own size"),
        (["compare", "tied-kv", "--seeds", "1"], "one seed says nothing"),
        (["compare", "tied-kv", "--margin", "0"], "margin"),
        (["compare", "tied-kv", "--on", "moon"], "on"),
        (["compare", "tied-kv", "--where", "rubbish"], "is no name=value"),
        (["compare", "tied-kv", "--where", "moon=1"], "option of a launcher called 'moon'"),
        (["compare", "tied-kv", "--on", "slurm", "--where", "cluster=moon"], "cluster called 'moon'"),
        (["compare", "tied-kv", "--corpus", "missing.txt"], "missing.txt"),
        (["compare", "tied-kv", "--steps", "5", "--rungs", "6k"], "cannot hold for every rung"),
        (["compare", "tied-kv", "--size", "6k", "--rungs", "14k", "--tokens-per-parameter", "1"], "rungs must ascend"),
        (["compare", "tied-kv", "--size", "6x"], "there is no size called '6x'"),
        (["compare", "tied-kv", "--report", "no/such/folder.html"], "no folder"),
        (["compare", "tied-kv", "--figures", "no/such/folder"], "no folder"),
    ],
)
def test_what_cannot_be_done_is_told(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_a_run_is_no_comparison(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = next(finished.glob("runs/*"))
    assert main(["compare", str(run)]) == 2
    assert "is a single run" in capsys.readouterr().err


def test_recall_alone_is_compared_without_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["compare", "tied-kv", "--corpus", "mqar", "--steps", "6", "--seeds", "2", "--size", "14k", "--ladder"]
    assert main([*few, "--quiet"]) == 0
    assert capsys.readouterr().out.count("Against softmax at ") == 3
    plans = {path.parent: json.loads(path.read_text())["plan"]["request"] for path in Path("runs").glob("*/plan.json")}
    pairs = {request["corpus_options"]["pairs"]: folder for folder, request in plans.items()}
    assert sorted(pairs) == [4, 8, 16]
    assert [path.parent for path in Path("runs").glob("*/recall.html")] == [pairs[4]]
    assert main([*few, "--corpus-option", "pairs=2"]) == 2
    assert "`--ladder` sets its own corpus_option" in capsys.readouterr().err


def test_published_claims_are_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FEW, "cosine-learned", "--claims", "--quiet", "--json"]) == 0
    claims = json.loads(capsys.readouterr().out)["claims"]
    assert {one["claim"]["id"] for one in claims} == {"tied-kv-mild", "cosine-learned-good"}
    assert all(one["standing"] in {"reproduced", "not reproduced", "underpowered"} for one in claims)
    assert main([*FEW, "cosine-learned", "--claims"]) == 0
    assert "One projection for key and value costs little." in " ".join(capsys.readouterr().out.split())


def test_the_ladder_has_a_comparison_for_each_rung(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FEW, "--ladder", "--quiet"]) == 0
    said = capsys.readouterr().out
    assert said.count("Against softmax at ") == 4
    assert said.count(", 2 paired seeds)") == 4
    plans = [json.loads(path.read_text())["plan"] for path in Path("runs").glob("*/plan.json")]
    pairs = sorted(plan["request"]["corpus_options"].get("pairs", 0) for plan in plans)
    assert pairs == [0, 4, 8, 16]
    assert main([*FEW, "--ladder", "--json"]) == 0
    assert [len(one["verdicts"]) for one in json.loads(capsys.readouterr().out)] == [1, 1, 1, 1]
    assert main([*FEW, "--ladder", "--bundle", "all.zip"]) == 2
    assert "several comparisons" in capsys.readouterr().err


def test_the_ladder_says_how_much_is_recalled(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FEW, "--ladder", "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "With 16 pairs softmax itself answers" in " ".join(said.split())
    assert [path.parent.name for path in Path("runs").glob("*/recall.html")] == [
        path.parent.name for path in Path("runs").glob("*/plan.json") if '"kinship"' in path.read_text()
    ]
    files = ["--report", "page.html", "--csv", "recall.csv", "--figures", "figures"]
    assert main([*FEW, "--ladder", "--json", *files]) == 0
    told = [arm["runs"] for one in json.loads(capsys.readouterr().out)[1:] for arm in one["arms"]]
    rows = list(csv.DictReader(Path("recall.csv").read_text().splitlines()))
    assert [float(row["accuracy"]) for row in rows] == [run["measures"]["accuracy"] for runs in told for run in runs]
    assert "Recall against the number of pairs" in Path("page.html").read_text()
    assert sorted(path.suffix for path in Path("figures").iterdir() if "figure" in path.name) == [".pdf", ".svg"]
