"""The texts on which a model is asked what its heads do: two rows or more, whatever text is shown on the page.

A run is asked on its own validation rows, unless `on` names a text file. A model without a run, such as a GPT-2 folder,
is asked on Python's documentation, which every Python brings along, in its own tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from attnlab.corpora import Batch, CorpusSpec, Tokenizer, open_corpus
from attnlab.corpora.sources import TextSource
from attnlab.errors import InputError
from attnlab.lens.maps.attention_maps import places
from attnlab.lens.maps.run_measures import corpus_of_run
from attnlab.lens.subjects import Subject
from attnlab.models import LanguageModel

MOST_LENGTH = 512  # tokens of a row
MOST_ROWS = 32
_FEWEST_TOKENS = 4  # of a row that can repeat anything
_MOST_WEIGHTS = 80_000_000  # of all heads on all rows, which together take some seconds
_LETTERS = 8  # of Python's documentation for each token that is wanted


@dataclass(frozen=True, eq=False)
class Texts:
    """Some rows, and what they are, in words."""

    batch: Batch
    words: str


def find_texts(
    subject: Subject, *, on: Path | None = None, rows: int | None = None, cache: Path | None = None
) -> Texts:
    """The rows for this model: as many as its size allows, or `rows`."""
    length = min(subject.model.spec.context_length, MOST_LENGTH)
    rows = rows or rows_for(subject.model, length)
    if rows < 2:
        raise InputError(f"{rows} texts are too few for an interval", hint="use two or more")
    if on is None and subject.run is not None:
        path, loaded = subject.run
        corpus = corpus_of_run(path, loaded.record, cache)
        batch = next(iter(corpus.validation_batches(batch_size=rows, context_length=length, limit=rows)))
        return _checked(batch, f"validation rows of {corpus.spec.name}")
    if subject.model.encoder is not None:
        raise InputError("an encoder–decoder needs pairs of texts", hint="look at a run, which knows its own")
    if subject.tokenizer is None:
        raise InputError("without a tokenizer no text can be read", hint="give tokenizer=…")
    if on is None:
        return _checked(_of_python(subject.tokenizer, rows, length, cache), "rows of Python's documentation")
    return _checked(_of_file(subject.tokenizer, on, rows, length), f"rows of {on.name}")


def rows_for(model: LanguageModel, length: int) -> int:
    """How many rows of this length are read without taking long."""
    specs = (*model.spec.attention, *model.spec.encoder_attention, *model.spec.cross_attention)
    weights = sum(spec.num_heads for spec in specs) * len(places(model)) * length**2
    return max(2, min(MOST_ROWS, _MOST_WEIGHTS // weights))


def _checked(batch: Batch, words: str) -> Texts:
    count, length = batch.inputs.shape
    if count < 2 or length < _FEWEST_TOKENS:
        raise InputError(
            f"{count} texts of {length} tokens are too few to say what heads do",
            hint=f"two of {_FEWEST_TOKENS} tokens are the least: give a longer text by --on FILE",
        )
    return Texts(batch, f"{count} {words}, {length} tokens each")


def _of_python(tokenizer: Tokenizer, rows: int, length: int, cache: Path | None) -> Batch:
    corpus = open_corpus(CorpusSpec(name="pydoc", tokenizer="char"), cache)
    letters = next(iter(corpus.validation_batches(batch_size=rows, context_length=_LETTERS * length, limit=rows)))
    found = [tokenizer.encode(corpus.tokenizer.decode(row.tolist())) for row in letters.inputs]
    shortest = min(length + 1, *(len(row) for row in found))
    return _shifted(torch.tensor([row[:shortest] for row in found]))


def _of_file(tokenizer: Tokenizer, path: Path, rows: int, length: int) -> Batch:
    tokens: list[int] = []
    for chunk in TextSource.find(path).chunks():
        tokens += tokenizer.encode(chunk)
        if len(tokens) > rows * (length + 1):
            break
    length = min(length + 1, len(tokens) // 2)
    count = min(rows, len(tokens) // length) if length else 0
    return _shifted(torch.tensor(tokens[: count * length]).view(count, length))


def _shifted(tokens: torch.Tensor) -> Batch:
    return Batch(tokens[:, :-1], tokens[:, 1:])
