"""`attnlab bench look`: the plain way finds the same as the thrifty one, and every bar is judged."""

from __future__ import annotations

import json

import pytest
import torch

from attnlab.bench.findings import BenchListener
from attnlab.bench.products.commands import ablate_plainly, bench_look
from attnlab.cli import main
from attnlab.corpora import Batch
from attnlab.lens.heads.ablation import ablate
from attnlab.models import ModelSpec, build_model
from support.bench import rows_of


def test_the_plain_way_finds_what_the_thrifty_one_finds() -> None:
    shape = {"num_layers": 2, "model_width": 16, "num_heads": 2, "context_length": 12}
    model = build_model(ModelSpec.build("nano", vocabulary_size=20, **shape), seed=1).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    tokens = torch.randint(0, 20, (3, 13), generator=torch.Generator().manual_seed(2))
    batch = Batch(tokens[:, :-1], tokens[:, 1:])
    plainly = ablate_plainly(model, batch)
    found = ablate(model, [batch])
    assert set(plainly) == set(found.removed)
    for name, one in found.removed.items():
        assert plainly[name] == pytest.approx(one.importance.mean, abs=1e-5), name
    assert max(abs(value) for value in plainly.values()) > 0.01


def test_a_smoke_run_judges_every_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert main(["bench", "look", "--smoke", "--bars", "--rounds", "1", "--threads", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    bars = {bar["name"]: bar["verdict"] for bar in found["bars"]}
    assert set(bars) == {"look-measures", "look-importance", "look-prefixes", "look-page-size", "look-page-view"}
    assert bars["look-page-view"] == "not measured"
    assert bars["look-page-size"] == "met"
    assert found["all_met"] is False, "what was not measured is not met"
    assert "not timed" in found["notes"][0]


def test_rounds_are_those_that_are_asked_for() -> None:
    found = bench_look(BenchListener(), rounds=2, threads=1, smoke=True)
    prefixes = next(bar for bar in found.bars if bar.name == "look-prefixes")
    assert prefixes.figures[0].ratio.rounds == 2
    assert rows_of(found.sections()[0])
