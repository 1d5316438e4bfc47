"""The best that can be done without looking back further than one token.

    p(b | a) = (count(a b) + k · p(b)) / (count(a) + k)        for the k that suits the held-back text best

A model whose loss is not clearly below this one's has not learned to use attention yet.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnlab.corpora.batches import Corpus
from attnlab.corpora.text import TextCorpus

_LARGEST = 4096  # tokens in the vocabulary: the table has the square of it
_STRETCH = 1 << 22  # tokens at a time
_STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)


def bigram_loss(corpus: Corpus, context_length: int, rows: int | None = None) -> float | None:
    """Its loss in nats on the validation rows that a model with this context is judged by; None if there is none."""
    if not isinstance(corpus, TextCorpus) or corpus.vocabulary_size > _LARGEST:
        return None
    batches = list(corpus.validation_batches(batch_size=64, context_length=context_length, limit=rows))
    before = np.concatenate([batch.inputs.flatten().numpy() for batch in batches])
    after = np.concatenate([batch.targets.flatten().numpy() for batch in batches])
    pairs = _counts(corpus)
    single = pairs.sum(0) + 1.0
    single /= single.sum()
    seen = pairs.sum(1)
    return min(
        float(-np.log((pairs[before, after] + k * single[after]) / (seen[before] + k)).mean()) for k in _STRENGTHS
    )


def _counts(corpus: TextCorpus) -> NDArray[np.float64]:
    """How often each token follows each."""
    size, counts = corpus.vocabulary_size, np.zeros(corpus.vocabulary_size**2)
    for start in range(0, len(corpus.train) - 1, _STRETCH):
        tokens = np.asarray(corpus.train[start : start + _STRETCH + 1], dtype=np.int64)
        counts += np.bincount(tokens[:-1] * size + tokens[1:], minlength=size * size)
    return counts.reshape(size, size)
