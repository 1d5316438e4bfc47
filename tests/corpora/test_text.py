"""Batches of text: a pure function of hash, seed and step, in epochs without replacement; validation in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlab.corpora import CorpusSpec, TextCorpus, open_corpus
from attnlab.corpora.text import WindowOrder
from attnlab.errors import SpecError

SIZES: dict[str, Any] = {"batch_size": 6, "context_length": 8}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> TextCorpus:
    """A text in which no character occurs twice, so that a token tells its place."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "text.txt").write_text("".join(chr(0x4E00 + place) for place in range(500)), encoding="utf-8")
    opened = open_corpus(CorpusSpec(name=str(folder / "text.txt"), validation_share=0.2), folder / "cache")
    assert isinstance(opened, TextCorpus)
    return opened


def test_split(corpus: TextCorpus) -> None:
    assert (corpus.training_tokens, corpus.validation_tokens, corpus.vocabulary_size) == (400, 100, 500)
    assert list(corpus.train) == list(range(400))
    assert list(corpus.validation) == list(range(400, 500))


def test_the_split_is_that_of_nanogpt(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("x" * 1_115_394)
    opened = open_corpus(CorpusSpec(name=str(tmp_path / "text.txt")), tmp_path / "cache")
    assert (opened.training_tokens, opened.validation_tokens) == (1_003_854, 111_540)


def test_a_batch(corpus: TextCorpus) -> None:
    batch = corpus.batch(seed=0, step=0, **SIZES)
    assert batch.inputs.shape == batch.targets.shape == (6, 8)
    assert batch.inputs.dtype == batch.targets.dtype == torch.int64
    assert batch.inputs.is_contiguous()
    assert batch.targets.is_contiguous()
    assert torch.equal(batch.targets, batch.inputs + 1)
    assert torch.equal(batch.inputs, batch.inputs[:, :1] + torch.arange(8))
    assert batch.source is None
    assert batch.source_padding is None


def test_pure(corpus: TextCorpus) -> None:
    again = TextCorpus(corpus.spec, corpus.tokenizer, corpus.train, "other content")
    assert again.hash != corpus.hash
    batches = [corpus.batch(seed=seed, step=step, **SIZES).inputs for seed in (0, 1) for step in (0, 1, 99)]
    backwards = [corpus.batch(seed=seed, step=step, **SIZES).inputs for seed in (1, 0) for step in (99, 1, 0)]
    assert all(torch.equal(one, two) for one, two in zip(batches, reversed(backwards), strict=True))
    assert len({batch.flatten().tolist().__repr__() for batch in batches}) == len(batches)
    assert not torch.equal(again.batch(seed=0, step=0, **SIZES).inputs, batches[0])
    assert torch.equal(corpus.batch(seed=np.int64(1), step=np.int64(1), **SIZES).inputs, batches[4])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "rows", [slice(0, 3), slice(3, 6), slice(1, None, 2), slice(-2, None), slice(None, None, -1), slice(4, 4)]
)
def test_rows_of_a_batch(corpus: TextCorpus, rows: slice) -> None:
    for step in (0, 8, 9, 50):  # some of them reach into the next epoch
        whole = corpus.batch(seed=3, step=step, **SIZES)
        part = corpus.batch(seed=3, step=step, **SIZES, rows=rows)
        expected = torch.arange(6).numpy()[rows].tolist()
        assert torch.equal(part.inputs, whole.inputs[expected])
        assert torch.equal(part.targets, whole.targets[expected])


def test_the_order_does_not_depend_on_the_batch_size(corpus: TextCorpus) -> None:
    small = torch.cat([corpus.batch(seed=0, step=step, batch_size=5, context_length=8).inputs for step in range(24)])
    large = torch.cat([corpus.batch(seed=0, step=step, batch_size=40, context_length=8).inputs for step in range(3)])
    assert torch.equal(small, large)


