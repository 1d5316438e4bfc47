"""What races conclude from durations, bytes and losses that are made by hand; and the time to a loss with stand-ins."""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from attnlab.attention import variant, variants
from attnlab.bench import Durations, Ratio, describe_machine
from attnlab.bench.findings import BenchListener, findings_page
from attnlab.bench.races import time_to_loss
from attnlab.bench.races.race import SHAPES, VARIANTS_SHAPE, Race
from attnlab.bench.races.speed import GENERATION, SHARE, SPEED, VERSION, read_race, read_speeds
from attnlab.bench.races.time_to_loss import LOSS, TIME, Learnt, bench_time_to_loss, prepare_nanogpt, read_commands
from attnlab.bench.races.training import (
    FULL,
    GRID,
    PLAIN,
    SPARSE,
    GridRace,
    StepMemory,
    StepPeak,
    VariantStep,
    VariantSteps,
    bar_of,
)
from attnlab.errors import AttnlabError, FileError, SpecError
from support.bench import rows_of, words_of
from support.nanogpt import write_nanogpt

TEXT = "abab cab" * 20


def test_what_is_declared() -> None:
    bars = [*SPEED.values(), VERSION, SHARE, PLAIN, SPARSE, FULL, GRID, GENERATION, TIME, LOSS]
    assert {bar.name: (bar.limit, bar.at_least) for bar in bars} == {
        "speed-small": (1.2, True),
        "speed-mini": (1.1, True),
        "speed-gpt2": (1.3, True),
        "speed-rung": (1.1, True),
        "peak-share": (0.8, True),
        "variants": (1.2, False),
        "variants-sparse": (1.6, False),
        "variants-full": (None, False),
        "grid": (1.25, True),
        "generate": (2.5, True),
        "time": (0.2, False),
        "loss": (1.88, False),
    }


def test_a_race_is_read_against_the_better_nanogpt() -> None:
    seconds = {
        "attnlab": (1.0, 2.0, 1.0),  # a machine that is slow for one round
        "nanoGPT": (3.0, 6.0, 3.0),
        "nanoGPT compiled": (1.5, 3.0, 1.5),
        "Transformers": (2.0, 4.0, 2.0),
        "matrix products": (0.7, 1.4, 0.9),
    }
    names = [name for name in seconds if name != "matrix products"]
    found = read_race(SHAPES["mini"], names, Race(Durations(seconds), dict.fromkeys(names, 9.0)))
    assert found.better_nanogpt == "nanoGPT compiled"
    ratios = {one.name: one.ours_over_it.median for one in found.runners}
    assert ratios == {"attnlab": 1.0, "nanoGPT": 3.0, "nanoGPT compiled": 1.5, "Transformers": 2.0}
    assert found.runners[0].tokens_per_second == 16 * 256
    assert found.share_of_peak.median == pytest.approx(0.7)
    speed, share = found.judged()
    assert (speed.name, speed.verdict, speed.figures[0].variant) == ("speed-mini", "met", "nanoGPT compiled")
    assert (share.name, share.verdict) == ("peak-share", "missed")
    assert [row[3] for row in rows_of(found.section())][:2] == ["–", "3.00 3.00–3.00"]
    alone = read_race(SHAPES["small"], ["attnlab"], Race(Durations(seconds), {"attnlab": 9.0}))
    assert [(one.name, one.verdict) for one in alone.judged()] == [("speed-small", "not measured")]


def test_a_version_is_judged_by_the_one_before() -> None:
    seconds = {"attnlab": (1.0, 2.0), "other attnlab": (1.2, 2.2), "matrix products": (0.5, 1.0)}
    race = Race(Durations(seconds), dict.fromkeys(seconds, 9.0))
    found = read_race(SHAPES["rung"], ["attnlab", "other attnlab"], race, cores=2, models=2)
    assert [one.step_seconds for one in found.runners] == [3.0, pytest.approx(3.4)]
    assert found.runners[0].tokens_per_second == pytest.approx(12 * 64 / 1.5)
    assert found.gflops_per_core == pytest.approx(found.useful_flops / 1.5 / 2 / 1e9)
    (bar,) = found.judged()
    assert (bar.name, bar.verdict) == ("speed-rung", "met")
    assert bar.figures[0].ratio.median == pytest.approx(1.15)
    alone = read_race(SHAPES["rung"], ["attnlab"], race)
    assert [(one.name, one.verdict) for one in alone.judged()] == [("speed-rung", "not measured")]


