"""Races at a size where they take no time, with a stand-in for nanoGPT: who takes part, and what goes wrong."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import attnlab
from attnlab.attention import Relu, variant
from attnlab.bench import Durations
from attnlab.bench.findings import BenchListener
from attnlab.bench.processes import own_bytes, tree_bytes
from attnlab.bench.races import race as race_module
from attnlab.bench.races import speed, training
from attnlab.bench.races.contenders import Contender, Matmul, NanoGpt, Ours, RandomTokens, Transformers, load_nanogpt
from attnlab.bench.races.contestant import ContenderAnswers
from attnlab.bench.races.race import (
    MEMORY_SHAPE,
    SHAPES,
    Peers,
    Race,
    RaceEntry,
    check_against,
    check_nanogpt,
    check_threads,
    find_peers,
    race,
    shape,
    tiny,
)
from attnlab.bench.races.speed import GenerationPlan, bench_generate
from attnlab.bench.races.training import GridPlan, TrainPlan, bench_train
from attnlab.errors import AttnlabError, FileError, SpecError, UnknownNameError
from attnlab.experiments.launching.jobs import Job, JobEnd
from attnlab.processes.child import ChildError
from attnlab.processes.machine import available_cores
from attnlab.training import RunResult
from support.bench import rows_of, words_of
from support.nanogpt import MODEL, write_nanogpt

SMALL = tiny(SHAPES["small"])
OURS = RaceEntry(kind="attnlab", shape=SMALL, threads=1)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    return write_nanogpt(tmp_path / "nanogpt")


def fake_race(entries: Sequence[RaceEntry], *_: object, **__: object) -> Race:
    """Everybody who takes part is slower than the one before."""
    seconds = {entry.name: (float(place), float(place)) for place, entry in enumerate(entries, 1)}
    return Race(Durations(seconds), dict.fromkeys(seconds, 1.0))


def test_the_shapes_that_the_bars_are_meant_for() -> None:
    assert {name: tuple(vars(one).values())[1:] for name, one in SHAPES.items()} == {
        "small": (4, 128, 4, 64, 12, 65),
        "mini": (6, 384, 6, 256, 16, 65),
        "gpt2": (12, 768, 12, 512, 2, 50257),
        "rung": (2, 32, 2, 64, 12, 96),
    }
    assert SHAPES["gpt2"].tokens == 1024
    assert isinstance(SHAPES["mini"].model("relu").attention[0].normaliser, Relu)
    with pytest.raises(UnknownNameError, match="there is no shape called 'smal'"):
        shape("smal")


def test_everybody_learns_the_same_kind_of_batch() -> None:
    corpus = RandomTokens(SMALL)
    batch = corpus.batch(seed=0, step=3, batch_size=4, context_length=16)
    assert batch.inputs.shape == batch.targets.shape == (4, 16)
    assert torch.equal(batch.inputs[:, 1:], batch.targets[:, :-1])
    assert int(batch.inputs.max()) < corpus.vocabulary_size == 17
    part = corpus.batch(seed=0, step=3, batch_size=4, context_length=16, rows=slice(1, 3))
    assert torch.equal(part.inputs, batch.inputs[1:3])


def test_contenders_train_and_write(clone: Path) -> None:
    pytest.importorskip("transformers")
    kinds: list[tuple[type[Contender], RaceEntry]] = [
        (Ours, OURS),
        (NanoGpt, RaceEntry(kind="nanogpt", shape=SMALL, threads=1, folder=str(clone))),
        (Transformers, RaceEntry(kind="transformers", shape=SMALL, threads=1)),
    ]
    for kind, entry in kinds:
        assert kind(entry).train(2) > 0
        assert kind(entry).write(5) > 0
    matmul = Matmul(RaceEntry(kind="matmul", shape=SMALL, threads=1))
    assert matmul.train(1) > 0
    with pytest.raises(NotImplementedError, match="matrix products does not generate"):
        matmul.write(1)


def test_nanogpt_learns(clone: Path) -> None:
    contender = NanoGpt(RaceEntry(kind="nanogpt", shape=SMALL, threads=1, folder=str(clone)))
    contender.train(1)
    before = [parameter.clone() for parameter in contender.model.parameters()]
    contender.train(1)
    assert all(not torch.equal(old, new) for old, new in zip(before, contender.model.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in contender.model.parameters())


def test_a_whole_run_with_processes(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_peak", lambda entry: 100 * entry.workers)
    peers = Peers(nanogpt=clone, transformers=False, compile=False, missing=("somebody is missing",))
    plan = TrainPlan((SHAPES["small"],), memory=MEMORY_SHAPE, rounds=2).smoke()
    found = bench_train(plan, peers, threads=2)
    assert [one.name for one in found.races[0].runners] == ["attnlab", "nanoGPT"]
    assert found.races[0].better_nanogpt == "nanoGPT"
    assert found.races[0].share_of_peak.rounds == 2
    assert found.memory is not None
    assert [(peak.name, peak.processes, peak.bytes) for peak in found.memory.peaks] == [
        ("attnlab", 1, 100),
        ("attnlab", 2, 200),
        ("nanoGPT", 1, 100),
    ]
    assert [outcome.name for outcome in found.bars] == ["speed-small", "memory", "memory-workers"]
    assert found.notes == ("somebody is missing",)
    assert len(found.sections()) == 2
    data: Any = found.to_dict()
    assert data["races"][0]["shape"]["name"] == "small"
    assert (data["memory_shape"]["name"], data["memory"][0]["bytes"]) == ("gpt2-memory", 100)
    assert (data["variants"], data["variants_shape"], data["grid"]) == ([], None, None)


def test_a_model_on_each_core_against_another_version() -> None:
    here = Path(attnlab.__file__).parents[1]
    plan = TrainPlan((SHAPES["rung"],), rounds=2, against=check_against(here)).smoke()
    found = bench_train(plan, Peers(transformers=False), threads=2)
    (one,) = found.races
    assert [runner.name for runner in one.runners] == ["attnlab", "other attnlab"]
    assert (one.cores, one.models) == (2, 2)
    for runner in one.runners:  # the tokens of both models count
        assert runner.tokens_per_second == pytest.approx(2 * one.shape.tokens / runner.step_seconds)
    assert one.gflops_per_core == pytest.approx(one.useful_flops / one.runners[0].step_seconds / 1e9)
    assert "2 models at once with one thread each" in words_of(one.section())
    (bar,) = found.bars
    assert (bar.name, bar.limit, bar.figures[0].variant) == ("speed-rung", 1.1, "other attnlab")
    assert bar.figures[0].ratio == one.runners[1].ours_over_it


@pytest.mark.parametrize("place", ["bench", "bench/races"])
def test_another_version_is_imported_from_its_folder(tmp_path: Path, place: str) -> None:
    package = tmp_path / "attnlab" / place
    package.mkdir(parents=True)
    for folder in (package, package.parent, tmp_path / "attnlab"):
        (folder / "__init__.py").touch()
    (package / "contestant.py").write_text(CONTESTANT)
    entries = [RaceEntry(kind="attnlab", shape=SMALL, threads=1, copies=2, folder=str(check_against(tmp_path)))]
    found = race(entries, "train", 2, BenchListener(), turn_seconds=9.0)
    # Each of the two processes takes 3 seconds a step, so a step is done every 1.5 seconds.
    assert found.durations.seconds == {"other attnlab": (1.5, 1.5)}
    assert found.beginnings == {"other attnlab": 7.0}
    with pytest.raises(FileError, match="does not hold the races of another attnlab"):
        check_against(tmp_path / "attnlab")


CONTESTANT = """
import json, sys
entry = json.loads(sys.argv[1])
assert set(entry) == {"kind", "shape", "threads", "workers", "compile"}, entry  # as the versions before know it
for line in sys.stdin:
    print(json.dumps({"seconds": 3.0 * json.loads(line)["count"], "with_beginning": 7.0}), flush=True)
