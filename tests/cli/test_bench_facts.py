"""`attnlab bench facts`: the fact store measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnlab.bench.timing import Ratio
from attnlab.cli import main
from attnlab.cli.commands.bench_facts import FactsBench
from attnlab.knowledge.store import benchmark as measuring
from attnlab.knowledge.store.benchmark import StoreFigures, measure_store
from attnlab.processes.machine import describe_machine
from support.bench import rows_of


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other processes, which take seconds to start: they are tested with the store."""
    monkeypatch.setattr(measuring, "_kill", lambda _path, _delay: False)
    monkeypatch.setattr(measuring, "_write_at_once", lambda _path, writers: (100 * writers, 0))


def test_the_figures_are_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "facts", "--smoke", "--bars", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["benchmark"] == "facts"
    assert {bar["name"]: bar["verdict"] for bar in found["bars"]} == {
        "facts-look-up": "met",
        "facts-killed": "met",
        "facts-writers": "met",
    }
    assert found["figures"]["facts"] == 1000
    assert set(found["figures"]["milliseconds"]["words"]) == {"median", "low", "high", "rounds", "percentile_99"}


def test_what_is_lost_misses_the_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(measuring, "_kill", lambda _path, _delay: True)
    monkeypatch.setattr(measuring, "_write_at_once", lambda _path, _writers: (100, 1))
    assert main(["bench", "facts", "--smoke", "--bars", "--strict"]) == 1
    out = capsys.readouterr().out
    assert "facts-killed   missed" in out
    assert "facts-writers  missed" in out


def test_everything_is_looked_up(tmp_path: Path) -> None:
    steps: list[str] = []
    found = measure_store(tmp_path, 300, 10, 2, 3, lambda what, _done, _total: steps.append(what))
    assert steps == ["import 300 facts", "look up", "kill", "write at once"]
    assert {len(times) for times in found.milliseconds.values()} == {10}
    assert (found.facts, found.kills, found.unsound, found.written, found.lost) == (300, 2, 0, 300, 0)


def test_the_table_shows_the_slow_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "facts", "--smoke"]) == 0
    assert "a question without its accents" in capsys.readouterr().out
    times = (1.0,) * 98 + (50.0, 60.0)
    figures = StoreFigures(5, 10, 1.0, {"a question": times}, 0, 0, 0, 0)
    (section,) = FactsBench(describe_machine(), 100, (), (), figures).sections()
    assert rows_of(section) == [("a question", "1.00", "1.00", "1.00", "60.00")]
    assert Ratio.over(times).median == 1.0
