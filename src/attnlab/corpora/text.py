"""A corpus of text: tokens in the cache, the last part held out for validation, and windows of it as batches.

`bigram_loss` is the loss of a model that sees only the previous token:

    p(b | a) = (count(a b) + k · p(b)) / (count(a) + k)        for the k that fits the held-out text best

A model whose loss is not clearly below it has not learned to use attention yet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attnlab.corpora.batches import Batch, Corpus, check_sizes, spread
from attnlab.corpora.cache import CorpusCache
from attnlab.corpora.randomness import below, digest, permutation, words
from attnlab.corpora.sources import TextSource
from attnlab.corpora.spec import DEFAULT_BPE, GPT2, RUN, CorpusSpec
from attnlab.corpora.tokenizer import (
    WORD,
    BpeTokenizer,
    ByteTokenizer,
    CharTokenizer,
    Gpt2Tokenizer,
    Tokenizer,
    WordTokenizer,
    utf8,
)
from attnlab.corpora.tokens import Tokens, dtype_for, write_shards
from attnlab.errors import FileError, SpecError
from attnlab.storage.records import read_json

_MEASURED_TOKENS = 1 << 20  # of the validation text, for measuring the bytes per token
VERSION = 1  # of the tokenization; part of the cache key
_KEPT = 4  # epochs whose order is cached: a batch may span two, and there may be two readers


class WindowOrder:
    """The windows of a text that each step reads: epochs without replacement, a pure function of the text's hash.

    Sample i = step × batch size + row belongs to epoch i // W, where W is the number of windows in an epoch. Each epoch
    draws its own offset of the windows, so that over time every token appears at every position, and its own order.
    """

    def __init__(self, corpus_hash: str, tokens: int) -> None:
        self._hash = corpus_hash
        self._tokens = tokens
        self._epochs: dict[tuple[int, int, int], NDArray[np.int64]] = {}

    def windows(self, context_length: int) -> int:
        """Return how many windows an epoch has: all that fit at any phase, at least 1. Targets need one token more."""
        return max(1, (self._tokens - context_length) // context_length)

    def starts(self, samples: NDArray[np.int64], seed: int, context_length: int) -> NDArray[np.int64]:
        """Return where the window of each sample begins."""
        epochs, places = np.divmod(samples, self.windows(context_length))
        starts = np.empty_like(samples)
        for epoch in np.unique(epochs).tolist():
            chosen = epochs == epoch
            starts[chosen] = self._epoch(seed, epoch, context_length)[places[chosen]]
        return starts

    def _epoch(self, seed: int, epoch: int, context_length: int) -> NDArray[np.int64]:
        """Return the starts of all windows of an epoch, in its order."""
        name = (seed, epoch, context_length)
        starts = self._epochs.get(name)
        if starts is None:
            key = digest(self._hash, "order", int(seed), epoch)
            windows = self.windows(context_length)
            phases = min(context_length, self._tokens - windows * context_length)
            phase = below(phases, words(digest(key, "phase"), 1))
            starts = phase + permutation(key, windows) * context_length
            self._epochs[name] = starts
            if len(self._epochs) > _KEPT:
                self._epochs.pop(next(iter(self._epochs)), None)
        return starts


class TextCorpus(Corpus):
    """A corpus of text. `train` and `validation` are its tokens, memory-mapped and read-only."""

    def __init__(
        self, spec: CorpusSpec, tokenizer: Tokenizer, tokens: Tokens, content: str, split: int | None = None
    ) -> None:
        """Validate on the tokens from `split` on, by default the last share; `content` is a hash of the tokens."""
        self.spec = spec
        self.tokenizer = tokenizer
        if split is None:
            split = int(len(tokens) * (1 - spec.validation_share))
        self.train = tokens.part(0, split)
        self.validation = tokens.part(split, len(tokens))
        self.hash = digest("text", content, tokenizer.to_json(), split)
        self._order = WindowOrder(self.hash, split)

    @classmethod
    def open(cls, spec: CorpusSpec, source: TextSource, cache: CorpusCache) -> TextCorpus:
        """Take the tokens of this text from the cache, where they are put first if need be."""
        ready = _ready_tokenizer(spec)
        how = spec.tokenizer if ready is None else digest(ready.to_json())
        content = source.hash()
        size = spec.vocabulary_size or DEFAULT_BPE

        def build(folder: Path) -> dict[str, object]:
            tokenizer = ready if ready is not None else _make_tokenizer(spec.tokenizer, source, size)
            dtype = dtype_for(tokenizer.vocabulary_size)
            lengths = [0] * len(source.parts())
            counts = write_shards(folder, _encode(source, tokenizer, content, lengths), dtype)
            if not counts:
                raise FileError(f"{source.name} has no tokens", hint=f"check the tokenizer {spec.tokenizer}")
            split = {"split": lengths[0]} if source.held_out else {}
            about = {"counts": counts, "dtype": dtype.str, "tokenizer": tokenizer.to_json(), "text": content}
            return {**about, **split}

        parts = [part.hash() for part in source.parts()[:-1]]  # the split of the same text depends on the source
        key = digest("tokens", VERSION, content, how, size if spec.tokenizer == "bpe" else None, *parts)
        entry = cache.entry(key, build)
        tokenizer = ready if ready is not None else Tokenizer.from_json(entry.about["tokenizer"])
        tokens = Tokens.open(entry.folder, entry.about["counts"], np.dtype(entry.about["dtype"]))
        hashed = digest(entry.about["dtype"], [entry.hashes[name] for name in sorted(entry.hashes)])
        return cls(spec, tokenizer, tokens, hashed, entry.about.get("split"))

    @property
    def training_tokens(self) -> int:
        return len(self.train)

    @property
    def validation_tokens(self) -> int:
        return len(self.validation)

    @cached_property
    def bytes_per_token(self) -> float | None:
        sample = self.validation[:_MEASURED_TOKENS]
        return len(utf8(self.tokenizer.decode(sample.tolist()))) / len(sample) if len(sample) else None

    def batch(self, *, seed: int, step: int, batch_size: int, context_length: int, rows: slice = slice(None)) -> Batch:
        check_sizes(batch_size=batch_size, context_length=context_length, step=step)
        self._check(len(self.train), "train", context_length, "give more text")
        samples = step * batch_size + np.arange(batch_size, dtype=np.int64)[rows]
        return _windows(self.train, self._order.starts(samples, seed, context_length), context_length)

    def validation_batches(self, *, batch_size: int, context_length: int, limit: int | None = None) -> Iterator[Batch]:
        check_sizes(batch_size=batch_size, context_length=context_length, limit=limit)
        hint = f"raise validation_share, which is {self.spec.validation_share}"
        self._check(len(self.validation), "validate", context_length, hint)
        count = (len(self.validation) - 1) // context_length
        starts = np.array(spread(count, limit), dtype=np.int64) * context_length
        return (
            _windows(self.validation, starts[first : first + batch_size], context_length)
            for first in range(0, starts.size, batch_size)
        )

    def _check(self, tokens: int, use: str, context_length: int, hint: str) -> None:
        """Refuse a context that the text is too short for."""
        if tokens <= context_length:
            raise SpecError(
                f"{self.spec.name} has {tokens} tokens to {use} on, too few for a context of {context_length}",
                hint=f"use a context of at most {tokens - 1}, or {hint}" if tokens > 1 else hint,
            )


def _windows(tokens: Tokens, starts: NDArray[np.int64], context_length: int) -> Batch:
    windows = torch.from_numpy(tokens.gather(starts, context_length + 1))
    return Batch(windows[:, :-1].contiguous(), windows[:, 1:].contiguous())


def _ready_tokenizer(spec: CorpusSpec) -> Tokenizer | None:
    """Return the tokenizer of a spec if it does not depend on the text, else None."""
    if spec.tokenizer == "byte":
        return ByteTokenizer()
    if spec.tokenizer.startswith(GPT2):
        return Gpt2Tokenizer.from_folder(Path(spec.tokenizer.removeprefix(GPT2)).expanduser())
    if spec.tokenizer.startswith(RUN):
        return _tokenizer_of_run(Path(spec.tokenizer.removeprefix(RUN)).expanduser() / "tokenizer.json")
    return None


def _tokenizer_of_run(path: Path) -> Tokenizer:
    text = read_json(path).get("tokenizer")
    if not isinstance(text, str):
        raise FileError(f"{path} holds no tokenizer of a run", hint="name the folder of a run, as in run:FOLDER")
    return Tokenizer.from_json(text)


def _make_tokenizer(kind: str, source: TextSource, vocabulary_size: int) -> Tokenizer:
    if kind == "char":
        return CharTokenizer(set().union(*(set(text) for text in source.texts())))
    if kind == "word":
        return WordTokenizer(sorted(set().union(*(set(WORD.findall(chunk)) for chunk in source.chunks()))))
    return BpeTokenizer.train(source.chunks(), vocabulary_size)


def _encode(source: TextSource, tokenizer: Tokenizer, content: str, lengths: list[int]) -> Iterator[NDArray[Any]]:
    """Yield the tokens of a text, piece by piece, and count those of each part into `lengths`.

    Raise if a file changes in the meantime.
    """
    total = hashlib.sha256()
    for number, part in enumerate(source.parts()):
        pieces = part.blocks() if isinstance(tokenizer, ByteTokenizer) else part.chunks()
        for piece in pieces:
            raw = piece if isinstance(piece, bytes) else piece.encode("utf-8")
            tokens = np.frombuffer(raw, dtype=np.uint8) if piece is raw else tokenizer.encode_array(str(piece))
            total.update(raw)
            lengths[number] += tokens.size
            yield tokens
    if total.hexdigest() != content:
        raise FileError(f"{source.name} changed while it was read", hint="wait until nothing writes to it")


_LARGEST = 4096  # tokens in the vocabulary; the table has the square of this number of entries
_STRETCH = 1 << 22  # tokens at a time
_STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)


def bigram_loss(corpus: Corpus, context_length: int, rows: int | None = None) -> float | None:
    """Return the loss of a bigram model in nats on the validation rows that a model with this context is judged by.

    Parameters
    ----------
    corpus
        The corpus.
    context_length
        The number of tokens per row.
    rows
        The number of rows; None takes all rows that a run is judged by.

    Returns
    -------
    float | None
        None if the corpus has no bigram model.
    """
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
    """Return how often each token is followed by each, (vocabulary, vocabulary)."""
    size, counts = corpus.vocabulary_size, np.zeros(corpus.vocabulary_size**2)
    for start in range(0, len(corpus.train) - 1, _STRETCH):
        tokens = np.asarray(corpus.train[start : start + _STRETCH + 1], dtype=np.int64)
        counts += np.bincount(tokens[:-1] * size + tokens[1:], minlength=size * size)
    return counts.reshape(size, size)
