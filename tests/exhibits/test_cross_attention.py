"""Alignment from the weights: exact at any size, judged only where it should be learned, and able to fail."""

from __future__ import annotations

import pytest
import torch

from attnlab.corpora import CorpusSpec, TranslationCorpus, open_corpus
from attnlab.exhibits import exhibit_named
from attnlab.exhibits.learning import cross_attention

SMALL = {"clauses": 1, "words": 4, "head_width": 8, "steps": 10}


def test_small_sizes_hold_and_say_what_they_leave_open() -> None:
    outcome = exhibit_named("cross-attention").run(**SMALL, heads=2)
    assert outcome.ok
    assert len(outcome.checks) == 2
    assert "is checked from 300 steps on" in str(outcome.to_dict())


def test_an_untrained_model_does_not_align(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_attention.CrossAttention, "learns", True)
    outcome = exhibit_named("cross-attention").run(**SMALL)
    assert [check.ok for check in outcome.checks] == [True, True, False, False]


def test_stops_and_ends_are_no_words() -> None:
    corpus = open_corpus(CorpusSpec(name="translation", vocabulary_size=20))
    assert isinstance(corpus, TranslationCorpus)
    batch = corpus.batch(seed=0, step=0, batch_size=20, context_length=17)
    places = cross_attention.places_of(corpus, batch)
    known = places >= 0
    names = corpus.tokenizer.decode(range(20)).split()
    asked = {names[token] for token in batch.targets[known].tolist()}
    assert asked
    assert all(name.isupper() for name in asked)
    every = torch.stack([cross_attention.places_of(corpus, batch, kind) for kind in cross_attention.KINDS]).amax(0)
    assert torch.equal(every, corpus.alignment(batch))
    assert torch.equal(places[known], corpus.alignment(batch)[known])
