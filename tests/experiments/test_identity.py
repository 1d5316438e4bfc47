"""Requests and plans keep their hashes and folder names, or comparisons on disk would not be found again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnlab.experiments.planning.plan import Plan
from attnlab.experiments.request import Request, ScaleRequest, ladder
from attnlab.experiments.results import Comparison
from support.comparisons import make_comparison
from support.ladders import make_ladder

_LADDER = Request(
    variants=("tied-kv", "cosine"),
    size="100k",
    rungs=("25k", "50k"),
    tokens_per_parameter=100,
    half_tokens=True,
    up_to={"cosine": "50k"},
    rates={"25k": {"softmax": 0.01}},
)
_STUDY = ScaleRequest(
    variants=("tied-kv",),
    rungs=("14k", "25k", "50k"),
    corpora=("python", "docstrings"),
    held_out="docstrings",
    hours=2,
    seeds=4,
    changes=("position=rope",),
)
_EFFECTS = {"tied-kv": (0.1, 0.05, 0.02), "cosine": (0.3, 0.3, None)}


@pytest.fixture(autouse=True)
def _version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnlab.__version__", "0.1.0")  # which is part of a request's hash


@pytest.mark.parametrize(
    ("request_", "digest", "folder"),
    [
        (
            Request(),
            "b7cd3fcbb07322b3aa5181e451939d66b2d837dfe0543ce2d96f3fdd33ffb5b0",
            "compare-tied-kv-and-3-more-25k-b7cd3fcb",
        ),
        (
            Request(variants=("tied-kv",), size="nano", steps=1000, seeds=12, looks=2, changes=("position=rope",)),
            "06487e38a56255246f6646f57102d680985c44d8576af21ff7d756ef2908aea3",
            "compare-tied-kv-nano-06487e38",
        ),
        (
            _LADDER,
            "f52bb5411dbe05df2e9efe16545fd5e405ba2f66b7855c65ef5aa0188cbdc37b",
            "compare-tied-kv-cosine-100k-f52bb541",
        ),
        (
            Request(
                variants=("mine",),
                variants_from="mine.py",
                variants_sha256="0" * 64,
                corpus="mqar",
                corpus_options={"pairs": 8},
            ),
            "b71c0968c96e31336e12b14f23f082fa850612fd22b193880ebb8b520746d061",
            "compare-mine-25k-b71c0968",
        ),
        (
            ScaleRequest(),
            "2f4658a198059a98f78b688953db8240cb50ffe4d063e1a4543c9ba3b12aea3a",
            "scale-gpt2-120-tokens-668b23d0",
        ),
        (
            _STUDY,
            "7f345c970155de6f498ed04a194d7a2e3a95b615f8c36e40bead42476280877a",
            "scale-gpt2-120-tokens-166c4882",
        ),
    ],
)
def test_a_request_keeps_its_hash_and_folder(request_: Request | ScaleRequest, digest: str, folder: str) -> None:
    assert (request_.hash, request_.folder) == (digest, folder)


def test_requests_that_follow_from_another_keep_their_folders() -> None:
    assert [one.folder[-8:] for one in ladder(Request())] == ["3ec92388", "250f76df", "6c39975d"]
    assert _STUDY.comparison("python", {"14k": {"softmax": 0.01}}).folder == "compare-tied-kv-50k-46bee5b6"


@pytest.mark.parametrize(
    ("comparison", "digest"),
    [
        (
            make_comparison(match=True, tuned=True),
            "a7f743abf0f46ffd41e99ada1339d8855e507efb2678cc3cde88128c16f8227f",
        ),
        (make_ladder(_EFFECTS, half=_EFFECTS), "536dd839d3e026584c990f684fcbc2bd16bdfe6c36301fe2fa507ec6fd3b4514"),
    ],
)
def test_a_plan_keeps_its_format_and_hash(comparison: Comparison, digest: str, tmp_path: Path) -> None:
    comparison.plan.save(tmp_path)
    record = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    assert (record["format"], record["sha256"]) == (1, digest)
    assert Plan.load(tmp_path) == comparison.plan
    assert Request.of(tmp_path) == comparison.plan.request
