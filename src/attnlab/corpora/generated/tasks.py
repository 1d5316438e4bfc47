"""The base of the tasks: examples made on the spot, each from its own stretch of a random stream, without end.

Example i of a seed is row i − step × batch size of its step. Validation examples come from a stream of their own.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from attnlab.corpora.batches import Batch, Corpus, check_sizes, spread
from attnlab.corpora.randomness import digest, sample_words
from attnlab.corpora.spec import CorpusSpec
from attnlab.corpora.tokenizer import SymbolTokenizer


class TaskCorpus(Corpus):
    """A task says how many random words an example takes, and makes examples of them."""

    def __init__(self, spec: CorpusSpec, version: int, symbols: Sequence[str], validation_examples: int) -> None:
        self.spec = spec
        self.tokenizer = SymbolTokenizer(symbols)
        self.validation_examples = validation_examples
        self.hash = digest(spec.name, version, list(symbols), spec.parsed_options.model_dump(), spec.seed)

    @abstractmethod
    def words_needed(self, context_length: int) -> int:
        """How many random words an example takes; refuses a context that is too short."""

    @abstractmethod
    def examples(self, words: NDArray[np.uint64], context_length: int) -> Batch:
        """An example for each row of random words."""

    @property
    def training_tokens(self) -> int:
        return sys.maxsize

    def batch(self, *, seed: int, step: int, batch_size: int, context_length: int, rows: slice = slice(None)) -> Batch:
        check_sizes(batch_size=batch_size, context_length=context_length, step=step)
        wanted = range(batch_size)[rows]
        key = digest(self.hash, "training", int(seed))
        first = min(wanted, default=0)
        each = self.words_needed(context_length)
        words = sample_words(key, step * batch_size + first, max(wanted, default=-1) - first + 1, each)
        return self.examples(words[[row - first for row in wanted]], context_length)

    def validation_batches(self, *, batch_size: int, context_length: int, limit: int | None = None) -> Iterator[Batch]:
        check_sizes(batch_size=batch_size, context_length=context_length, limit=limit)
        each = self.words_needed(context_length)
        chosen = spread(self.validation_examples, limit)
        return (
            self.examples(self._validation_words(chosen[first : first + batch_size], each), context_length)
            for first in range(0, len(chosen), batch_size)
        )

    def _validation_words(self, numbers: list[int], each: int) -> NDArray[np.uint64]:
        key = digest(self.hash, "validation")
        words = sample_words(key, numbers[0], numbers[-1] - numbers[0] + 1, each)
        return words[[number - numbers[0] for number in numbers]]


def tensor(values: NDArray[np.int64]) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values))


def draws(words: NDArray[np.uint64]) -> Callable[[int], int]:
    """Return a function that makes of each random word in turn a number below its argument."""
    numbers = iter(words.tolist())

    def draw(bound: int) -> int:
        word: int = next(numbers)
        return ((word >> 32) * bound) >> 32

    return draw
