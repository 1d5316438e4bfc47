"""A corpus of rows of different lengths and kinds, for the training engine.

An epoch takes every row of every source `repeats` times. Rows of similar length are batched together to keep padding
small, and a batch is padded only to its own longest row. Each batch is a pure function of the corpus's content, the
seed and the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from attnlab.corpora import IGNORED, Batch, Corpus, CorpusSpec
from attnlab.corpora.batches import check_sizes, spread
from attnlab.corpora.randomness import digest, permutation, uniform, words
from attnlab.errors import SpecError
from attnlab.knowledge.codec import Codec, Row
from attnlab.knowledge.training.sources import WORDS, Source

_KEPT = 2  # epochs whose order is cached
_JITTER = 3.0  # tokens: rows that differ by less are mixed


class _Piece(NamedTuple):
    """A batch of an epoch."""

    source: int
    numbers: list[int]
    repeat: int


class RowCorpus(Corpus):
    """Sources of training rows, and rows for the validation loss only."""

    def __init__(
        self, name: str, codec: Codec, sources: Sequence[Source], validation: Sequence[Row], *, bucketed: bool = True
    ) -> None:
        self.spec = CorpusSpec(name=name)
        self.codec, self.tokenizer = codec, codec.tokenizer
        self._sources = [source for source in sources if source.count]
        self._validation, self._bucketed = list(validation), bucketed
        if not self._sources:
            raise SpecError("there is nothing to learn from", hint="give a text, or pairs")
        held = [source.content() for source in self._sources]
        self.hash = digest(name, held, [list(row.tokens) for row in validation], bucketed, codec.tokenizer.to_json())
        self._epochs: dict[tuple[int, int, int], list[_Piece]] = {}

    @property
    def training_tokens(self) -> int:
        pieces = (_Piece(number, list(range(source.count)), 0) for number, source in enumerate(self._sources))
        return sum(len(row.tokens) for piece in pieces for row in self._rows(piece, 0, 0))

    @property
    def validation_tokens(self) -> int:
        return sum(len(row.tokens) - max(1, row.first) for row in self._validation)

    def steps_per_epoch(self, batch_size: int) -> int:
        """Return how many batches an epoch has."""
        return sum(source.repeats * -(-source.count // batch_size) for source in self._sources)

    def tokens_per_step(self, batch_size: int, context_length: int) -> float:
        pieces = self._pieces(0, 0, batch_size)
        return sum(self._fill(self._rows(piece, 0, 0))[0][:, :context_length].numel() for piece in pieces) / len(pieces)

    def batch(self, *, seed: int, step: int, batch_size: int, context_length: int, rows: slice = slice(None)) -> Batch:
        check_sizes(batch_size=batch_size, context_length=context_length, step=step)
        epoch, number = divmod(step, self.steps_per_epoch(batch_size))
        piece = self._pieces(seed, epoch, batch_size)[number]
        inputs, targets = self._fill(self._rows(piece, seed, epoch))
        return Batch(inputs[rows, :context_length], targets[rows, :context_length])

    def validation_batches(self, *, batch_size: int, context_length: int, limit: int | None = None) -> Iterator[Batch]:
        check_sizes(batch_size=batch_size, context_length=context_length, limit=limit)
        ordered = sorted(self._validation, key=lambda row: (len(row.tokens), row.tokens))
        chosen = [ordered[number] for number in spread(len(ordered), limit)]
        for first in range(0, len(chosen), batch_size):
            yield Batch(*self._fill(chosen[first : first + batch_size]))

    def _random(self, source: int, seed: int, epoch: int, repeat: int) -> NDArray[np.uint64]:
        """Return the random words of every row of a source, (rows, WORDS)."""
        count = self._sources[source].count
        key = digest(self.hash, "rows", int(seed), epoch, source, repeat)
        return words(key, count * WORDS).reshape(count, WORDS)

    def _pieces(self, seed: int, epoch: int, batch_size: int) -> list[_Piece]:
        """Return the batches of an epoch, in its order."""
        name = (int(seed), epoch, batch_size)
        pieces = self._epochs.get(name)
        if pieces is None:
            pieces = [
                _Piece(source, numbers, repeat)
                for source in range(len(self._sources))
                for repeat in range(self._sources[source].repeats)
                for numbers in self._cut(source, int(seed), epoch, repeat, batch_size)
            ]
            order = permutation(digest(self.hash, "pieces", int(seed), epoch), len(pieces))
            pieces = [pieces[number] for number in order.tolist()]
            self._epochs[name] = pieces
            if len(self._epochs) > _KEPT:
                self._epochs.pop(next(iter(self._epochs)))
        return pieces

    def _cut(self, source: int, seed: int, epoch: int, repeat: int, batch_size: int) -> list[list[int]]:
        """Divide the rows of a source into batches: of similar lengths if bucketed, else at random."""
        held = self._sources[source]
        key = digest(self.hash, "order", seed, epoch, source, repeat)
        order = permutation(key, held.count)
        if self._bucketed:
            rows = self._rows(_Piece(source, list(range(held.count)), repeat), seed, epoch)
            lengths = np.array([len(row.tokens) for row in rows])
            near = lengths + _JITTER * uniform(words(digest(key, "jitter"), held.count))
            order = np.argsort(near, kind="stable")
        return [order[first : first + batch_size].tolist() for first in range(0, held.count, batch_size)]

    def _rows(self, piece: _Piece, seed: int, epoch: int) -> list[Row]:
        random = self._random(piece.source, seed, epoch, piece.repeat)
        return [self._sources[piece.source].make(number, random[number]) for number in piece.numbers]

    def _fill(self, rows: Sequence[Row]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return padded inputs and targets, (rows, longest)."""
        longest = max(len(row.tokens) for row in rows) - 1
        inputs = np.full((len(rows), max(1, longest)), self.codec.pad, dtype=np.int64)
        targets = np.full_like(inputs, IGNORED)
        for place, row in enumerate(rows):
            count = len(row.tokens) - 1
            inputs[place, :count] = row.tokens[:-1]
            first = max(0, row.first - 1)
            targets[place, first:count] = row.tokens[1 + first :]
        return torch.from_numpy(inputs), torch.from_numpy(targets)
