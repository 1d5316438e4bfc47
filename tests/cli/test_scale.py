"""`attnlab scale`, as a user types it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from attnlab.cli import main
from attnlab.experiments import comparing
from attnlab.experiments.judging.claims import arms_of, published_claims
from attnlab.experiments.planning import planner as planning
from attnlab.experiments.planning import rate_search
from support.requests import InProcess

OPTIONS = {
    "--corpus": "kinship",
    "--rungs": "6k,14k,25k",
    "--tokens-per-parameter": "0.3",
    "--seeds": "2",
    "--rate-count": "3",
    "--rate-seeds": "1",
}
CHANGES = ["--change", "context_length=8", "--change", "validation_rows=8", "--no-half-tokens"]


def command(*words: str, **options: str) -> list[str]:
    """Return the words of a small study; an option that is given takes the place of the usual one."""
    given = {f"--{name.replace('_', '-')}": value for name, value in options.items()}
    pairs = {**OPTIONS, **given}.items()
    return ["scale", "tied-kv", *(word for pair in pairs for word in pair), *CHANGES, *words]


SMALL, FIXED = command(), command("--change", "learning_rate=0.01", "--claims")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder and train in this process; starting others would take most of the time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("ATTNLAB_CACHE", str(cache))
    monkeypatch.setattr(rate_search, "_EXTENSIONS", 0)
    monkeypatch.setattr(planning, "_TIMING_SECONDS", 0.001)

    def in_process(*_: object, **__: object) -> InProcess:
        return InProcess(cache)

    monkeypatch.setattr(comparing, "launcher", in_process)


def output(capsys: pytest.CaptureFixture[str], words: list[str], code: int = 0) -> tuple[str, str]:
    assert main(words) == code
    captured = capsys.readouterr()
    return " ".join(captured.out.split()), " ".join(captured.err.split())


def test_a_plan_alone_trains_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = output(capsys, [*SMALL, "--plan"])
    for part in ("tied-kv; against softmax", "6k: ", "14k: ", "25k: ", "tokens, 2 arms", "hours in all"):
        assert part in out
    assert not Path("runs").exists()


def test_a_plan_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--plan", "--json"]) == 0
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [rung["size"] for rung in data["rungs"]] == ["6k", "14k", "25k"]
    assert data["hours"] == pytest.approx(data["rate_hours"] + data["run_hours"])
    assert data["request"]["rungs"] == ["6k", "14k", "25k"]


def test_rates_only_searches_and_a_second_time_finds_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--rates-only", "--quiet", "--json"]) == 0
    rates = json.loads(capsys.readouterr().out)
    assert set(rates) == {"kinship"}
    assert {size: set(arms) for size, arms in rates["kinship"].items()} == {
        size: {"softmax", "tied-kv"} for size in ("6k", "14k", "25k")
    }
    folder = next(Path("runs").iterdir()) / "kinship"
    assert not (folder / "runs").exists()
    trials = sorted(folder.glob("rates/*/result.json"))
    out, _ = output(capsys, [*SMALL, "--rates-only", "--quiet"])
    assert "searched" in out
    assert "verified" in out
    assert sorted(folder.glob("rates/*/result.json")) == trials


def test_a_whole_study(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = output(capsys, [*FIXED, "--report", "page.html", "--csv", "runs.csv", "--figures", "made"])
    assert out.startswith("On kinship (context 8, 2 paired seeds), against softmax: tied-kv is ")
    assert "parameters and" in out
    assert "One projection for key and value" in out
    assert "is an extrapolation, not a finding" in " ".join(out.split())
    assert "hours in all" in err
    assert "report: runs" in err
    assert any(path.suffix == ".pdf" for path in Path("made").iterdir())
    assert Path("page.html").read_text().count("difference against size") >= 1
    assert Path("runs.csv").read_text().count("\n") == 1 + 2 * 2 * 3
    assert main([*FIXED, "--quiet", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["corpora"][0]["headline"] in out
    assert [one["claim"]["id"] for one in data["corpora"][0]["claims"]] == ["tied-kv-mild"]
    (folder,) = Path("runs").glob("scale-*/study-*")
    assert main(["scale", str(folder), "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["corpora"] == data["corpora"], "the folder names the study"
    _, err = output(capsys, ["scale", str(folder), "--seeds", "3"], code=2)
    assert "`--seeds 3` differs" in err
    shutil.copytree(folder, folder.parent / "study-of-mine")
    _, err = output(capsys, ["scale", str(folder.parent / "study-of-mine")], code=2)
    assert "the folder was renamed" in err
    (folder / "study.json").write_text('{"request": 3}')
    _, err = output(capsys, ["scale", str(folder)], code=2)
    assert "is damaged" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (command(rungs="6k,14k"), "a trend needs at least 3 rungs, got 2: 6k, 14k"),
        (command(rungs="6k,25k,14k"), "rungs must ascend"),
        (command(rungs="6k,14k,big"), "there is no size called 'big'"),
        (command(rungs="6k,14k,1k"), "must be between 6,144"),
        (command(target="20k"), "not more than the largest rung"),
        (command(target="moon"), "there is no size called 'moon'"),
        (command(tokens_per_parameter="100000"), "at most 8 are allowed"),
        (command(up_to="rubbish"), "write --up-to sigmoid=55k"),
        (command(up_to="tied-kv="), "write --up-to sigmoid=55k"),
        (command(up_to="cosine=14k"), "up_to names 'cosine', which is not compared"),
        (command(up_to="tied-kv=14k"), "no variant is trained at 25k"),
        (command(up_to="tied-kv=big"), "there is no size called 'big'"),
        (command(held_out="world"), "cannot be held out"),
        (command(corpus="missing.txt"), "missing.txt"),
        (command(hours="0.0000001"), "the smallest such study takes"),
        (command(seeds="1"), "one seed says nothing"),
        (command(rate_rungs="1"), "needs two searched rungs"),
        (command(where="rubbish"), "is no name=value"),
        (command("cosinee"), "did you mean 'cosine'"),
    ],
)
def test_what_cannot_be_done_is_told(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = output(capsys, [*words, "--plan"], code=2)
    assert out == ""
    assert said in err
    assert "hint:" in err


@pytest.mark.parametrize(
    "words",
    [command(rungs="6k,25k,14k"), command(target="20k"), command(tokens_per_parameter="100000")],
    ids=["descending rungs", "small target", "too little text"],
)
def test_what_cannot_be_done_is_told_before_anything_is_trained(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    output(capsys, [*words, "--quiet"], code=2)
    assert not list(Path().glob("runs/**/run.json"))


def test_a_report_that_cannot_be_written_is_told_first(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = output(capsys, [*SMALL, "--report", "no/such/folder.html"], code=2)
    assert "no folder" in err
    assert not Path("runs").exists()


def test_all_published_claims_are_studied_if_no_variant_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for word in SMALL if word != "tied-kv"]
    assert main([*words, "--claims", "--plan", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["request"]["variants"] == list(arms_of(published_claims(), "softmax"))
    assert data["request"]["claims"]
