"""Every symbol is asked for once, its place is the answer, and nothing else tells it."""

from __future__ import annotations

import pytest
import torch

from attnlab.corpora import IGNORED, CorpusSpec, MatchingCorpus, open_corpus
from attnlab.errors import SpecError


def matching(vocabulary_size: int | None = None, **options: int) -> MatchingCorpus:
    corpus = open_corpus(CorpusSpec(name="matching", vocabulary_size=vocabulary_size, options=options))
    assert isinstance(corpus, MatchingCorpus)
    return corpus


@pytest.mark.parametrize("context", [12, 15])
def test_the_answer_is_the_place(context: int) -> None:
    corpus = matching(places=6)
    names = corpus.tokenizer.decode(range(corpus.vocabulary_size)).split()
    batch = corpus.batch(seed=0, step=0, batch_size=100, context_length=context)
    for inputs, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        given, asked = inputs[:6], inputs[6:12]
        assert len(set(given)) == 6
        assert set(given) == set(asked)
        assert targets[:6] == [IGNORED] * 6
        assert [names[target] for target in targets[6:12]] == [f"p{given.index(symbol)}" for symbol in asked]
        assert inputs[12:] == [0] * (context - 12)
        assert targets[12:] == [IGNORED] * (context - 12)


def test_every_symbol_stands_everywhere_and_every_answer_is_as_likely() -> None:
    corpus = matching(places=4)
    batch = corpus.batch(seed=0, step=0, batch_size=4000, context_length=8)
    for place in range(4):
        counts = torch.bincount(batch.inputs[:, place] - corpus.first_symbol, minlength=corpus.num_symbols)
        assert (counts / 4000 - 1 / corpus.num_symbols).abs().max() < 0.03
        answers = torch.bincount(batch.targets[:, 4 + place] - 1, minlength=4)
        assert (answers / 4000 - corpus.chance).abs().max() < 0.03


def test_golden() -> None:
    corpus = matching(places=4)
    assert corpus.hash[:16] == "d49b593e00301564"
    batch = corpus.batch(seed=0, step=1, batch_size=2, context_length=8)
    assert corpus.tokenizer.decode(batch.inputs[0].tolist()) == "s7 s1 s4 s3 s4 s3 s7 s1"


def test_what_does_not_fit() -> None:
    with pytest.raises(SpecError, match="do not fit into a context of 11") as caught:
        matching(places=6).batch(seed=0, step=0, batch_size=1, context_length=11)
    assert caught.value.hint == "use a context of at least 12, or at most 5 places"
    with pytest.raises(SpecError, match="of 12 symbols 5 are left for 6 places") as caught:
        matching(12, places=6)
    assert "at least 13" in (caught.value.hint or "")
    assert matching(13, places=6).num_symbols == 6
