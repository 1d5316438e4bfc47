"""Batches, the interface of a corpus, and the base of the tasks.

A task generates an endless sequence of examples on the fly, each from its own section of a random stream. Example i of
a seed is row i − step × batch size of its step. Validation examples come from a separate stream.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlab.corpora.randomness import digest, sample_words
from attnlab.corpora.spec import CorpusSpec
from attnlab.corpora.tokenizer import SymbolTokenizer, Tokenizer
from attnlab.errors import SpecError

IGNORED = -100  # a target that the loss ignores, as in torch.nn.functional.cross_entropy


class Batch(NamedTuple):
    """A training batch: `targets[row, i]` is the token that follows `inputs[row, : i + 1]`, or IGNORED."""

    inputs: Tensor  # (rows, context), int64
    targets: Tensor  # (rows, context), int64
    source: Tensor | None = None  # (rows, source length), int64: the encoder's input
    source_padding: Tensor | None = None  # (rows, source length), bool: True for real tokens


class Corpus(ABC):
    """Training and validation data. A batch is a pure function of the corpus's hash, the seed and the step."""

    spec: CorpusSpec
    hash: str  # SHA-256 of the content, independent of its path
    tokenizer: Tokenizer

    @property
    def vocabulary_size(self) -> int:
        return self.tokenizer.vocabulary_size

    @property
    @abstractmethod
    def training_tokens(self) -> int:
        """Return the number of training tokens; for an endless task, more than any run reads."""

    @property
    @abstractmethod
    def validation_tokens(self) -> int:
        """Return the number of validation tokens; for a task, the number of targets in its validation examples."""

    @abstractmethod
    def batch(self, *, seed: int, step: int, batch_size: int, context_length: int, rows: slice = slice(None)) -> Batch:
        """Return the batch of a step, or some rows of it.

        `batch_size` is the total over all processes: the content of a row does not depend on which process requests it.
        """

    @abstractmethod
    def validation_batches(self, *, batch_size: int, context_length: int, limit: int | None = None) -> Iterator[Batch]:
        """Yield the same batches every time, in order; the last may be smaller. At most `limit` rows, evenly spread."""

    @property
    def bytes_per_token(self) -> float | None:
        """The mean number of UTF-8 bytes of a validation token; None for a task, which is not text."""
        return None

    def tokens_per_step(self, batch_size: int, context_length: int) -> float:
        """Return the tokens of an average batch, pads included; the time of a step is proportional to them."""
        return float(batch_size * context_length)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.spec.name!r}, {self.vocabulary_size} symbols, {self.hash[:12]}>"


def check_sizes(*, batch_size: int, context_length: int, step: int = 0, limit: int | None = None) -> None:
    """Refuse what no corpus can serve."""
    for name, value, least in (
        ("batch_size", batch_size, 1),
        ("context_length", context_length, 1),
        ("step", step, 0),
        ("limit", 1 if limit is None else limit, 1),
    ):
        if value < least:
            raise SpecError(f"{name} is {value}", hint=f"use {least} or more")


def spread(count: int, limit: int | None) -> list[int]:
    """Return 0 … count − 1, or `limit` of them at even distances."""
    if limit is None or limit >= count:
        return list(range(count))
    return [place * count // limit for place in range(limit)]


# Tasks


class TaskCorpus(Corpus):
    """Base of the tasks: a subclass says how many random words an example needs, and generates examples from them."""

    def __init__(self, spec: CorpusSpec, version: int, symbols: Sequence[str], validation_examples: int) -> None:
        self.spec = spec
        self.tokenizer = SymbolTokenizer(symbols)
        self.validation_examples = validation_examples
        self.hash = digest(spec.name, version, list(symbols), spec.parsed_options.model_dump(), spec.seed)

    @abstractmethod
    def words_needed(self, context_length: int) -> int:
        """Return how many random words an example takes; refuse a context that is too short."""

    @abstractmethod
    def examples(self, words: NDArray[np.uint64], context_length: int) -> Batch:
        """Make an example from each row of random words."""

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
