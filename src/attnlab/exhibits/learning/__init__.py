"""Embeddings, and small models that are trained and then examined.

almost_orthogonal              how many nearly perpendicular directions fit
superposition                  more features than dimensions
embedding_is_not_an_encoder    one word in two sentences
adjective_noun                 a head that carries the adjective to its noun
analogy                        pairs of words with the same offset
bias_variance                  the error of a learner, in three parts
cross_attention                which word corresponds to which
synthesizer_limits             what a synthesizer cannot do in one layer
"""

from typing import Any, TypeVar

from attnlab.corpora import Corpus, CorpusSpec, open_corpus
from attnlab.training import Learner, RunSpec

C = TypeVar("C", bound=Corpus)


def toy_corpus(kind: type[C], **spec: Any) -> C:
    """Return a generated corpus of this kind; `spec` are fields of a `CorpusSpec`."""
    corpus = open_corpus(CorpusSpec(**spec))
    assert isinstance(corpus, kind)
    return corpus


def toy_learner(corpus: Corpus, **settings: Any) -> Learner:
    """Return a learner of a small model; `settings` are those of a `RunSpec`."""
    return Learner(RunSpec(**{"recipe": "fast", "batch_size": 32, "warmup_steps": 20, **settings}), corpus)
