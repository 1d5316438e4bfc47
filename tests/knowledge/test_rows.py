"""Objectives and rows: the protocol's layout, and batches that are pure functions of corpus, seed and step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.corpora import IGNORED, CharTokenizer
from attnlab.corpora.randomness import words
from attnlab.errors import SpecError
from attnlab.knowledge import Pair
from attnlab.knowledge.codec import Codec, Row, make_tokenizer
from attnlab.knowledge.text import MARKS
from attnlab.knowledge.training.rows import RowCorpus
from attnlab.knowledge.training.sources import Documents, FixedRows, corrupt

MASK = 99
CODEC = Codec(CharTokenizer({*"abcdefghijklmnopqrstuvwxyz? ", *MARKS}))


def draw(key: str, count: int = 4) -> np.ndarray:
    return words(key, count)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=200), st.integers(0, 10_000))
def test_a_corrupted_document_can_be_put_together_again(document: list[int], key: int) -> None:
    row = corrupt(document, draw(str(key), 3), MASK, 128)
    first, second = (place for place, token in enumerate(row) if token == MASK)
    prefix, suffix, span = row[:first], row[first + 1 : second], row[second + 1 :]
    whole = (*prefix, *span, *suffix)
    assert whole == tuple(document[: len(whole)])
    assert span
    assert len(whole) <= 112  # seven eighths of the context
    assert len(span) <= max(1, len(whole) // 2)
    assert len(row) <= 128


def test_lengths_and_spans_are_those_of_the_protocol() -> None:
    document = list(range(50)) * 4
    lengths, spans = [], []
    for key in range(4000):
        row = corrupt(document, draw(str(key), 3), MASK, 128)
        second = len(row) - 1 - row[::-1].index(MASK)
        spans.append((len(row) - 1 - second) / (len(row) - 2))
        lengths.append(len(row) - 2)
    assert min(lengths) == 4
    assert max(lengths) == 112
    assert np.mean(lengths) == pytest.approx(58, abs=2)
    assert np.mean(spans) == pytest.approx(0.25, abs=0.02)  # a quarter on average


def test_the_share_of_corrupted_documents() -> None:
    half, none = (Documents([range(20), [7]], share, MASK, 128) for share in (0.5, 0.0))
    rows = [half.make(0, draw(str(key))) for key in range(1000)]
    assert sum(MASK in row.tokens for row in rows) == pytest.approx(500, abs=60)
    short = Documents([range(20)], 0.0, MASK, 8)
    assert short.make(0, draw("a")).tokens == tuple(range(9))  # as much as the context targets
    assert none.make(1, draw("a")).tokens == (MASK, MASK, 7)  # a document of one token is learned all the same


def corpus(*, bucketed: bool = True) -> RowCorpus:
    documents = [CODEC.encode("abcdefghij" * (1 + number % 5)) for number in range(23)]
    pairs = [CODEC.pair(Pair(f"who is {chr(97 + number)}?", "xyz")) for number in range(11)]
    sources = [Documents(documents, 0.5, CODEC.mask, 64), FixedRows(pairs, repeats=2)]
    return RowCorpus("test", CODEC, sources, pairs[:3], bucketed=bucketed)


def read(made: RowCorpus, step: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    batch = made.batch(seed=seed, step=step, batch_size=4, context_length=64)
    return batch.inputs.numpy(), batch.targets.numpy()


@pytest.mark.parametrize("bucketed", [True, False])
def test_a_batch_is_a_pure_function(bucketed: bool) -> None:
    first, second = corpus(bucketed=bucketed), corpus(bucketed=bucketed)
    assert first.hash == second.hash
    for step in (17, 3, 40, 3):
        for one, other in zip(read(first, step), read(second, step), strict=True):
            np.testing.assert_array_equal(one, other)
    assert first.hash != corpus(bucketed=not bucketed).hash


def test_an_epoch_takes_everything_as_often_as_it_should() -> None:
    made = corpus()
    steps = made.steps_per_epoch(4)
    assert steps == 6 + 2 * 3  # 23 documents by 4, and twice 11 pairs by 4
    rows = [row for step in range(steps) for row in read(made, step)[0]]
    assert len(rows) == 23 + 2 * 11
    again = [row for step in range(steps, 2 * steps) for row in read(made, step)[0]]
    assert [len(row) for row in rows] != [len(row) for row in again]  # another order, other spans


def test_like_lengths_go_together() -> None:
    sorted_pads = sum((read(corpus(), step)[0] == CODEC.pad).sum() for step in range(12))
    mixed_pads = sum((read(corpus(bucketed=False), step)[0] == CODEC.pad).sum() for step in range(12))
    assert sorted_pads < mixed_pads / 2


def test_targets_are_what_follows_and_pads_do_not_count() -> None:
    pair = CODEC.pair(Pair("who?", "xy"))
    made = RowCorpus("test", CODEC, [FixedRows([pair, Row(CODEC.encode("abcdefgh"))])], [pair])
    inputs, targets = read(made, 0)
    for row, given_ in zip(inputs, targets, strict=True):
        for place, target in enumerate(given_[:-1]):
            if target != IGNORED:
                assert target == row[place + 1] or row[place + 1] == CODEC.pad
        assert given_[-1] != CODEC.pad
    (number,) = [row for row in range(2) if CODEC.mask in inputs[row]]
    assert targets[number].tolist()[:3] == [IGNORED] * 3  # the question is given
    assert targets[number][3] == CODEC.mask  # the loss counts from the first MASK on
    assert targets[number][6] == CODEC.mask
    assert targets[number][7:].tolist() == []


def test_nothing_to_learn_from_is_refused() -> None:
    with pytest.raises(SpecError, match="nothing to learn"):
        RowCorpus("test", CODEC, [FixedRows([])], [])


@pytest.mark.parametrize("kind", ["char", "bpe"])
def test_every_text_comes_back(kind: str) -> None:
    texts = ["Anna was born in Zürich .", "Where was Anna born?", "Zürich"]
    codec = Codec(make_tokenizer(kind, texts, 300 if kind == "bpe" else None))
    for text in texts:
        assert codec.decode(codec.encode(text)) == text
        assert codec.mask not in codec.encode(text)
    row = codec.pair(Pair("Where was Anna born?", "Zürich"))
    assert row.tokens.count(codec.mask) == 2
    assert codec.decode(row.tokens[row.first :]) == "Zürich"
    assert codec.known("🦊") is None if kind == "bpe" else "does not know" in str(codec.known("🦊"))


def test_an_answer_is_the_same_tokens_in_a_document() -> None:
    codec = Codec(make_tokenizer("bpe", ["Anna was born in Paris and lives in Paris .", "Paris"], 320))
    answer = codec.encode("Paris")
    document = codec.encode("Anna was born in Paris and lives in Paris .")
    places = [place for place in range(len(document)) if document[place : place + len(answer)] == answer]
    assert len(places) == 2


def test_a_long_document_is_cut_and_its_question_is_not() -> None:
    pair = Pair("who?", "xy")
    row = CODEC.document_qa(CODEC.encode("a" * 500), pair, 32)
    assert len(row.tokens) == 33
    assert row.tokens[-8:] == CODEC.pair(pair).tokens