def test_the_bars_of_variants() -> None:
    by_bar: dict[str, set[str]] = {}
    for one in variants():
        if one.builtin and one.name != "bidirectional":
            by_bar.setdefault(bar_of(one, VARIANTS_SHAPE).name, set()).add(one.name)
    assert by_bar["variants-sparse"] == {"sparsemax", "entmax15", "entmax"}
    assert by_bar["variants-full"] == {"full-value"}
    assert {"softmax", "softpick", "linear", "window"} <= by_bar["variants"]
    assert bar_of(variant("sparsemax"), VARIANTS_SHAPE) is SPARSE
    ratio = Ratio.exact(1.5)
    steps = [VariantStep("relu", "variants", ratio), VariantStep("entmax", "variants-sparse", ratio)]
    assert [(one.name, one.verdict) for one in VariantSteps(VARIANTS_SHAPE, tuple(steps)).judged()] == [
        ("variants", "missed"),
        ("variants-sparse", "met"),
    ]


def test_memory_is_judged_against_the_lower_peak() -> None:
    ours = [StepPeak("attnlab", 1, 60), StepPeak("attnlab", 2, 90)]
    peers = [StepPeak("nanoGPT", 1, 200), StepPeak("nanoGPT compiled", 1, 100), StepPeak("Transformers", 1, 50)]
    found = StepMemory(SHAPES["gpt2"], (*ours, *peers))
    alone, several = found.judged()
    assert (alone.name, alone.verdict, alone.figures[0].ratio.median) == ("memory", "met", 0.6)
    assert (several.name, several.verdict, several.figures[0].ratio.median) == ("memory-workers", "reported", 0.9)
    assert [row[3] for row in rows_of(found.section())] == ["0.60", "0.90", "2.00", "1.00", "0.50"]
    without = StepMemory(SHAPES["gpt2"], tuple(ours))
    assert [one.verdict for one in without.judged()] == ["not measured", "not measured"]
    assert [row[3] for row in rows_of(without.section())] == ["–", "–"]
    assert StepMemory(SHAPES["gpt2"], ()).judged() == []


def test_a_grid_and_generation() -> None:
    grid = GridRace(8, 300, 2, 10.0, 12.0, Ratio.exact(1.2))
    assert [bar.verdict for bar in grid.judged()] == ["missed"]
    assert [row[:4] for row in rows_of(grid.section())] == [
        ("side by side", "2", "1", "10.0"),
        ("one after the other", "1", "2", "12.0"),
    ]
    seconds = {"attnlab": (1.0,), "Transformers": (2.5,)}
    ours, theirs = read_speeds(list(seconds), Race(Durations(seconds), {}), 200)
    assert (ours.tokens_per_second, theirs.tokens_per_second, theirs.ours_over_it.median) == (200, 80, 2.5)


def test_every_seed_must_be_fast_and_good() -> None:
    peer = Learnt("nanoGPT", 100.0, 1.9)
    found = read_commands(describe_machine(), [Learnt("a", 20.0, 1.88), Learnt("b", 19.0, 1.7)], peer, None)
    assert [(one.name, one.verdict) for one in found.bars] == [("time", "met"), ("loss", "met")]
    found = read_commands(describe_machine(), [Learnt("a", 20.1, 1.7), Learnt("b", 1.0, 1.881)], peer, 90.0)
    assert [(one.name, one.verdict) for one in found.bars] == [("time", "missed"), ("loss", "missed")]
    (section,) = found.sections()
    assert rows_of(section)[-1] == ("nanoGPT", "100", "1.9000", "–")
    assert "after 90.0 s" in words_of(section)
    sections = [section.heading for section in findings_page(found, bars=True).sections]
    assert sections == ["Time to a loss", "Verdicts", "What they claim", "How near", "Every figure"]