@given(tokens=st.integers(2, 300), context=st.integers(1, 60), seed=st.integers(-3, 3), epoch=st.integers(0, 5))
def test_an_epoch_reads_every_window_once(tokens: int, context: int, seed: int, epoch: int) -> None:
    if tokens <= context:
        return
    order = WindowOrder("hash", tokens)
    windows = order.windows(context)
    starts = order.starts(np.arange(epoch * windows, (epoch + 1) * windows), seed, context)
    phase = starts.min()
    assert 0 <= phase < context
    assert sorted(starts.tolist()) == [phase + context * number for number in range(windows)]
    assert starts.max() + context + 1 <= tokens  # the last target is there
    assert windows * context > tokens - 2 * context - 1  # and no more than a window at each end is left out


def test_epochs_differ_and_cover_the_text(corpus: TextCorpus) -> None:
    windows = WindowOrder("", 400).windows(8)
    assert windows == 49
    epochs = [corpus.batch(seed=0, step=step, batch_size=windows, context_length=8) for step in range(80)]
    first = [epoch.inputs[:, 0].tolist() for epoch in epochs]
    assert len({min(starts) for starts in first}) == 8  # every phase
    assert len({str(starts) for starts in first}) == 80
    assert {token for epoch in epochs for token in epoch.targets.flatten().tolist()} == set(range(1, 400))
    assert all(len(set(epoch.inputs.flatten().tolist())) == windows * 8 for epoch in epochs)


def test_one_window_is_enough(corpus: TextCorpus) -> None:
    batch = corpus.batch(seed=0, step=5, batch_size=50, context_length=399)
    assert set(batch.inputs[:, 0].tolist()) == {0}
    assert set(corpus.batch(seed=0, step=5, batch_size=50, context_length=398).inputs[:, 0].tolist()) == {0, 1}


def test_validation(corpus: TextCorpus) -> None:
    batches = list(corpus.validation_batches(batch_size=5, context_length=8))
    assert [len(batch.inputs) for batch in batches] == [5, 5, 2]
    windows = torch.cat([batch.inputs for batch in batches])
    assert windows.flatten().tolist() == list(range(400, 496))
    assert torch.equal(torch.cat([batch.targets for batch in batches]), windows + 1)
    again = torch.cat([batch.inputs for batch in corpus.validation_batches(batch_size=3, context_length=8)])
    assert torch.equal(windows, again)
    few = torch.cat([b.inputs for b in corpus.validation_batches(batch_size=2, context_length=8, limit=3)])
    assert few[:, 0].tolist() == [400, 432, 464]
    many = torch.cat([b.inputs for b in corpus.validation_batches(batch_size=50, context_length=8, limit=99)])
    assert torch.equal(many, windows)


def test_a_context_that_is_too_long(corpus: TextCorpus) -> None:
    with pytest.raises(SpecError, match="400 tokens to train on, too few for a context of 400") as caught:
        corpus.batch(seed=0, step=0, batch_size=1, context_length=400)
    assert caught.value.hint == "use a context of at most 399, or give more text"
    with pytest.raises(SpecError, match="100 tokens to validate on, too few for a context of 100") as caught:
        corpus.validation_batches(batch_size=1, context_length=100)  # at once, not when it is read
    assert caught.value.hint == "use a context of at most 99, or raise validation_share, which is 0.2"


def test_tiny_texts(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("x")
    corpus = open_corpus(CorpusSpec(name=str(tmp_path / "text.txt"), validation_share=0), tmp_path / "cache")
    with pytest.raises(SpecError, match="1 tokens to train on") as caught:
        corpus.batch(seed=0, step=0, batch_size=1, context_length=1)
    assert caught.value.hint == "give more text"
    with pytest.raises(SpecError, match="0 tokens to validate on"):
        corpus.validation_batches(batch_size=1, context_length=1)


@pytest.mark.parametrize("name", ["batch_size", "context_length", "step", "limit"])
def test_sizes_that_are_none(corpus: TextCorpus, name: str) -> None:
    sizes: dict[str, Any] = {**SIZES, name: -1 if name == "step" else 0}
    if name == "limit":
        with pytest.raises(SpecError, match="limit is 0"):
            corpus.validation_batches(**sizes)
    else:
        with pytest.raises(SpecError, match=f"{name} is"):
            corpus.batch(seed=0, **{"step": 0, **sizes})