"""


def test_the_peak_of_several_processes() -> None:
    team = RaceEntry(kind="attnlab", shape=SMALL, threads=1, workers=2)
    assert training._peak(team) > 50 << 20  # the interpreter alone has more


def test_a_contestant_answers_for_its_own_peak() -> None:
    answers = ContenderAnswers(OURS)
    found = answers({"do": "train", "count": 1, "tokens": 0})
    assert 0 < found["seconds"] <= found["with_beginning"]
    assert answers({"do": "write", "count": 2, "tokens": 3})["seconds"] > 0
    assert answers({"do": "peak"})["bytes"] > 50 << 20


def test_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "race", fake_race)
    found = bench_generate(GenerationPlan(rounds=2).smoke(), Peers(transformers=False), threads=1)
    assert [one.name for one in found.writers] == ["attnlab"]
    assert [(outcome.name, outcome.verdict) for outcome in found.bars] == [("generate", "not measured")]
    assert not found.all_met
    found = bench_generate(GenerationPlan(rounds=2), Peers(), threads=1)
    assert rows_of(found.sections()[0]) == [("attnlab", "200", "–"), ("Transformers", "100", "2.00 2.00–2.00")]
    assert found.bars[0].verdict == "missed"


def test_variants_and_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    def finish(jobs: Sequence[Job]) -> list[JobEnd]:
        assert len(jobs) == 2
        return [JobEnd(job, RunResult(job.out, "finished", 2, 1.0, 1.0), None, None) for job in jobs]

    def pretend(where: str, processes: int, threads: int) -> SimpleNamespace:
        assert (where, processes, threads) == ("local", 1, 1)
        return SimpleNamespace(run=finish)

    monkeypatch.setattr(training, "launcher", pretend)
    chosen = tuple(variant(name) for name in ("sparsemax", "bidirectional", "full-value", "relu"))
    plan = TrainPlan(variants=chosen, grid=GridPlan(), rounds=2).smoke()
    found = bench_train(plan, Peers(), threads=1)
    assert found.variants is not None
    assert [(step.name, step.claim) for step in found.variants.steps] == [
        ("sparsemax", "variants-sparse"),
        ("full-value", "variants-full"),
        ("relu", "variants"),
    ]
    assert len(found.notes) == 1
    assert "bidirectional is left out" in found.notes[0]
    assert [outcome.name for outcome in found.bars] == ["variants", "variants-sparse", "variants-full", "grid"]
    assert found.grid is not None
    assert found.grid.gain.rounds == 2


def test_a_grid_with_a_failed_run_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(jobs: Sequence[Job]) -> list[JobEnd]:
        return [JobEnd(job, None, "out of memory", None) for job in jobs]

    monkeypatch.setattr(training, "launcher", lambda *_: SimpleNamespace(run=fail))
    with pytest.raises(AttnlabError, match=r"a run of the grid failed.*: out of memory"):
        training.race_grid(GridPlan.smoke(), 1, 1, BenchListener())


def test_a_contestant_that_dies_is_told(clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dying_contestant.py").write_text("raise SystemExit('no more')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(race_module, "CONTESTANT", "dying_contestant")
    entry = RaceEntry(kind="nanogpt", shape=SMALL, threads=1, folder=str(clone))
    with pytest.raises(ChildError, match=r"nanoGPT ended with code 1\n(.*\n)*  no more"):
        race([entry], "train", 1, BenchListener())


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("x = 1", "has no GPT"),
        (MODEL.replace("class GPTConfig", "class Other"), "has no GPTConfig"),
        ("import nowhere_to_be_found", "cannot be imported: ModuleNotFoundError"),
        ("def (", "cannot be imported: SyntaxError"),
    ],
)
def test_a_model_that_is_not_nanogpts(tmp_path: Path, model: str, message: str) -> None:
    folder = write_nanogpt(tmp_path / "other", model=model)
    with pytest.raises(FileError, match=message) as caught:
        load_nanogpt(folder)
    assert caught.value.hint is not None


def test_folders_that_are_not_nanogpts(tmp_path: Path, clone: Path) -> None:
    with pytest.raises(FileError, match="is no folder"):
        find_peers(tmp_path / "missing")
    with pytest.raises(FileError, match=r"holds no model\.py"):
        find_peers(tmp_path)
    with pytest.raises(FileError, match=r"holds no sample\.py"):
        check_nanogpt(clone, ("train.py", "sample.py"))


def test_missing_peers_are_named(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnlab.bench.races.race.transformers_is_installed", lambda: False)
    peers = find_peers(None)
    assert (peers.transformers, peers.entries(SMALL, 1)) == (False, [])
    assert ["nanoGPT" in peers.missing[0], "Transformers" in peers.missing[1]] == [True, True]
    monkeypatch.setattr("attnlab.bench.races.race.can_compile", lambda: False)
    peers = find_peers(clone, transformers=False)
    assert [entry.name for entry in peers.entries(SMALL, 1)] == ["nanoGPT"]
    assert "no C++ compiler" in peers.missing[0]
    monkeypatch.setattr("attnlab.bench.races.race.can_compile", lambda: True)
    names = [entry.name for entry in find_peers(clone, transformers=False).entries(SMALL, 1)]
    assert names == ["nanoGPT", "nanoGPT compiled"]


def test_threads() -> None:
    assert check_threads(None) == available_cores()
    assert check_threads(1) == 1
    for count in (0, available_cores() + 1):
        with pytest.raises(SpecError, match=f"{count} threads cannot be measured"):
            check_threads(count)


def test_resident_memory_of_this_process() -> None:
    peak, now = own_bytes(peak=True), tree_bytes(os.getpid())
    assert now > 10 << 20
    assert now <= peak * 1.5  # of this process alone, or with what others of the tests started
    assert tree_bytes(2**22 + 1) == 0  # nobody
