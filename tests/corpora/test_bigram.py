"""The bigram table: equal to counting by hand, and never better than the text allows."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from attnlab.corpora import CorpusSpec, bigram_loss, open_corpus


def loss_of(tmp_path: Path, text: str, **fields: object) -> float | None:
    (tmp_path / "text.txt").write_text(text)
    spec = CorpusSpec(name=str(tmp_path / "text.txt"), **fields)
    return bigram_loss(open_corpus(spec, tmp_path / "cache"), context_length=8)


def test_a_text_that_a_bigram_knows_by_heart(tmp_path: Path) -> None:
    assert loss_of(tmp_path, "abcd" * 2000) == pytest.approx(0.0, abs=1e-3)


def test_a_coin_costs_log_two(tmp_path: Path) -> None:
    numbers, state = [], 1
    for _ in range(20_000):
        state = (1103515245 * state + 12345) % 2**31
        numbers.append("ab"[state >> 30])
    assert loss_of(tmp_path, "".join(numbers)) == pytest.approx(math.log(2), abs=5e-3)


def test_stretches_are_counted_across_their_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "the cat sat on the mat and the dog sat on the log " * 60
    whole = loss_of(tmp_path, text)
    monkeypatch.setattr("attnlab.corpora.text._STRETCH", 7)
    assert loss_of(tmp_path, text) == whole


def test_what_is_no_text_has_none(tmp_path: Path) -> None:
    assert bigram_loss(open_corpus(CorpusSpec(name="mqar"), tmp_path), context_length=32) is None
