"""`attnlab exhibit`: the list, one, all, changed parameters, JSON, pages, and what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnlab.cli import main
from attnlab.exhibits import exhibits
from attnlab.exhibits.attention import worked_example as sheet


def output(capsys: pytest.CaptureFixture[str], *tokens: str, code: int = 0) -> tuple[str, str]:
    assert main(tokens) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """For --all: three that are quick."""
    names = ["worked-example", "copying", "kqv-construction"]
    chosen = [one for one in exhibits() if one.name in names]
    monkeypatch.setattr("attnlab.cli.commands.exhibit.exhibits", lambda: chosen)
    return names


@pytest.mark.parametrize("columns", ["60", "120"])
def test_the_list_is_a_course_with_claims(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out, err = output(capsys, "exhibit")
    assert err == ""
    assert "\x1b" not in out
    assert all(len(line) <= int(columns) for line in out.splitlines())
    first = [line.split()[0] for line in out.splitlines() if line.strip()]
    places = [first.index(one.name) for one in exhibits()]
    assert places == sorted(places)
    assert "why scale" in out
    found = json.loads(output(capsys, "exhibit", "--json")[0])
    assert [one["name"] for one in found] == [one.name for one in exhibits()]
    assert found[1]["claims"] == ["0.4", "2a", "2b", "2c"]
    assert found[1]["parameters"][0] == {
        "name": "key_width",
        "default": 64,
        "limits": "≥ 1, ≤ 4096",
        "meaning": "D_k, how many numbers a query and a key have",
    }


def test_one_is_shown_with_claim_equation_numbers_and_checks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    out, err = output(capsys, "exhibit", "copying", "--set", "keys=8", "--set", "error=0.001")
    assert err == ""
    assert out.startswith("copying · Attention copies")
    assert "g = log((n − 1)(1 − ε) / ε)" in out
    assert "the source of claim a says" in out
    assert "✓ holds" in out
    assert "--set error=0.001" in out
    assert "3 of 3 checks hold" in out
    assert "│" in out  # a plot
    assert "\x1b" not in out


def test_one_as_json_and_as_a_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    out, err = output(capsys, "exhibit", "copying", "--set", "keys=8", "--json", "--out", str(page))
    found = json.loads(out)
    assert found["ok"]
    assert found["parameters"] == {"keys": 8, "error": 0.01, "seed": 0}
    assert [check["claim"] for check in found["checks"]] == ["a", "a", "a"]
    plot = next(block for block in found["blocks"] if block["kind"] == "plot")
    assert plot["series"][0]["name"] == "derived"
    assert err == f"wrote {page}\n"
    assert "Attention copies" in page.read_text(encoding="utf-8")


def test_all_of_them(capsys: pytest.CaptureFixture[str], few: list[str], tmp_path: Path) -> None:
    out, _ = output(capsys, "exhibit", "--all", "--out", str(tmp_path / "all.html"))
    assert "✓ copying" in out
    assert "checks of 3 exhibits hold" in out
    assert all(name in (tmp_path / "all.html").read_text(encoding="utf-8") for name in few)
    found = json.loads(output(capsys, "exhibit", "--all", "--smoke", "--json")[0])
    assert found["ok"]
    assert {one["name"] for one in found["exhibits"]} == set(few)
    assert {"exhibit": "copying", "claim": "a"}.items() <= next(
        check for check in found["checks"] if check["exhibit"] == "copying"
    ).items()
    assert all(check["ok"] and check["figure"] for check in found["checks"])


def test_a_failing_check_ends_with_1(
    capsys: pytest.CaptureFixture[str], few: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del few
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sheet, "SCORES", [2, 8, -21])
    out, _ = output(capsys, "exhibit", "worked-example", code=1)
    assert "✗ FAILS  1b  z₃" in out
    assert "largest difference 1, none allowed" in out
    out, _ = output(capsys, "exhibit", "--all", code=1)
    assert "✗ worked-example" in out
    assert "✗ 1b  z₃" in out
    found = json.loads(output(capsys, "exhibit", "--all", "--json", code=1)[0])
    assert not found["ok"]
    assert [check["claim"] for check in found["checks"] if not check["ok"]] == ["1b"]


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (("coping",), "error: there is no exhibit called 'coping'\n\nhint: did you mean 'copying'?\n"),
        (("copying", "--set", "kees=3"), "no parameter called 'kees'\n\nhint: did you mean 'keys'?\n"),
        (("copying", "--set", "keys=1"), "keys = 1 is impossible: input should be greater than or equal to 2"),
        (("copying", "--set", "keys=x"), "keys = x is impossible"),
        (("copying", "--set", "keys"), "is no name=value"),
        (("copying", "--set", "keys="), "is no name=value"),
        (("copying", "--set", "keys=3", "--set", "keys=4"), "--set sets keys twice"),
        (("copying", "--all"), "--all runs every exhibit"),
        (("--set", "keys=3"), "none is named"),
        (("--all", "--set", "keys=3"), "none is named"),
        (("copying", "--smoke", "--set", "keys=3"), "--smoke"),
        (("--markdown", "--json"), "--markdown prints the list"),
        (("--out", "x.html"), "nothing to run"),
        (("copying", "--out", "nowhere/x.html"), "there is no folder nowhere"),
    ],
)
def test_what_goes_wrong_is_explained(
    tokens: tuple[str, ...],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    out, err = output(capsys, "exhibit", *tokens, code=2)
    assert out == ""
    assert words in err
    assert "hint: " in err
    assert list(tmp_path.iterdir()) == []


def test_the_documentation_holds_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "exhibits.md").read_text(encoding="utf-8")
    table = output(capsys, "exhibit", "--markdown")[0]
    assert table in page, "make docs brings docs/exhibits.md up to date"
