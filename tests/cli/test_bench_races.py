"""`attnlab bench train`, `generate` and `time-to-loss`: what they print, write and refuse. The races are pretended."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import attnlab
from attnlab.bench import Durations
from attnlab.bench.findings import BenchListener
from attnlab.bench.races import speed
from attnlab.bench.races.race import Race, RaceEntry
from attnlab.cli import main
from attnlab.processes.machine import available_cores
from support.nanogpt import write_nanogpt

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `attnlab bench …` in this process; gives exit code, stdout and stderr."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*tokens: str) -> tuple[int, str, str]:
        code = main(["bench", *tokens])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def pretend(seconds: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes part takes as long as is said here."""

    def race(entries: Sequence[RaceEntry], work: str, rounds: int, listener: BenchListener, **_: object) -> Race:
        listener.step(f"a race to {work}", 0, 1)
        taken = {entry.name: (seconds[entry.name],) * rounds for entry in entries}
        return Race(Durations(taken), dict.fromkeys(taken, 1.0))

    monkeypatch.setattr(speed, "race", race)


@pytest.fixture
def _races(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = {"attnlab": 1.0, "nanoGPT": 1.4, "nanoGPT compiled": 1.15, "Transformers": 3.0, "matrix products": 0.5}
    pretend(usual, monkeypatch)
    monkeypatch.setattr("attnlab.bench.races.race.can_compile", lambda: True)
    monkeypatch.setattr("attnlab.bench.races.race.transformers_is_installed", lambda: True)


@pytest.mark.usefixtures("_races")
def test_train(run: Run, tmp_path: Path) -> None:
    clone = write_nanogpt(tmp_path / "clone")
    page = tmp_path / "page.html"
    code, out, err = run(
        "train", "--shape", "small", "--shape", "mini", "--nanogpt", str(clone), "--bars", "--out", str(page)
    )
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert ["attnlab", "768", "1000", "–", "1.00"] in rows
    assert ["nanoGPT", "compiled", "667.8", "1150", "1.15", "1.15–1.15", "1.00"] in rows or (
        ["nanoGPT", "compiled", "668", "1150", "1.15", "1.15–1.15", "1.00"] in rows
    )
    verdicts = {row[0]: row[1] for row in rows if len(row) > 2 and row[1] in ("met", "missed")}
    assert verdicts == {"speed-small": "missed", "speed-mini": "met", "peak-share": "missed"}
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "a race to train" in err
    html = page.read_text(encoding="utf-8")
    for words in ("Training against the peers", "Training, small", "speed-mini", "Plotly.newPlot"):
        assert words in html


@pytest.mark.usefixtures("_races")
def test_against_another_version(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend({"attnlab": 1.0, "other attnlab": 1.25, "matrix products": 0.5}, monkeypatch)
    src = Path(attnlab.__file__).parents[1]
    code, out, _ = run("train", "--shape", "rung", "--no-transformers", "--against", str(src), "--bars", "--strict")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert any(row[:2] == ["other", "attnlab"] and "1.25" in row for row in rows)
    assert ["speed-rung", "met"] in [row[:2] for row in rows]
    assert "GFLOP/s a core" in " ".join(out.split())


@pytest.mark.usefixtures("_races")
def test_without_nanogpt_nothing_is_guessed(run: Run) -> None:
    code, out, err = run("train", "--shape", "mini", "--no-transformers", "--bars", "--strict", "--json")
    found = json.loads(out)
    assert code == 1  # what is not measured is not met
    assert [(bar["name"], bar["verdict"]) for bar in found["bars"]] == [
        ("speed-mini", "not measured"),
        ("peak-share", "missed"),
    ]
    assert [runner["name"] for runner in found["races"][0]["runners"]] == ["attnlab"]
    assert found["notes"] == ["nothing is measured against nanoGPT: give the folder of a clone by `nanogpt`"]
    assert "note: nothing is measured against nanoGPT: give the folder of a clone by `--nanogpt`\n" in err


@pytest.mark.usefixtures("_races")
@pytest.mark.parametrize(("seconds", "expected"), [(2.5, 0), (2.4, 1)])
def test_generate(run: Run, monkeypatch: pytest.MonkeyPatch, seconds: float, expected: int) -> None:
    pretend({"attnlab": 1.0, "Transformers": seconds}, monkeypatch)
    code, out, _ = run("generate", "--rounds", "2", "--bars", "--strict")
    assert code == expected
    assert ("missed" in out) == bool(expected)
    assert "200 tokens drawn" in " ".join(out.split())
    assert max(len(line) for line in out.splitlines()) <= 80


@pytest.mark.usefixtures("_races")
def test_all_shapes_unless_told_otherwise(run: Run) -> None:
    code, out, err = run("train", "--smoke", "--json")
    assert code == 0
    assert [race["shape"]["name"] for race in json.loads(out)["races"]] == ["small", "mini", "gpt2"]
    assert json.loads(out)["races"][2]["shape"]["model_width"] == 16
    assert json.loads(out)["rounds"] == 2
    assert err.startswith("note: a smoke run: the figures mean nothing\n")


@pytest.mark.usefixtures("_races")
@pytest.mark.parametrize(
    ("tokens", "message", "hint"),
    [
        (["train", "--shape", "smal"], "there is no shape called 'smal'", "did you mean 'small'?"),
        (["train", "--rounds", "0"], "0 rounds measure nothing", "use `--rounds 1` or more"),
        (["train", "--threads", str(available_cores() + 1)], "threads cannot be measured", "use `--threads 1`"),
        (["train", "--nanogpt", "missing"], "missing is no folder", "a clone of nanoGPT"),
        (["train", "--against", "missing"], "missing does not hold the races of another attnlab", "the src folder"),
        (["train", "--nanogpt", "."], "holds no model.py", "a clone of nanoGPT"),
        (["train", "--strict"], "--strict judges the bars", "add --bars"),
        (["train", "--out", "missing-folder/page.html"], "there is no folder missing-folder", "make it"),
        (["generate", "--strict"], "--strict judges the bars", "add --bars"),
        (["generate", "--rounds", "0"], "0 rounds measure nothing", "use `--rounds 1` or more"),
        (["time-to-loss", "--text", "x", "--nanogpt", "missing"], "missing is no folder", "a clone of nanoGPT"),
        (["time-to-loss", "--nanogpt", "missing"], "requires an argument", "--help"),
    ],
)
def test_what_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: list[str], message: str, hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*tokens)
    assert (code, out) == (2, "")
    error, _, told = err.partition("\n\n")
    assert message in error
    assert hint in told


def test_a_text_that_is_missing(run: Run, tmp_path: Path) -> None:
    clone = write_nanogpt(tmp_path / "clone")
    code, _, err = run("time-to-loss", "--text", str(tmp_path / "no.txt"), "--nanogpt", str(clone))
    assert code == 2
    assert "no.txt cannot be read" in err
