"""One call of an attention layer or of a model: how many sequences, and how long."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from attnlab.attention import AttentionSpec, Visibility, kernel_for
from attnlab.attention.kernels import Kernel
from attnlab.errors import InputError
from attnlab.models import ModelSpec

_TYPES = {2: torch.bfloat16, 4: torch.float32, 8: torch.float64}
MOST_TOKENS = 2**36  # in one batch; far beyond that PyTorch cannot even represent the shapes


@dataclass(frozen=True)
class AttentionCall:
    """A spec at a size. Self-attention with more keys than queries is decoding: all keys but the last are cached."""

    spec: AttentionSpec
    batch: int
    queries: int
    keys: int
    bytes_per_number: int

    def __post_init__(self) -> None:
        for name in ("batch", "queries", "keys"):
            require_count(name, getattr(self, name), least=1)
        spec = self.spec
        _require_type(self.bytes_per_number)
        if spec.source == "self" and self.keys < self.queries:
            raise InputError(
                f"{self.queries} queries of self-attention are keys too, so there cannot be only {self.keys} keys",
                hint=f'give keys={self.queries} or more, or a spec with source="cross"',
            )
        if spec.context_length is not None and self.keys > spec.context_length:
            raise InputError(
                f"a sequence of {self.keys} tokens is longer than the context of {spec.context_length}",
                hint="build the specification with a larger context_length, or cut the sequence",
            )
        if self.decodes and spec.operator is not None and not spec.mask.causal:
            raise InputError(
                f"the operator {spec.operator} decodes only if it is causal",
                hint=f"give queries={self.keys}, or a spec with a causal mask",
            )

    @property
    def decodes(self) -> bool:
        """Return whether there are tokens in the cache. Then there is no backward pass, and nothing is kept for one."""
        return self.spec.source == "self" and self.keys > self.queries

    @property
    def kernel(self) -> Kernel:
        """Return the kernel that serves it; decoding does without dropout of the attention weights."""
        return kernel_for(self.spec, self.visibility, dropout=self.spec.weight_dropout > 0 and not self.decodes)

    @property
    def dtype(self) -> torch.dtype:
        return _TYPES[self.bytes_per_number]

    @property
    def exact(self) -> torch.dtype:
        """Return the dtype of what must not be rounded to half precision: a row's statistics, an operator's state."""
        return _TYPES[max(4, self.bytes_per_number)]

    @property
    def new_keys(self) -> int:
        """Return how many tokens become keys and values in this call."""
        return self.queries if self.decodes else self.keys

    @property
    def visibility(self) -> Visibility:
        """Return the mask in effect. In decoding, a window has dropped the keys that no query can see."""
        held = self.keys
        if self.decodes and self.spec.mask.window is not None:
            held = min(held, (self.spec.mask.first or 0) + self.spec.mask.window - 1 + self.queries)
        return Visibility(self.spec.mask, self.queries, held, held - self.queries if self.decodes else 0)


@dataclass(frozen=True)
class ModelCall:
    """A model at a size: a batch of sequences, and of other sequences for the encoder of an encoder–decoder."""

    spec: ModelSpec
    batch: int
    tokens: int
    source_tokens: int | None
    bytes_per_number: int

    def __post_init__(self) -> None:
        require_count("batch", self.batch, least=1)
        _require_type(self.bytes_per_number)
        pair = self.spec.family == "encoder-decoder"
        if pair is (self.source_tokens is None):
            raise InputError(
                f"a model of the family {self.spec.family} with source_tokens={self.source_tokens!r}",
                hint="give the length of the other sequence" if pair else "leave source_tokens out",
            )
        for name, number in (("tokens", self.tokens), ("source_tokens", self.source_tokens)):
            if number is None:
                continue
            self.require_context(name, number)
            if self.batch * number > MOST_TOKENS:
                fewer = f"batch_size={MOST_TOKENS // number}" if number <= MOST_TOKENS else f"{name}={MOST_TOKENS}"
                raise InputError(
                    f"{self.batch} sequences of {number} {name} are too many to count at once",
                    hint=f"give `{fewer}` or less; costs grow in proportion to the batch",
                )

    def require_context(self, name: str, number: int, least: int = 1) -> None:
        """Refuse a length that the model cannot take."""
        require_count(name, number, least)
        if number > self.spec.context_length:
            raise InputError(
                f"{name} is {number}, more than the context of {self.spec.context_length}",
                hint="give less, or a spec with a longer context_length",
            )

    @property
    def dtype(self) -> torch.dtype:
        return _TYPES[self.bytes_per_number]


def _require_type(bytes_per_number: int) -> None:
    if bytes_per_number not in _TYPES:
        raise InputError(
            f"there is no floating type of {bytes_per_number!r} bytes",
            hint="use 2 for bfloat16, 4 for float32 or 8 for float64",
        )


def require_count(name: str, number: int, least: int) -> None:
    """Refuse a number that is not an integer, or is less than `least`."""
    if type(number) is not int or number < least:
        raise InputError(
            f"{name} is {number!r}, not a whole number from {least} on", hint=f"give {name}={max(1, least)}"
        )
