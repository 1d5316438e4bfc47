"""The offset of kinship words: questions only of words that the text has, and checks that can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnlab.corpora import Kinship
from attnlab.exhibits import exhibit_named
from attnlab.exhibits.learning import analogy

SMALL = {"families": 2, "sentences": 600, "width": 8, "steps": 10}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path))


def test_words_that_the_text_has() -> None:
    text = analogy.kinship_text(analogy.KinshipAnalogy(**SMALL), shuffled=False)
    assert len(text.words) == len(text.questions) > 20
    assert set(text.words) <= set(Kinship.generate(0, families=2).analogies)
    for words, tokens in zip(text.words, text.questions, strict=True):
        assert text.corpus.tokenizer.decode(tokens).split() == list(words)


def test_an_offset_that_is_not_there_is_not_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = exhibit_named("analogy").run(**SMALL)
    assert outcome.ok
    assert len(outcome.checks) == 1
    monkeypatch.setattr(analogy.KinshipAnalogy, "learns", True)
    outcome = exhibit_named("analogy").run(**SMALL)
    assert len(outcome.checks) == 5
    assert not outcome.checks[1].ok
    assert not outcome.checks[3].ok
