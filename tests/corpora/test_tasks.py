"""Generated tasks: pure, endless, their validation apart, their answers right, and readable."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch

from attnlab.corpora import IGNORED, Batch, CorpusSpec, Tokenizer, TranslationCorpus, open_corpus
from attnlab.corpora.batches import TaskCorpus
from attnlab.corpora.generated.translation import BOS, EOS, PAD
from attnlab.errors import InputError, SpecError

TASKS = ("mqar", "translation", "matching", "adjectives")
SIZES: dict[str, Any] = {"batch_size": 6, "context_length": 32}


def task(name: str, **fields: Any) -> TaskCorpus:
    corpus = open_corpus(CorpusSpec(name=name, **fields))
    assert isinstance(corpus, TaskCorpus)
    return corpus


def tensors(batch: Batch) -> list[torch.Tensor]:
    return [tensor for tensor in batch if tensor is not None]


def same(one: Batch, two: Batch) -> bool:
    return all(torch.equal(a, b) for a, b in zip(tensors(one), tensors(two), strict=True))


@pytest.mark.parametrize("name", TASKS)
def test_pure(name: str) -> None:
    corpus, again = task(name), task(name)
    assert corpus.hash == again.hash
    first = corpus.batch(seed=0, step=3, **SIZES)
    assert same(first, again.batch(seed=0, step=3, **SIZES))
    for other in (
        corpus.batch(seed=1, step=3, **SIZES),
        corpus.batch(seed=0, step=4, **SIZES),
        task(name, seed=1).batch(seed=0, step=3, **SIZES),
    ):
        assert not torch.equal(first.inputs, other.inputs)
    assert task(name, options={"validation_examples": 3}).hash != corpus.hash


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("rows", [slice(0, 2), slice(1, None, 2), slice(None, None, -1), slice(2, 2)])
def test_rows(name: str, rows: slice) -> None:
    corpus = task(name)
    whole = corpus.batch(seed=5, step=7, **SIZES)
    part = corpus.batch(seed=5, step=7, **SIZES, rows=rows)
    expected = np.arange(6)[rows].tolist()
    for all_rows, some in zip(tensors(whole), tensors(part), strict=True):
        assert torch.equal(some, all_rows[expected])


@pytest.mark.parametrize("name", TASKS)
def test_examples_do_not_depend_on_the_batch_size(name: str) -> None:
    corpus = task(name)
    small = [corpus.batch(seed=0, step=step, batch_size=2, context_length=32).inputs for step in range(6)]
    assert torch.equal(torch.cat(small), corpus.batch(seed=0, step=0, batch_size=12, context_length=32).inputs)


@pytest.mark.parametrize("name", TASKS)
def test_validation(name: str) -> None:
    corpus = task(name, options={"validation_examples": 11})
    batches = list(corpus.validation_batches(batch_size=4, context_length=32))
    assert [len(batch.inputs) for batch in batches] == [4, 4, 3]
    again = torch.cat([batch.inputs for batch in corpus.validation_batches(batch_size=11, context_length=32)])
    assert torch.equal(torch.cat([batch.inputs for batch in batches]), again)
    few = torch.cat([b.inputs for b in corpus.validation_batches(batch_size=2, context_length=32, limit=3)])
    assert torch.equal(few, again[[0, 3, 7]])
    counted = sum(int((batch.targets != IGNORED).sum()) for batch in batches)
    assert corpus.validation_tokens == counted
    assert corpus.training_tokens == sys.maxsize
    training = corpus.batch(seed=0, step=0, batch_size=11, context_length=32).inputs
    assert not torch.equal(training, again)


@pytest.mark.parametrize("name", TASKS)
def test_symbols_are_readable(name: str) -> None:
    size = 33 if name == "adjectives" else 40
    corpus = task(name, vocabulary_size=size, options={"pairs": 4} if name == "mqar" else {})
    assert corpus.vocabulary_size == corpus.tokenizer.vocabulary_size == size
    row = corpus.batch(seed=0, step=0, **SIZES).inputs[0].tolist()
    text = corpus.tokenizer.decode(row)
    assert corpus.tokenizer.encode(text) == row
    assert Tokenizer.from_json(corpus.tokenizer.to_json()).decode(row) == text


@pytest.mark.parametrize("filler", ["random", "blank"])
@pytest.mark.parametrize("context", [32, 33, 64])
def test_recall(filler: str, context: int) -> None:
    corpus = task("mqar", vocabulary_size=41, options={"filler": filler})
    batch = corpus.batch(seed=0, step=0, batch_size=50, context_length=context)
    assert batch.inputs.shape == batch.targets.shape == (50, context)
    assert 0 <= batch.inputs.min() <= batch.inputs.max() < 41
    for inputs, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        pairs = dict(zip(inputs[0:16:2], inputs[1:16:2], strict=True))
        assert len(pairs) == len(set(pairs.values())) == 8
        assert all(1 <= key < 21 <= value for key, value in pairs.items())
        asked = {inputs[place]: target for place, target in enumerate(targets) if target != IGNORED}
        assert asked == pairs
        assert sum(target != IGNORED for target in targets) == 8
        assert all(target == IGNORED for target in targets[:16])
        if filler == "blank":
            assert inputs.count(0) == context - 24
    assert {key for row in batch.inputs[:, 0:16:2].tolist() for key in row} == set(range(1, 21))


def test_recall_after_gaps_of_a_power_law() -> None:
    def mean_place(power: float) -> float:
        corpus = task("mqar", options={"power": power, "pairs": 4})
        batch = corpus.batch(seed=0, step=0, batch_size=400, context_length=128)
        return float((batch.targets != IGNORED).nonzero()[:, 1].float().mean())

    assert abs(mean_place(1.0) - (8 + 127) / 2) < 3  # anywhere
    assert mean_place(0.01) < 50  # most of them soon
    first = task("mqar", options={"power": 0.01, "pairs": 1}).batch(seed=0, step=0, batch_size=4000, context_length=42)
    places = ((first.targets != IGNORED).nonzero()[:, 1] - 2) // 2
    shares = torch.bincount(places, minlength=20) / 4000
    expected = torch.arange(1, 21).double() ** -0.99
    assert torch.allclose(shares.double(), expected / expected.sum(), atol=0.03)


def test_recall_that_does_not_fit() -> None:
    with pytest.raises(SpecError, match="do not fit into a context of 31") as caught:
        task("mqar").batch(seed=0, step=0, batch_size=1, context_length=31)
    assert caught.value.hint == "use a context of at least 32, or at most 7 pairs"
    with pytest.raises(SpecError, match="do not fit"):
        task("mqar").validation_batches(batch_size=1, context_length=3)
    with pytest.raises(SpecError, match="too few for 8 different pairs") as caught:
        task("mqar", vocabulary_size=16)
    assert "at least 17" in (caught.value.hint or "")
    assert task("mqar", vocabulary_size=17).vocabulary_size == 17


def test_translation() -> None:
    corpus = task("translation")
    assert isinstance(corpus, TranslationCorpus)
    batch = corpus.batch(seed=0, step=0, batch_size=200, context_length=20)
    source, padding, aligned = batch.source, batch.source_padding, corpus.alignment(batch)
    assert source is not None
    assert padding is not None
    assert source.shape == padding.shape == (200, corpus.options.longest)
    assert batch.inputs.shape == batch.targets.shape == aligned.shape == (200, 20)
    lengths = padding.sum(1)
    assert lengths.min() >= 4
    assert lengths.max() <= 16
    assert len(set(lengths.tolist())) > 5
    for row, length in enumerate(lengths.tolist()):
        assert (source[row] != PAD).tolist() == padding[row].tolist() == [True] * length + [False] * (16 - length)
        words = source[row, :length].tolist()
        target = batch.targets[row]
        assert batch.inputs[row].tolist() == [BOS, *target[:length].tolist(), *[PAD] * (19 - length)]
        assert target[length] == EOS
        assert set(target[length + 1 :].tolist()) <= {IGNORED}
        order = aligned[row, :length].tolist()
        assert sorted(order) == list(range(length))
        assert set(aligned[row, length:].tolist()) == {-1}
        assert [int(corpus.dictionary[words[place]]) for place in order] == target[:length].tolist()


def test_the_rule_of_the_translation() -> None:
    corpus = task("translation", vocabulary_size=68)
    assert isinstance(corpus, TranslationCorpus)
    sentence = corpus.tokenizer.encode("a3 n1 v2 a0 a5 n4 . n2 v1 n3 .")
    source = torch.tensor([[*sentence, PAD]])
    targets = torch.zeros(1, 13, dtype=torch.int64)
    aligned = corpus.alignment(Batch(targets, targets, source, source != PAD))
    #        n1 a3 n4 a0 a5 v2  . n2 n3 v1   .
    assert aligned.tolist() == [[1, 0, 5, 3, 4, 2, 6, 7, 9, 8, 10, -1, -1]]


def test_the_dictionary_is_one_to_one_and_keeps_classes() -> None:
    corpus, other = task("translation", vocabulary_size=68), task("translation", vocabulary_size=68, seed=1)
    assert isinstance(corpus, TranslationCorpus)
    assert isinstance(other, TranslationCorpus)
    names = corpus.tokenizer.decode(range(68)).split()
    translated = {names[word]: names[corpus.dictionary[word]] for word in range(4, 36)}
    assert sorted(translated.values()) == sorted(names[36:])
    assert all(word[0].upper() == found[0] for word, found in translated.items())
    assert not np.array_equal(corpus.dictionary, other.dictionary)


def test_translations_without_adjectives() -> None:
    corpus = task("translation", vocabulary_size=12, options={"adjectives": 0, "clauses": 1})
    batch = corpus.batch(seed=0, step=0, batch_size=9, context_length=5)
    assert batch.source is not None
    assert batch.source.shape == (9, 4)
    assert corpus.tokenizer.decode(batch.source[0].tolist()).split()[1::2] == ["v0", "."]


def test_translations_that_do_not_fit() -> None:
    with pytest.raises(SpecError, match="up to 16 words") as caught:
        task("translation").batch(seed=0, step=0, batch_size=1, context_length=16)
    assert "at least 17" in (caught.value.hint or "")
    with pytest.raises(SpecError, match="13 symbols are not") as caught:
        task("translation", vocabulary_size=13)
    assert "such as 14" in (caught.value.hint or "")
    with pytest.raises(SpecError, match="10 symbols are not"):
        task("translation", vocabulary_size=10)


def test_alignment_needs_a_source() -> None:
    corpus = task("translation")
    assert isinstance(corpus, TranslationCorpus)
    with pytest.raises(InputError, match="has no source"):
        corpus.alignment(task("mqar").batch(seed=0, step=0, **SIZES))