def test_the_text_lies_there_as_nanogpt_reads_it(tmp_path: Path) -> None:
    clone = write_nanogpt(tmp_path / "clone")
    home = prepare_nanogpt(clone, TEXT, tmp_path / "home")
    data = home / "data" / "shakespeare_char"
    meta = pickle.loads((data / "meta.pkl").read_bytes())
    assert meta == {
        "vocab_size": 4,
        "itos": {0: " ", 1: "a", 2: "b", 3: "c"},
        "stoi": {" ": 0, "a": 1, "b": 2, "c": 3},
    }
    parts = [np.fromfile(data / name, dtype=np.uint16) for name in ("train.bin", "val.bin")]
    assert [len(part) for part in parts] == [144, 16]
    assert "".join(meta["itos"][int(number)] for part in parts for number in part) == TEXT
    assert sorted(path.name for path in home.glob("*.py")) == ["configurator.py", "model.py", "train.py"]
    assert not (clone / "data").exists()


STUB = """
import json, os, sys
from pathlib import Path

options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
folder = Path(options["--out"]) / "a-run"
folder.mkdir(parents=True)
assert not Path(os.environ["ATTNLAB_CACHE"]).exists()
assert options["--recipe"] == "fast" and Path(options["--corpus"]).is_file()
(folder / "result.json").write_text(json.dumps({"validation_loss": 1.5 + int(options["--seed"]) / 10}))
"""


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "stub.py").write_text(STUB)
    monkeypatch.setattr(time_to_loss, "OUR_COMMAND", (sys.executable, str(tmp_path / "stub.py")))
    return tmp_path


def test_whole_commands_are_timed(stub: Path) -> None:
    steps: list[str] = []

    class Ears(BenchListener):
        def step(self, what: str, done: int, total: int) -> None:
            steps.append(f"{done}/{total} {what}")

    clone = write_nanogpt(stub / "clone", model="")
    found = bench_time_to_loss(stub / "text.txt", clone, 3, Ears())
    assert steps == ["0/4 attnlab, seed 0", "1/4 nanoGPT", "2/4 attnlab, seed 1", "3/4 attnlab, seed 2"]
    assert [(one.name, one.loss) for one in found.ours] == [
        ("attnlab, seed 0", 1.5),
        ("attnlab, seed 1", 1.6),
        ("attnlab, seed 2", 1.7),
    ]
    assert found.peer.loss == 1.89  # the last, not the best
    assert found.peer_reached_seconds is not None
    assert 0 < found.peer_reached_seconds <= found.peer.seconds
    assert not (clone / "was-here").exists()  # it ran in a copy
    assert json.dumps(found.to_dict())


def test_commands_that_fail(stub: Path) -> None:
    clone = write_nanogpt(stub / "clone", model="", train="raise SystemExit('no such device')")
    with pytest.raises(AttnlabError, match=r"nanoGPT ended with code 1\n  no such device"):
        bench_time_to_loss(stub / "text.txt", clone, 1)
    (clone / "train.py").write_text("print('nothing')")
    with pytest.raises(AttnlabError, match="nanoGPT printed no validation loss"):
        bench_time_to_loss(stub / "text.txt", clone, 1)
    (clone / "train.py").unlink()
    with pytest.raises(FileError, match=r"holds no train\.py"):
        bench_time_to_loss(stub / "text.txt", clone, 1)


def test_what_cannot_be_learnt(tmp_path: Path) -> None:
    clone = write_nanogpt(tmp_path / "clone")
    with pytest.raises(SpecError, match="0 seeds measure nothing"):
        bench_time_to_loss(tmp_path / "text.txt", clone, 0)
    with pytest.raises(FileError, match="cannot be read"):
        bench_time_to_loss(tmp_path / "text.txt", clone, 1)
    (tmp_path / "text.txt").write_bytes(b"")
    with pytest.raises(FileError, match="is empty"):
        bench_time_to_loss(tmp_path / "text.txt", clone, 1)
    (tmp_path / "text.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="is not UTF-8"):
        bench_time_to_loss(tmp_path / "text.txt", clone, 1)
