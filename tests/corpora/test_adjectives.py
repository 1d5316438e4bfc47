"""The verb follows from one adjective, and from no other word; which adjective that was is known."""

from __future__ import annotations

import pytest
import torch

from attnlab.corpora import IGNORED, AdjectivesCorpus, CorpusSpec, open_corpus
from attnlab.corpora.generated.adjectives import DECIDES, NOUNS, OTHERS, PAD, STOP
from attnlab.errors import SpecError

CONTEXT = 24


def adjectives(**options: int) -> AdjectivesCorpus:
    corpus = open_corpus(CorpusSpec(name="adjectives", options=options))
    assert isinstance(corpus, AdjectivesCorpus)
    return corpus


def test_sentences() -> None:
    corpus = adjectives()
    names = corpus.tokenizer.decode(range(corpus.vocabulary_size)).split()
    batch = corpus.batch(seed=0, step=0, batch_size=200, context_length=CONTEXT)
    lengths = set()
    for inputs, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        real = [target for target in targets if target != IGNORED]
        text = [inputs[0], *real]
        assert inputs == [*text[:-1], *[PAD] * (CONTEXT - len(real))]
        assert text[-1] == STOP
        sentences = " ".join(names[word] for word in text).split(" .")
        assert sentences.pop() == ""
        assert len(sentences) == 3
        for article, *before, noun, verb in map(str.split, sentences):
            assert article == "the"
            assert noun in NOUNS
            assert [DECIDES[word] for word in before if word in DECIDES] == [verb]
            assert {word for word in before if word not in DECIDES} <= set(OTHERS)
            lengths.add(len(before))
    assert lengths == {1, 2, 3}


def test_neither_noun_nor_distance_tells_the_verb() -> None:
    corpus = adjectives(sentences=1)
    batch = corpus.batch(seed=0, step=0, batch_size=6000, context_length=6)
    deciding = corpus.deciding(batch)
    row, noun = (deciding >= 0).nonzero().unbind(1)
    verbs = batch.targets[row, noun] - corpus.verbs.start
    for clue in (batch.inputs[row, noun] - corpus.nouns.start, noun - deciding[row, noun] - 1):
        table = torch.zeros(int(clue.max()) + 1, 8).index_put_((clue, verbs), torch.ones(len(row)), accumulate=True)
        assert (table / table.sum(1, keepdim=True) - 1 / 8).abs().max() < 0.06


def test_the_deciding_adjective() -> None:
    corpus = adjectives()
    batch = corpus.batch(seed=0, step=0, batch_size=50, context_length=CONTEXT)
    deciding = corpus.deciding(batch)
    for words, places in zip(batch.inputs.tolist(), deciding.tolist(), strict=True):
        assert sum(place >= 0 for place in places) == 3
        for noun, adjective in enumerate(places):
            if adjective < 0:
                assert words[noun] not in corpus.nouns
                continue
            assert words[noun] in corpus.nouns
            assert 1 <= noun - adjective <= 3
            assert words[adjective] - corpus.adjectives.start == words[noun + 1] - corpus.verbs.start


def test_golden() -> None:
    corpus = adjectives()
    assert corpus.hash[:16] == "ceed5176abf5a8af"
    batch = corpus.batch(seed=0, step=1, batch_size=2, context_length=CONTEXT)
    text = "the angry grey fox fights . the lost young bear wanders . the hungry fox eats"
    assert corpus.tokenizer.decode(batch.inputs[0].tolist()) == text + 8 * " <pad>"


def test_what_does_not_fit() -> None:
    with pytest.raises(SpecError, match="do not fit into a context of 19") as caught:
        adjectives().batch(seed=0, step=0, batch_size=1, context_length=19)
    assert "at least 20" in (caught.value.hint or "")
    with pytest.raises(SpecError, match="have 33 words, not 40"):
        open_corpus(CorpusSpec(name="adjectives", vocabulary_size=40))
