"""The contract between whatever makes batches and whatever trains on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from attnlab.errors import SpecError

if TYPE_CHECKING:
    from attnlab.corpora.spec import CorpusSpec
    from attnlab.corpora.tokenizer import Tokenizer

IGNORED = -100  # a target that no loss counts, as in torch.nn.functional.cross_entropy


class Batch(NamedTuple):
    """Rows to learn from: `targets[row, i]` is what follows `inputs[row, : i + 1]`, or IGNORED."""

    inputs: Tensor  # (rows, context), int64
    targets: Tensor  # (rows, context), int64
    source: Tensor | None = None  # (rows, source length), int64: what an encoder reads
    source_padding: Tensor | None = None  # (rows, source length), bool: True for real tokens


class Corpus(ABC):
    """Something to train on. A batch is a pure function of the corpus's hash, the seed and the step."""

    spec: CorpusSpec
    hash: str  # SHA-256 of what it holds, wherever that lies
    tokenizer: Tokenizer

    @property
    def vocabulary_size(self) -> int:
        return self.tokenizer.vocabulary_size

    @property
    @abstractmethod
    def training_tokens(self) -> int:
        """How many tokens there are to learn from; for an endless task, more than anybody reads."""

    @property
    @abstractmethod
    def validation_tokens(self) -> int:
        """How many tokens are held back; for a task, how many targets its validation examples have."""

    @abstractmethod
    def batch(self, *, seed: int, step: int, batch_size: int, context_length: int, rows: slice = slice(None)) -> Batch:
        """The batch of a step, or some rows of it.

        `batch_size` is that of all processes together: which rows a process asks for does not change what they hold.
        """

    @abstractmethod
    def validation_batches(self, *, batch_size: int, context_length: int, limit: int | None = None) -> Iterator[Batch]:
        """The same batches every time, in order; the last may be smaller. At most `limit` rows, evenly spread."""

    @property
    def bytes_per_token(self) -> float | None:
        """The mean number of UTF-8 bytes of a validation token; None for a task, which is not text."""
        return None

    def tokens_per_step(self, batch_size: int, context_length: int) -> float:
        """Tokens of an average batch, pads included: what its time is proportional to."""
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
    """0 … count − 1, or `limit` of them at even distances."""
    if limit is None or limit >= count:
        return list(range(count))
    return [place * count // limit for place in range(limit)]
