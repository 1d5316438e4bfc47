"""What is generated stays as it is: runs are compared across releases, and a changed text would go unnoticed.

A change that is meant gets a new VERSION in its module, so that no cache serves the old text, and new values here.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from attnlab.corpora import IGNORED, CorpusSpec, Kinship, World, open_corpus
from attnlab.corpora.randomness import Stream, below, digest, permutation, sample_words, uniform, words


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_random_words() -> None:
    assert digest("a", 1, {"b": [0.5, True]}) == "0f0be0b702779c72ec764c7e2908cbafcd1b64fa2b3c0933f0ed24f89e98059c"
    assert words("key", 3).tolist() == [6092574576139264453, 6458579247258109621, 3076291305958866595]
    assert permutation("key", 8).tolist() == [5, 2, 0, 1, 3, 4, 7, 6]
    assert below(10, words("key", 6)).tolist() == [3, 3, 1, 4, 5, 1]
    assert uniform(words("key", 1)).tolist() == [0.3302791295740072]
    stream = Stream("key", 1)
    assert [stream.below(100) for _ in range(5)] == [74, 81, 67, 97, 62]
    assert stream.sample("abcdef", 6) == ["c", "e", "b", "f", "d", "a"]


def test_a_sample_has_its_own_words() -> None:
    whole = sample_words("key", 0, 10, 7)
    assert whole.shape == (10, 7)
    assert len(set(whole.flatten().tolist())) == 70
    assert (sample_words("key", 4, 3, 7) == whole[4:7]).all()
    assert sample_words("key", 4, 0, 7).shape == (0, 7)


def test_a_stream_goes_on() -> None:
    stream = Stream("long")
    assert len({stream.below(1 << 32) for _ in range(5000)}) > 4990
    counts = [0, 0, 0]
    for _ in range(3000):
        counts[stream.weighted((0, 1, 2), (1.0, 1.0, 4.0))] += 1
    assert counts[1] == 0
    assert 0.2 < counts[0] / 3000 < 0.3
    assert 0.2 < sum(stream.chance(0.25) for _ in range(3000)) / 3000 < 0.3


def test_world() -> None:
    world = World.generate(seed=0)
    assert world.most_common_place == "Sonminster"
    assert world.documents()[0] == (
        "The Rivurst Works pays the wages of Klelena Stalurst. The year of birth of Klelena Stalurst is 1974. "
        "The town in which Klelena Stalurst was born is Balholm."
    )
    assert sha256(world.text()) == "7413ea43afdb85ff"
    assert sha256(repr(world.truth)) == "d61ff5d31d5b4876"


def test_kinship() -> None:
    kinship = Kinship.generate(seed=0)
    assert kinship.sentences()[0] == "Druvena is a woman."
    assert sha256(kinship.text()) == "506a25862b65479e"


def test_mqar() -> None:
    corpus = open_corpus(CorpusSpec(name="mqar", vocabulary_size=32, options={"pairs": 4}))
    assert corpus.hash[:16] == "0c7120e7ac20b772"
    batch = corpus.batch(seed=0, step=1, batch_size=2, context_length=20)
    text = "k2 v2 k3 v12 k8 v9 k5 v0 k3 k0 k6 k1 v0 k5 k5 k11 k8 k5 k2 _"
    assert corpus.tokenizer.decode(batch.inputs[0].tolist()) == text
    asked = {place: target for place, target in enumerate(batch.targets[0].tolist()) if target != IGNORED}
    assert asked == {8: 28, 14: 16, 16: 25, 18: 18}


def test_translation() -> None:
    corpus = open_corpus(CorpusSpec(name="translation"))
    assert corpus.hash[:16] == "5be34032f39757d7"
    batch = corpus.batch(seed=0, step=1, batch_size=2, context_length=20)
    assert batch.source is not None
    text = "a7 a6 n29 v1 a11 n27 . n27 v5 a8 a14 n25 . <pad> <pad> <pad>"
    assert corpus.tokenizer.decode(batch.source[0].tolist()) == text
    text = "<bos> N13 A1 A8 N1 A7 V4 . N1 N9 A11 A13 V2 . <pad> <pad> <pad> <pad> <pad> <pad>"
    assert corpus.tokenizer.decode(batch.inputs[0].tolist()) == text


@pytest.mark.parametrize(
    ("tokenizer", "content", "expected"),
    [
        ("char", "6805da88b0e70fc1", ["a pur", " (cor", "h, se"]),
        ("byte", "6d5a3104f0e2d230", ["ure f", "uncti", " step"]),
        ("word", "16a7fd2f44f3cd07", [")\na batch is", " is a pure function of", ", seed, step)"]),
    ],
)
def test_batches_of_text(tmp_path: Path, tokenizer: str, content: str, expected: list[str]) -> None:
    (tmp_path / "text.txt").write_text("a batch is a pure function of (corpus hash, seed, step)\n" * 9)
    corpus = open_corpus(CorpusSpec(name=str(tmp_path / "text.txt"), tokenizer=tokenizer), tmp_path / "cache")
    assert corpus.hash[:16] == content
    batch = corpus.batch(seed=1, step=2, batch_size=3, context_length=5)
    assert [corpus.tokenizer.decode(row.tolist()) for row in batch.inputs] == expected
