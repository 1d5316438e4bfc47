"""The text of a retrofit, in the tokens of the model: for fitting, evaluation and healing.

A run has its own text. For a model that was trained elsewhere, or if a text is named, the text is encoded with the
model's tokenizer; the default is Python's documentation. Layers are fitted and healed on the first part, and evaluated
on the last, which is held out.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from attnlab.corpora import IGNORED, Batch, Corpus, CorpusSpec, TextCorpus, Tokens, open_corpus
from attnlab.corpora.sources import TextSource
from attnlab.corpora.tokens import dtype_for
from attnlab.errors import SpecError
from attnlab.lens.subjects import Subject
from attnlab.models import LanguageModel
from attnlab.models.loss import token_losses

_MOST_TOKENS = 4_000_000  # read from a text
_LETTERS = 1 << 20  # tokens of Python's documentation that are decoded at a time


def open_text(subject: Subject, text: str | None, cache: Path | None = None) -> Corpus:
    """Return the text of a retrofit: that of the run, or a named one in the tokens of the model."""
    if text is None and subject.run is not None:
        return subject.corpus(cache)
    tokenizer = subject.known_tokenizer()
    pieces, read = [], 0
    for piece in _pieces(text, cache):
        encoded = tokenizer.encode_array(piece).astype(dtype_for(tokenizer.vocabulary_size))
        pieces.append(encoded)
        read += encoded.size
        if read >= _MOST_TOKENS:
            break
    tokens = np.concatenate(pieces)
    spec = CorpusSpec(name=text or "pydoc")
    return TextCorpus(spec, tokenizer, Tokens([tokens]), hashlib.sha256(tokens.tobytes()).hexdigest())


def _pieces(text: str | None, cache: Path | None) -> list[str]:
    if text is not None:
        return list(TextSource.find(Path(text)).chunks())
    corpus = open_corpus(CorpusSpec(), cache)
    assert isinstance(corpus, TextCorpus)
    return [
        corpus.tokenizer.decode(part[start : start + _LETTERS])
        for part in (corpus.train, corpus.validation)
        for start in range(0, len(part), _LETTERS)
    ]


def fitting_rows(corpus: Corpus, rows: int, length: int) -> Tensor:
    """Return rows of the training text (rows, tokens), on which layers are fitted."""
    return corpus.batch(seed=0, step=0, batch_size=rows, context_length=length).inputs


def judging_rows(corpus: Corpus, rows: int, length: int) -> Batch:
    """Return rows of the text that is held out, as many as are wanted."""
    batches = [*corpus.validation_batches(batch_size=rows, context_length=length, limit=rows)]
    found = Batch(torch.cat([one.inputs for one in batches]), torch.cat([one.targets for one in batches]))
    if len(found.inputs) < 2:
        raise SpecError(
            f"the held-out text has {corpus.validation_tokens} tokens, too few for two texts of {length}",
            hint="give a longer text, or shorter texts by `length`",
        )
    return found


def row_losses(model: LanguageModel, hidden: Tensor, targets: Tensor) -> list[float]:
    """Return the loss of each row in nats per token, from what the head reads, (rows, tokens, model width)."""
    wanted = model.asked(targets)
    losses = token_losses(hidden.flatten(0, 1), model.head_weight, wanted.flatten()).view(wanted.shape)
    found: list[float] = (losses.sum(1) / (wanted != IGNORED).sum(1)).tolist()
    return found


@torch.no_grad()
def text_losses(model: LanguageModel, texts: Batch, at_once: int = 8) -> list[float]:
    """Return the loss of each text in nats per token."""
    found: list[float] = []
    for start in range(0, len(texts.inputs), at_once):
        rows = slice(start, start + at_once)
        found += row_losses(model, model.hidden(texts.inputs[rows]), texts.targets[rows])
    return found
