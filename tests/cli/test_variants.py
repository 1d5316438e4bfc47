"""`attnlab variants`: the list, the explanation, JSON, and one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnlab.attention import AttentionSpec, variant, variants
from attnlab.cli import main

OWN = "from attnlab.attention import *\nadd_variant(Variant('mine', 'My own.', {'score': 'cosine', 'bias': False}))\n"


def output(capsys: pytest.CaptureFixture[str], *tokens: str, code: int = 0) -> tuple[str, str]:
    assert main(tokens) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


@pytest.mark.parametrize("columns", ["60", "80", "120"])
def test_the_list_names_every_variant(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out, err = output(capsys, "variants")
    assert err == ""
    first = [line.split()[0] for line in out.splitlines() if line.strip()]
    assert all(v.name in first for v in variants())
    assert all(len(line) <= int(columns) for line in out.splitlines())
    assert "\x1b" not in out


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(output(capsys, "variants", "--json")[0])
    assert [one["name"] for one in found] == [v.name for v in variants()]
    for one in found:
        assert AttentionSpec(**one["spec"]) == variant(one["name"]).spec()
        assert one["cost"]["parameters"] > 0
        assert one["kernel"] == variant(one["name"]).kernel
        described = {"name", "meaning", "equations", "source", "asks", "kernel", "number", "changes", "spec", "cost"}
        assert set(one) == described


@pytest.mark.parametrize("name", [v.name for v in variants()])
def test_one_is_explained(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    out, _ = output(capsys, "variants", name)
    assert out.startswith(name)
    assert all(line in out for line in variant(name).equations())
    assert variant(name).source in out
    assert f"{variant(name).kernel}: " in out


def test_one_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(output(capsys, "variants", "tied-kv", "--json")[0])
    softmax = json.loads(output(capsys, "variants", "softmax", "--json")[0])
    assert found["changes"] == {"sharing": "key-value"}
    assert found["cost"]["cache_bytes_per_token"] * 2 == softmax["cost"]["cache_bytes_per_token"]


def test_a_number_is_explained(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert "window:256" in output(capsys, "variants")[0]
    assert "window:256 sets mask.window" in output(capsys, "variants", "window")[0]
    out, _ = output(capsys, "variants", "window:64+gqa:3")
    assert out.startswith("window:64+gqa:3\nEach token sees the last 64 tokens, itself included. Query heads share 3")
    assert "causal × window 64" in out
    found = json.loads(output(capsys, "variants", "gqa:3", "--json")[0])
    assert (found["name"], found["changes"], found["number"]) == ("gqa:3", {"num_key_value_heads": 3}, None)
    _, err = output(capsys, "variants", "gqa:5", code=2)
    assert "12 query heads cannot share 5 key and value heads evenly" in err
    assert "num_key_value_heads=4" in err
    _, err = output(capsys, "variants", "relu:5", code=2)
    assert "takes no number" in err
    assert "window:256" in err


def test_a_mixture_is_explained(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    out, _ = output(capsys, "variants", "window:64*2,softmax")
    assert out.startswith(
        "window:64*2,softmax\nLayers take turns: 2 × window:64, softmax.\n\nIn a model with 12 layers:"
    )
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "window:64 1, 2, 4, 5, 7, 8, 10, 11 blocked 1.00 0.78 0.06" in lines
    assert "softmax 3, 6, 9, 12 fused 1.00 1.00 1.00" in lines
    for name in ("window:64", "softmax"):
        assert all(line in out for line in variant(name).equations())
    assert "Attention of 12 layers at GPT-2's size" in out
    tied = output(capsys, "variants", "softmax,tied-kv")[0]
    assert ["parameters", "24,804,864", "0.88"] in [line.split() for line in tied.splitlines()]
    assert "In a model with 14 layers:" in output(capsys, "variants", "softmax*13,window")[0]


def test_a_mixture_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(output(capsys, "variants", "softmax,(window:9),gqa:4", "--json")[0])
    assert found["layers"] == ["softmax", *["window:9"] * 10, "gqa:4"]
    assert [one["name"] for one in found["variants"]] == ["softmax", "window:9", "gqa:4"]
    assert found["meaning"] == "First softmax; layers of window:9; last gqa:4."
    alone = json.loads(output(capsys, "variants", "softmax*2", "--json")[0])
    assert alone["name"] == "softmax"


def test_two_are_joined(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = output(capsys, "variants", "tied-kv+cosine")
    assert "k = v = x W_K" in out
    assert "|q| |k|" in out


def test_ones_own_is_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    assert "mine" in output(capsys, "variants", "--variants-from", str(path))[0]
    out, _ = output(capsys, "variants", "mine", "--variants-from", str(path))
    assert "your own" in out


def test_what_goes_wrong_is_explained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out, err = output(capsys, "variants", "sofmax", code=2)
    assert (out, err) == ("", "error: there is no variant called 'sofmax'\n\nhint: did you mean 'softmax'?\n")
    _, err = output(capsys, "variants", "--variants-from", str(tmp_path / "nowhere.py"), code=2)
    assert "is no Python file" in err
    _, err = output(capsys, "variants", "cosine+dot", code=2)
    assert "changes score twice" in err
    _, err = output(capsys, "variants", "softmax,(window", code=2)
    assert "one part in parentheses" in err


def test_the_documentation_holds_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[2] / "docs" / "variants.md"
    table = output(capsys, "variants", "--markdown")[0]
    assert table in page.read_text(), "make docs brings docs/variants.md up to date"
    _, err = output(capsys, "variants", "softmax", "--markdown", code=2)
    assert "leave out" in err
