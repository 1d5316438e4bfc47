"""What can be asked of a scale study, what is refused, and which studies share a folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from attnlab.errors import FileError, SpecError
from attnlab.experiments.request import Request, ScaleRequest
from support.studies import small_study


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"rungs": ("6k", "14k")}, "at least 3 rungs, got 2: 6k, 14k"),
        ({"rungs": ()}, "at least 3 rungs, got 0"),
        ({"rate_rungs": 1}, "needs two searched rungs"),
        ({"rate_count": 2}, "rate_count"),
        ({"rate_seeds": 0}, "rate_seeds"),
        ({"tokens_per_parameter": 0}, "tokens_per_parameter"),
        ({"hours": 0}, "hours"),
        ({"corpora": ()}, "corpora must be named once each"),
        ({"corpora": ("kinship", "kinship")}, "corpora must be named once each"),
        ({"held_out": "kinship"}, "cannot be held out"),
        ({"held_out": "world"}, "cannot be held out"),
        ({"corpora": ("kinship", "world"), "held_out": "kinship"}, "cannot be held out"),
        ({"rung": 3}, "rung"),
    ],
)
def test_what_cannot_be_asked(fields: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words) as caught:
        small_study(**fields)
    assert caught.value.hint


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": 7},
        {"rungs": ("6k", "14k", "25k", "55k")},
        {"variants": ("tied-kv", "cosine")},
        {"corpora": ("kinship", "world")},
        {"half_tokens": False},
        {"hours": 3.0},
        {"target": "10M"},
        {"up_to": {"tied-kv": "14k"}},
    ],
)
def test_studies_on_the_same_ladder_share_a_folder(changes: dict[str, object]) -> None:
    one, other = small_study(), small_study(**changes)
    assert other.folder == one.folder
    assert (other.hash == one.hash) is (set(changes) == {"hours"})  # hours decide how much of it is done, not what


@pytest.mark.parametrize(
    "changes",
    [
        {"tokens_per_parameter": 0.5},
        {"least_tokens": 10_000},
        {"changes": ()},
        {"tokenizer": "byte"},
        {"baseline": "cosine"},
        {"recipe": "fast"},
    ],
)
def test_studies_that_train_otherwise_have_another_folder(changes: dict[str, object]) -> None:
    assert small_study(**changes).folder != small_study().folder


def test_the_comparison_of_a_corpus_has_all_rungs_and_the_largest_decides() -> None:
    rates = {"6k": {"softmax": 0.01}}
    found = small_study(up_to={"tied-kv": "25k"}, seeds=4, first_seed=3).comparison("world", rates)
    assert isinstance(found, Request)
    assert (found.size, found.rungs, found.corpus) == ("25k", ("6k", "14k"), "world")
    assert (found.half_tokens, found.up_to, found.rates) == (True, {"tied-kv": "25k"}, rates)
    assert (found.seeds, found.first_seed, found.pilot, found.tune) == (4, 3, 0, 0)
    assert found.changes == ("context_length=8", "validation_rows=8")


def test_variants_of_ones_own_are_part_of_a_study(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("x = 1\n")
    first = ScaleRequest.with_variants_of(file, variants=("tied-kv",))
    file.write_text("x = 2\n")
    second = ScaleRequest.with_variants_of(file, variants=("tied-kv",))
    assert first.folder != second.folder
    assert second.comparison("world", {}).variants_sha256 == second.variants_sha256
    with pytest.raises(FileError, match="cannot be read"):
        ScaleRequest.with_variants_of(tmp_path / "missing.py")


def test_asking_loads_no_pytorch() -> None:
    code = "import sys, attnlab.cli.commands.scale; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
