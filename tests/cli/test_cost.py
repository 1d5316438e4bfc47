"""`attnlab cost`, as somebody types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnlab.attention.names import catalogue
from attnlab.bench.products import cost as bench
from attnlab.cli import main


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.setattr(catalogue, "_known", dict(catalogue._known))


def test_one_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost"]) == 0
    captured = capsys.readouterr()
    assert "gpt2 softmax: 12 layers of width 768" in captured.out
    assert "124,439,808" in captured.out
    assert "cache after the context" in captured.out
    assert captured.err == ""


def test_variants_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "mini", "--variant", "tied-kv", "--variant", "gqa", "--context", "512", "--batch", "2"]) == 0
    out = capsys.readouterr().out
    cache = next(line for line in out.splitlines() if line.startswith("cache after"))
    assert cache.split()[-6:] == ["9.00", "MiB", "0.50", "9.00", "MiB", "0.50"]


def test_a_mixture_costs_what_its_layers_cost(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["gqa:3", "window:64", "softmax,(window:64),gqa:3"]
    assert main(["cost", "mini", "--json", *(word for name in names for word in ("--variant", name))]) == 0
    found = json.loads(capsys.readouterr().out)
    cache = {one["question"]["variant"]: one["totals"]["cache_bytes"] for one in found["estimates"]}
    assert cache[names[2]] * 6 == cache["softmax"] + 4 * cache["window:64"] + cache["gqa:3"]
    assert main(["cost", "pico", "--variant", names[2]]) == 2
    assert "lists 3 layers, and the model has 2" in capsys.readouterr().err


def test_too_many_for_a_line_are_one_by_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = ["tied-kv", "gqa", "mqa", "window", "linear"]
    assert main(["cost", "nano", *(word for name in names for word in ("--variant", name))]) == 0
    out = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.split()[:1] and line.split()[0] in names}
    assert rows["tied-kv"][-1] == "0.50"
    assert set(rows) == set(names)


def test_gpt3_per_head(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "gpt3", "--per-head", "--tensors"]) == 0
    out = capsys.readouterr().out
    for number in (
        "1,572,864",
        "144,000,000",
        "150,994,944",
        "6,291,456",
        "57,986,777,088",
        "174,604,259,328",
        "33.2 %",
    ):
        assert number in out
    assert "stack.blocks.0…95.attention.projections.query.weight" in out


def test_json_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "cost",
        "pico",
        "nano",
        "--variant",
        "linear",
        "--recipe",
        "fast",
        "--per-head",
        "--sweep",
        "width",
        "--json",
    ]
    assert main([*command, "--change", "num_layers=3", "--tensors"]) == 2  # linear takes no RoPE
    assert "rope" in capsys.readouterr().err
    command[command.index("linear")] = "tied-kv"
    assert main([*command, "--change", "num_layers=3", "--tensors"]) == 0
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert captured.err == ""
    assert [one["model"]["num_layers"] for one in told["estimates"]] == [3] * 4
    assert len(told["sweeps"]) == len(told["per_head"]) == 4
    assert told["estimates"][0]["tensors"][0]["name"] == "embedding.weight"


def test_page_and_plot(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "pico", "--sweep", "context", "--out", "cost.html"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "wrote cost.html\n"
    assert "● attention" in captured.out
    assert "\x1b[" not in captured.out
    assert "What attention costs" in Path("cost.html").read_text(encoding="utf-8")


def test_changes_of_attention(capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["num_key_value_heads=2", "window=16", "position=rope", "bias=False", 'score={"kind": "cosine"}']
    assert main(["cost", "nano", "--json", *(word for change in changes for word in ("--change", change))]) == 0
    asked = json.loads(capsys.readouterr().out)["estimates"][0]["question"]
    assert (asked["num_key_value_heads"], asked["window"], asked["bias"]) == (2, 16, False)
    assert (asked["position"]["kind"], asked["score"]["kind"]) == ("rope", "cosine")


def test_mixed_precision_and_checkpointing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "pico", "--mixed-precision", "--checkpointing", "--measure", "--threads", "1"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "mixed precision, activation checkpointing" in out
    assert "norms, block inputs" in out
    assert "only float32 is measured" in out
    assert main(["cost", "pico", "--checkpointing", "--measure", "--threads", "1"]) == 0
    assert "does not train with it yet" in capsys.readouterr().out


def test_what_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "pico", "--memory", "30MB", "--batch", "2", "--vocabulary", "100", "--csv", "fits.csv"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "wrote fits.csv\n"
    assert "Does it fit in 30.0 MB" in captured.out
    assert "pico: which variants fit in 30.0 MB" in captured.out
    assert "Not possible in this model: bidirectional." in captured.out
    rows = Path("fits.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0].startswith("size,variant,memory,training_needed,training_fits")
    assert rows[1].startswith("pico,softmax,30000000,")


def test_own_variants(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.py").write_text(
        "from attnlab.attention import Mask, Variant, add_variant\n"
        "add_variant(Variant('near', 'Eight tokens.', {'mask': Mask(window=8)}))\n",
        encoding="utf-8",
    )
    assert main(["cost", "nano", "--variant", "near", "--variants-from", "mine.py"]) == 0
    assert "near" in capsys.readouterr().out


def test_measured_beside_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    tiny = ["--context", "16", "--vocabulary", "17", "--change", "num_layers=1"]
    assert main(["cost", "pico", *tiny, "--measure", "--threads", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["measured"][0]
    assert found["refusal"] is None
    assert found["measured_peak_bytes"] > 0
    assert all(seconds > 0 for seconds in found["measured_seconds"].values())
    assert all(seconds > 0 for seconds in found["predicted_seconds"].values())


def test_what_does_not_fit_is_not_measured(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "free_bytes", lambda: 2**30)
    assert main(["cost", "gpt3", "--measure", "--threads", "1"]) == 0
    assert "training would take 2.65 TiB, and 1.00 GiB are free here" in capsys.readouterr().out
    monkeypatch.setattr(bench, "free_bytes", lambda: None)
    assert main(["cost", "gpt3", "--measure", "--threads", "1"]) == 0
    assert "one training step would take at least" in capsys.readouterr().out
    assert main(["cost", "pico", "--measure", "--number-bytes", "2"]) == 0
    assert "only float32 is measured" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gpt-2"], "did you mean 'gpt2'"),
        (["--mixed-precision", "--number-bytes", "4"], "2 bytes, not of 4"),
        (["--memory", "80GX"], "no number of bytes"),
        (["--memory", "-80GB"], "holds nothing"),
        (["--memory", "80"], "no number of bytes"),
        (["--csv", "missing/fits.csv"], "there is no folder missing"),
        (["missing/config.json"], "there is no file missing/config.json"),
        (["--variant", "tied_kv"], "did you mean 'tied-kv'"),
        (["--recipe", "quick"], "no recipe called"),
        (["--context", "-5"], "context_length"),
        (["--batch", "0"], "batch_size"),
        (["--context", "many"], "many"),
        (["--sweep", "depth"], "no sweep called 'depth'"),
        (["--variant", "bidirectional"], 'family="encoder"'),
        (["--change", "num_layer=3"], "did you mean 'num_layers'"),
        (["--change", "score={cosine}"], "no JSON"),
        (["--change", "wings=3"], "known of the size: num_layers"),
        (["--change", "wings=3"], "of attention: num_key_value_heads"),
        (["--change", "position=ropes"], "no position called 'ropes'"),
        (["--change", "window=none"], "window of a question of cost is 'none'"),
        (["--change", "num_layers=three"], "no whole number"),
        (["--change", "num_layers"], "is no name=value"),
        (["--change", "num_heads=7"], "does not divide into 7 heads"),
        (["--number-bytes", "3"], "bytes_per_number"),
        (["--threads", "2"], "--threads belongs to --measure"),
        (["--measure", "--threads", "999"], "999 threads"),
        (["--out", "missing/cost.html"], "there is no folder missing"),
        (["--variants-from", "missing.py"], "no Python file"),
    ],
)
def test_what_cannot_be_is_explained(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert "hint:" in captured.err
    assert captured.out == ""
