"""`attnlab bench attention` at a size where it takes no time: its table, its JSON, its page, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnlab.attention.names import catalogue
from attnlab.bench import VariantBar
from attnlab.bench import attention as attention_module
from attnlab.bench import bars as bars_module
from attnlab.bench.timing import Ratio
from attnlab.cli import main
from attnlab.processes.machine import available_cores

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `attnlab bench attention --smoke` in this process; gives exit code, stdout and stderr."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*tokens: str) -> tuple[int, str, str]:
        threads = [] if "--threads" in tokens else ["--threads", "1"]
        code = main(["bench", "attention", "--smoke", *threads, *tokens])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def never_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        pytest.fail("measured before everything was checked")

    monkeypatch.setattr(attention_module, "measure", fail)


def test_table(run: Run) -> None:
    code, out, err = run("softmax", "sigmoid", "entmax15", "linear")
    assert code == 0
    lines = out.splitlines()
    assert "1 thread, PyTorch" in lines[0]
    assert lines[1] == "batch 1, 2 heads of width 16, 128 tokens, float32"
    rows = {line.split()[0]: line.split() for line in lines if line[:1].isalpha()}
    assert all(len(rows[name]) == 9 for name in ("softmax", "sigmoid", "entmax15", "linear"))
    assert max(len(line) for line in lines) <= 80
    assert "\x1b" not in out
    assert err == "note: a smoke run: the figures mean nothing\n1/4 softmax\n2/4 sigmoid\n3/4 entmax15\n4/4 linear\n"


def test_the_table_of_the_whole_catalogue_fits_into_80_columns(run: Run) -> None:
    code, out, _ = run("--rounds", "1", "--tokens", "16")
    assert code == 0
    assert "synthesizer-random" in out
    assert max(len(line) for line in out.splitlines()) <= 80


def keys_of(values: dict[str, Any]) -> set[str]:
    return set(values)


def test_json(run: Run) -> None:
    code, out, _ = run("sparsemax", "rope", "--json")
    assert code == 0
    found = json.loads(out)
    assert keys_of(found) == {"benchmark", "baseline", "peer", "machine", "size", "rounds", "variants"}
    assert found["size"] == {"batch": 1, "heads": 2, "tokens": 128, "width": 16}
    assert found["rounds"] == 2
    machine = {"processor", "cores", "threads", "memory_bytes", "load", "system", "python", "torch", "attnlab"}
    assert keys_of(found["machine"]) == machine
    assert [row["name"] for row in found["variants"]] == ["sparsemax", "rope"]
    times = {"baseline_seconds", "variant", "reference", "peer", "reference_over_variant", "peer_over_variant"}
    for row in found["variants"]:
        assert keys_of(row) == {"name", "kernel", "forward", "forward_backward", "peak_bytes"}
        assert keys_of(row["forward"]) == keys_of(row["forward_backward"]) == times
        assert keys_of(row["forward"]["variant"]) == {"median", "low", "high", "rounds"}
        assert keys_of(row["peak_bytes"]) == {"baseline", "variant", "reference", "peer"}
    assert found["variants"][1]["forward"]["peer"] is None


def test_sizes_that_are_given_win_over_the_smoke_size(run: Run) -> None:
    code, out, _ = run(
        "softmax", "--batch", "3", "--heads", "4", "--tokens", "8", "--width", "6", "--rounds", "1", "--json"
    )
    assert code == 0
    assert json.loads(out)["size"] == {"batch": 3, "heads": 4, "tokens": 8, "width": 6}
    assert json.loads(out)["rounds"] == 1


def test_page(run: Run, tmp_path: Path) -> None:
    code, out, err = run("relu", "sparsemax", "--out", str(tmp_path / "bench.html"))
    assert (code, out != "") == (0, True)
    assert err.endswith(f"wrote {tmp_path / 'bench.html'}\n")
    html = (tmp_path / "bench.html").read_text(encoding="utf-8")
    for words in ("relu", "sparsemax", "Attention variants against fused softmax", "Plotly.newPlot"):
        assert words in html
    assert list(tmp_path.iterdir()) == [tmp_path / "bench.html"]


def test_bars(run: Run, tmp_path: Path) -> None:
    code, out, err = run("tied-kv", "window", "--bars", "--out", str(tmp_path / "bars.html"))
    assert code == 0  # whatever the verdicts are
    rows = {line.split()[0]: line for line in out.splitlines() if line[:1].isalpha() and ":" not in line}
    assert rows["cache"].split() == ["cache", "met", "≤", "0.5", "0.5", "tied-kv", "1/1"]
    assert rows["decoding"].split()[1] == "reported"
    assert {"speed", "memory", "memory-growth", "window", "cache", "decoding"} <= set(rows)
    assert "linear-growth" not in out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "note: a smoke run" in err
    assert "speed: tied-kv" in err
    assert "The bars of attnlab" in (tmp_path / "bars.html").read_text(encoding="utf-8")


def test_bars_as_json(run: Run) -> None:
    code, out, _ = run("tied-kv", "--bars", "--json")
    assert code == 0
    found = json.loads(out)
    assert keys_of(found) == {"benchmark", "all_met", "machine", "size", "rounds", "notes", "bars"}
    bar = {"name", "what", "how", "limit", "at_least", "verdict", "figures"}
    assert all(keys_of(outcome) == bar for outcome in found["bars"])
    assert keys_of(found["bars"][0]["figures"][0]) == {"variant", "ratio", "met", "strain"}


@pytest.mark.parametrize(
    ("value", "strict", "expected"), [(0.9, True, 0), (1.1, True, 1), (1.1, False, 0), (0.9, False, 0)]
)
def test_a_missed_bar_is_an_exit_code_only_if_strict(
    run: Run, monkeypatch: pytest.MonkeyPatch, value: float, strict: bool, expected: int
) -> None:
    bar = VariantBar("made-up", "all", "by hand", 1.0, lambda _: True, lambda *_: Ratio.exact(value))
    monkeypatch.setattr(bars_module, "BARS", (bar,))
    code, out, _ = run("softmax", "--bars", *(["--strict"] if strict else []))
    assert code == expected
    assert ("missed" in out) == (value > 1)


def test_variants_of_ones_own(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_known", dict(catalogue._known))  # forget it afterwards
    file = tmp_path / "mine.py"
    file.write_text(
        "from attnlab.attention import Variant, add_variant\n"
        "add_variant(Variant('my-own', 'Mine.', {'normaliser': 'relu'}))\n"
    )
    code, out, _ = run("my-own", "my-own", "relu+rope", "--variants-from", str(file), "--json")
    assert code == 0
    assert [row["name"] for row in json.loads(out)["variants"]] == ["my-own", "relu+rope"]


@pytest.mark.usefixtures("never_measure")
@pytest.mark.parametrize(
    ("tokens", "message", "hint"),
    [
        (["sofmax"], "there is no variant called 'sofmax'", "did you mean 'softmax'?"),
        (["--rounds", "0"], "0 rounds measure nothing", "use `--rounds 1` or more"),
        (["--rounds=-1"], "-1 rounds measure nothing", "use `--rounds 1` or more"),
        (["--batch", "0"], "at batch 0 is impossible", "use `--batch 1` or more"),
        (["--tokens=-5"], "at tokens -5 is impossible", "use `--tokens 1` or more"),
        (["--threads", "0"], "0 threads cannot be measured", "use 1"),
        (["--threads", str(available_cores() + 1)], "threads cannot be measured on a machine with", "use 1"),
        (["--strict"], "--strict judges the bars, and they are not measured", "add --bars"),
        (["softmax", "rope", "--width", "5"], "rope rotates pairs of numbers", "key_width=6"),
        (["--out", "missing-folder/page.html"], "there is no folder missing-folder", "make it, or name another"),
        (["--out", "."], ". is a folder", "name a file in it"),
        (["--variants-from", "missing.py"], "missing.py is no Python file", "give a .py file"),
        (["--tokens", "many"], 'unable to convert "many" into int', "--help"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_measuring(
    run: Run, tokens: list[str], message: str, hint: str
) -> None:
    code, out, err = run(*tokens)
    assert (code, out) == (2, "")
    error, _, told = err.removeprefix("note: a smoke run: the figures mean nothing\n").partition("\n\n")
    assert error.startswith("error: ")
    assert message in error
    assert hint in told


def test_in_a_process_of_its_own_it_prints_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "attnlab", "bench", "attention", "softmax", "--smoke", "--threads", "1", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["variants"][0]["name"] == "softmax"
    assert done.stderr == "note: a smoke run: the figures mean nothing\n1/1 softmax\n"
