"""`attnlab bench cost` at a size that means nothing, and its verdicts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from attnlab.bench.findings import BenchListener
from attnlab.bench.products.cost import (
    GROWTH,
    MEMORY,
    CostPlan,
    MeasuredGrowth,
    MeasuredPeak,
    free_bytes,
    judge_growth,
    measure_growth,
)
from attnlab.cli import main

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system must tell a process's peak")


def test_the_whole_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "cost", "--smoke", "--bars", "--threads", "1", "--out", "cost.html", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [bar["name"] for bar in found["bars"]] == ["memory", "growth"]
    assert found["peaks"][0]["measured"] > 0
    assert [one["name"] for one in found["growth"]] == ["N < D", "N > D"]
    assert "Growth with the context" in Path("cost.html").read_text(encoding="utf-8")


def test_predicted_growth_of_both_regimes() -> None:
    short, long = CostPlan().growth
    assert all(tokens < short.width for tokens in short.contexts)
    assert all(tokens > long.width for tokens in long.contexts)
    found = measure_growth(CostPlan.smoke().growth, 1, BenchListener())
    assert all(len(one.seconds) == len(one.contexts) for one in found)
    assert short.flops(256) / short.flops(32) == pytest.approx(8, rel=0.1)
    assert long.flops(8192) / long.flops(4096) > 3.5


def test_a_wrong_prediction_misses() -> None:
    right, wrong = (MeasuredGrowth("N > D", 8, (16, 32), (1.0, 4.0), predicted, 2.0) for predicted in (1.9, 1.7))
    assert judge_growth([right]).verdict == "met"
    assert judge_growth([right, wrong]).verdict == "missed"
    assert GROWTH.limit == 0.25
    assert MEMORY.is_met_by(MeasuredPeak("a", 100, 114).apart)
    assert MEMORY.is_met_by(MeasuredPeak("a", 120, 100).apart) is False


def test_free_memory_is_told() -> None:
    free = free_bytes()
    assert free is not None
    assert free > 0
