"""What can be asked of a comparison, and what cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from attnlab.errors import FileError, SpecError
from attnlab.experiments.request import Request, ladder


def test_the_same_request_has_the_same_folder_and_another_has_another() -> None:
    assert Request().folder == Request().folder
    others = [
        Request(seeds=9),
        Request(margin=0.02),
        Request(variants=("tied-kv",)),
        Request(steps=10),
        Request(tune=3),
    ]
    assert len({request.folder for request in [Request(), *others]}) == 6


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"seeds": 1}, "one seed says nothing"),
        ({"seeds": 0}, "seeds"),
        ({"margin": 0}, "margin"),
        ({"margin": float("nan")}, "margin"),
        ({"alpha": 1.0}, "alpha"),
        ({"looks": 0}, "looks"),
        ({"variants": ("softmax",)}, "the baseline"),
        ({"variants": ("tied-kv", "tied-kv")}, "twice"),
        ({"variants": ()}, "nothing to compare"),
        ({"steps": -1}, "steps"),
        ({"match": "love"}, "match"),
        ({"tune": -1}, "tune"),
        ({"first_seed": -1}, "first_seed"),
    ],
)
def test_what_cannot_be_asked(fields: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words) as caught:
        Request(**fields)
    assert caught.value.hint


def test_a_size_by_number_or_smaller_rungs_choose_the_tokens() -> None:
    assert Request(size="100k").tokens_per_parameter == Request().tokens_per_parameter
    assert Request(size="nano", rungs=("14k",)).tokens_per_parameter == Request().tokens_per_parameter
    assert Request(size="100k", tokens_per_parameter=20).tokens_per_parameter == 20
    for fields in ({"size": "100k", "steps": 10}, {"size": "nano"}, {"size": "100k", "tokens_per_parameter": None}):
        assert Request(**fields).tokens_per_parameter is None, fields
    with pytest.raises(SpecError, match="needs tokens_per_parameter"):
        Request(rungs=("14k",), tokens_per_parameter=None)


def test_a_path_means_the_same_file_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Request(corpus="notes.txt").corpus == str(tmp_path / "notes.txt")
    assert Request(corpus="./world").corpus == str(tmp_path / "world")
    assert Request(corpus="world").corpus == "world"


def test_variants_of_ones_own_are_part_of_the_request(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("x = 1\n")
    first = Request.with_variants_of(file, variants=("tied-kv",))
    file.write_text("x = 2\n")
    assert Request.with_variants_of(file, variants=("tied-kv",)).hash != first.hash
    with pytest.raises(FileError, match="cannot be read"):
        Request.with_variants_of(tmp_path / "missing.py")


def test_the_ladder_keeps_the_arms_and_changes_the_task() -> None:
    request = Request(variants=("tied-kv", "cosine"), seeds=5, half_tokens=True, up_to={"cosine": "14k"})
    rungs = ladder(request)
    assert request.rungs
    for rung in rungs:  # a recall task of one size and a number of steps of its own
        assert (rung.rungs, rung.tokens_per_parameter, rung.half_tokens, rung.up_to) == ((), None, False, {})
        assert rung.steps == 2000
    assert all(rung.steps == 7 for rung in ladder(request.replace(rungs=(), tokens_per_parameter=None, steps=7)))
    assert [rung.corpus_options["pairs"] for rung in rungs] == [4, 8, 16]
    assert all(rung.corpus == "mqar" and rung.variants == request.variants and rung.seeds == 5 for rung in rungs)
    assert [rung.changes[-1] for rung in rungs] == ["context_length=32", "context_length=64", "context_length=128"]
    assert [rung.vocabulary_size for rung in rungs] == [32, 64, 128]
    assert [rung.changes[0] for rung in rungs] == ["batch_size=96", "batch_size=48", "batch_size=24"]  # 384 queries
    assert [rung.pilot for rung in rungs] == [0, 0, 0]
    assert ladder(request.replace(pilot=3))[0].pilot == 3


def test_the_user_decides_on_the_batch_of_the_ladder() -> None:
    changes = ladder(Request(variants=("tied-kv",), changes=("batch_size=7",)))[0].changes
    assert [change for change in changes if "batch" in change][-1] == "batch_size=7"  # the last one holds


def test_asking_loads_no_pytorch() -> None:
    code = "import sys, attnlab.cli.commands.compare; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
