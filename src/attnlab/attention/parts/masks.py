"""Masks: which keys a query sees.

Every structural mask shows each query one interval of keys, so it is described by the interval's two ends:

    query i sees the keys j with  low(i) ≤ j < high(i)

    causal          0 … i + 1
    bidirectional   0 … number of keys
    prefix P        0 … max(i + 1, P)              the first P tokens see each other, the rest is causal
    window W        i − W + 1 … i + 1              W keys including the query's own; around it if bidirectional

A causal window may also show the first F keys, 0 … F: a second interval, which is the same for all queries.

`Mask` is this description, as part of a specification. `Visibility` applies a mask to sequences of known length, and
combines it with what depends on the data: padding, and any pattern of the caller's own.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch
from pydantic import Field, model_validator
from torch import Tensor

from attnlab.attention.parts.part import Biased, Declared, Number
from attnlab.errors import InputError, SpecError

Position = TypeVar("Position", int, Tensor)


class Mask(Biased):
    """The structural part of a mask: causal or not, an optional window, an optional prefix.

    A subclass with a `bias` is also a soft mask: the bias is the logarithm of how visible a key is.
    """

    family: ClassVar[str] = "mask"
    kind: ClassVar[str] = "interval"
    variants = (
        Declared(
            "window",
            "Each token sees the last quarter of the context, itself included.",
            "Child et al. 2019, arXiv 1904.10509; Beltagy et al. 2020",
            "1.6: the square grid is the bottleneck",
            {"window": lambda context: max(1, context // 4)},
            Number("window", "256", "Each token sees the last {} tokens, itself included."),
        ),
        Declared(
            "sink-window",
            "Each token sees the first 4 tokens and the last quarter of the context, itself included.",
            "Xiao et al. 2023, arXiv 2309.17453",
            "1.6: the square grid is the bottleneck",
            {"window": lambda context: max(1, context // 4), "first": 4},
            Number("window", "256", "Each token sees the first 4 tokens and the last {}, itself included."),
        ),
        Declared(
            "prefix",
            "The first sixteenth of the context sees all of itself; the rest is causal.",
            "Raffel et al. 2019, arXiv 1910.10683",
            "1.5: masking, and not masking",
            {"prefix": lambda context: max(1, context // 16)},
            Number("prefix", "32", "The first {} tokens see each other; the rest is causal."),
        ),
        Declared(
            "bidirectional",
            "Every token sees every token, as in an encoder.",
            "Devlin et al. 2018, arXiv 1810.04805",
            "1.5: bidirectional models do not mask",
            {"causal": False},
        ),
    )

    causal: bool = True
    window: int | None = Field(default=None, ge=1)
    prefix: int | None = Field(default=None, ge=1)
    first: int | None = Field(default=None, ge=1, exclude_if=lambda value: value is None)  # besides a causal window

    @model_validator(mode="after")
    def _possible(self) -> Mask:
        if self.prefix is not None and not self.causal:
            raise SpecError(
                f"a prefix of {self.prefix} means nothing without causality: a bidirectional query sees every key",
                hint="leave out the prefix, or say causal=True",
                nearest=Mask(causal=False, window=self.window),
            )
        if self.prefix is not None and self.window is not None:
            raise SpecError(
                f"a causal window of {self.window} hides what a prefix of {self.prefix} would show",
                hint="leave out the window or the prefix",
                nearest=Mask(prefix=self.prefix),
            )
        if self.first is not None and (self.window is None or not self.causal):
            raise SpecError(
                f"the first {self.first} keys are shown besides a causal window, and this mask has none",
                hint="give a window, or leave out `first`",
                nearest=Mask(causal=self.causal, window=self.window, prefix=self.prefix),
            )
        return self

    def is_idle(self, tokens: int) -> bool:
        """Return whether there is a window that hides nothing in a sequence of this length."""
        if self.window is None:
            return False
        return self.window + (self.first or 0) >= (tokens if self.causal else 2 * tokens - 1)

    def interval(self, position: Position, num_keys: int) -> tuple[Position | int, Position | int]:
        """Return the ends low and high of the keys that the query at this position sees; both grow with the position.

        The first keys, which a causal window may also show, are not included.
        """
        if self.window is not None:
            low = position - (self.window - 1 if self.causal else self.window // 2)
            return _clip(low, 0, num_keys), _clip(low + self.window, 0, num_keys)
        if self.causal:
            return 0, _clip(position + 1, min(self.prefix or 0, num_keys), num_keys)
        return 0, num_keys

    def __str__(self) -> str:
        words = ["causal" if self.causal else "bidirectional"]
        words += [f"window {self.window}"] if self.window else []
        words += [f"prefix {self.prefix}"] if self.prefix else []
        words += [f"first {self.first}"] if self.first else []
        return " × ".join(words)


@dataclass(frozen=True)
class Block:
    """A run of queries with the keys that any of them sees, and what is masked in this rectangle.

    An edge is a range of the rectangle's columns with its pattern (heads or 1, queries, columns): 0 where a query sees
    the key, −∞ where not. Outside the edges everything is visible.
    """

    queries: slice
    keys: slice
    edges: tuple[tuple[slice, Tensor], ...]
    count: Tensor  # (heads or 1, queries, 1): how many keys each query sees
    some_empty: bool  # whether some query sees no key at all

    def hide_(self, scores: Tensor) -> Tensor:
        """Put −∞ where a query does not see the key."""
        for columns, pattern in self.edges:
            scores[:, :, columns].add_(pattern)
        return scores

    def conceal_(self, values: Tensor) -> Tensor:
        """Put 0 where a query does not see the key."""
        for columns, pattern in self.edges:
            values[:, :, columns].masked_fill_(pattern != 0, 0.0)
        return values

    def visible(self) -> Tensor:
        """Return the whole pattern (heads or 1, queries, keys), True where visible."""
        heads = max((pattern.shape[0] for _, pattern in self.edges), default=1)
        shape = (heads, self.queries.stop - self.queries.start, self.keys.stop - self.keys.start)
        whole = torch.ones(shape, dtype=torch.bool, device=self.count.device)
        for columns, pattern in self.edges:
            whole[:, :, columns] &= pattern == 0
        return whole


@dataclass(frozen=True)
class Visibility:
    """A mask for sequences of known length: structure × padding × the caller's own pattern.

    `query_start` is the position of the first query among the keys: 0 for whole sequences, the number of cached tokens
    when decoding.
    """

    mask: Mask
    num_queries: int
    num_keys: int
    query_start: int = 0
    padding: Tensor | None = None  # (batch, keys), True for a real token
    pattern: Tensor | None = None  # (batch or 1, heads or 1, queries, keys), True for visible

    def check(self, batch: int, heads: int) -> None:
        """Refuse a padding or a pattern that does not fit the scores."""
        if self.padding is not None:
            _require_bool("padding", self.padding)
            if self.padding.shape != (batch, self.num_keys):
                raise InputError(
                    f"padding has shape {tuple(self.padding.shape)}, but there are {batch} sequences of "
                    f"{self.num_keys} keys",
                    hint=f"give a mask of shape ({batch}, {self.num_keys}), True for each real token",
                )
        if self.pattern is not None:
            _require_bool("visible", self.pattern)
            wanted = (batch, heads, self.num_queries, self.num_keys)
            shape = self.pattern.shape
            leading = zip(shape[:2], wanted[:2], strict=False)
            if len(shape) != 4 or shape[2:] != wanted[2:] or any(a not in (1, b) for a, b in leading):
                raise InputError(
                    f"visible has shape {tuple(shape)}, but the scores are (batch, heads, queries, keys) = {wanted}",
                    hint="give that shape; batch and heads may be 1",
                )

    @property
    def structural(self) -> bool:
        """Return whether the mask depends on the positions alone."""
        return self.padding is None and self.pattern is None

    @property
    def hides_nothing(self) -> bool:
        ends = self.query_start, self.query_start + self.num_queries - 1
        return self.structural and all(self.mask.interval(end, self.num_keys) == (0, self.num_keys) for end in ends)

    @property
    def plainly_causal(self) -> bool:
        """Return whether the mask is causal between equally long sequences, and nothing else."""
        only_causal = self.mask.causal and self.mask.window is None and self.mask.prefix is None
        return only_causal and self.structural and self.query_start == 0 and self.num_queries == self.num_keys

    @property
    def structure(self) -> Structure:
        return Structure(self.mask, self.num_queries, self.num_keys, self.query_start)

    def counts(self, like: Tensor) -> Tensor:
        """Return how many keys each query sees by the structure alone, (queries, 1)."""
        counts = self.structure.counts()
        return counts[:, None].to(like.device, torch.promote_types(like.dtype, torch.float32))

    def grid(self, device: torch.device | str = "cpu") -> Tensor:
        """Return the whole pattern, (batch or 1, heads or 1, queries, keys), True where a query sees a key."""
        visible = self.structure.between(0, self.num_queries, 0, self.num_keys).to(device)[None, None]
        if self.padding is not None:
            visible = visible & self.padding[:, None, None, :]
        if self.pattern is not None:
            visible = visible & self.pattern
        return visible

    def blocks(self, rows: int, like: Tensor) -> tuple[Block, ...]:
        """Return blocks of `rows` queries by the structure alone, the same for all heads."""
        return _structural_blocks(self.structure, rows, like.dtype, like.device)

    def blocks_of(self, heads: slice, num_heads: int, rows: int, like: Tensor) -> list[Block]:
        """Return blocks of `rows` queries for some of the heads of a batch, counted over batch × heads."""
        which = torch.arange(heads.start, heads.stop, device=like.device)
        sequence, head = which // num_heads, which % num_heads
        return [self._narrowed(block, sequence, head) for block in self.blocks(rows, like)]

    def _narrowed(self, block: Block, sequence: Tensor, head: Tensor) -> Block:
        """Apply padding and pattern to a structural block, for the given (sequence, head) pairs."""
        visible = block.visible()
        if self.padding is not None:
            visible = visible & self.padding[sequence, None, block.keys]
        if self.pattern is not None:
            own = self.pattern[:, :, block.queries, block.keys]
            first = sequence if own.shape[0] > 1 else torch.zeros_like(sequence)
            second = head if own.shape[1] > 1 else torch.zeros_like(head)
            visible = visible & own[first, second]
        count = visible.sum(-1, keepdim=True).to(block.count.dtype)
        edge = (slice(0, block.keys.stop - block.keys.start), _minus_infinity(visible, count.dtype))
        return Block(block.queries, block.keys, (edge,), count, bool((count == 0).any()))


@dataclass(frozen=True)
class Structure:
    """A mask with its lengths: everything that depends only on positions."""

    mask: Mask
    num_queries: int
    num_keys: int
    query_start: int = 0

    def ends(self) -> tuple[Tensor, Tensor]:
        """Return the first key of each query's interval, and the one after the last."""
        positions = torch.arange(self.query_start, self.query_start + self.num_queries)
        low, high = self.mask.interval(positions, self.num_keys)
        return torch.zeros_like(positions) + low, torch.zeros_like(positions) + high

    def counts(self) -> Tensor:
        """Return how many keys each query sees."""
        low, high = self.ends()
        return high - low if self.mask.first is None else high - low + low.clamp(max=self.mask.first)

    def between(self, start: int, stop: int, low: int, high: int) -> Tensor:
        """Return the pattern for the queries start … stop and the keys low … high, True where visible."""
        first, last = (end[start:stop, None] for end in self.ends())
        keys = torch.arange(low, high)
        return ((keys >= first) | (keys < (self.mask.first or 0))) & (keys < last)

    def num_visible(self) -> int:
        """Return how many (query, key) pairs are visible, in constant time for any length."""
        mask, first, keys = self.mask, self.query_start, self.num_keys
        if mask.window is not None:
            low = first - (mask.window - 1 if mask.causal else mask.window // 2)
            seen = _sum_clipped(low + mask.window, self.num_queries, 0, keys)
            besides = _sum_clipped(low, self.num_queries, 0, min(mask.first or 0, keys))
            return seen - _sum_clipped(low, self.num_queries, 0, keys) + besides
        if not mask.causal:
            return self.num_queries * keys
        return _sum_clipped(first + 1, self.num_queries, min(mask.prefix or 0, keys), keys)


@functools.lru_cache(maxsize=16)
def _structural_blocks(structure: Structure, rows: int, dtype: torch.dtype, device: torch.device) -> tuple[Block, ...]:
    """Return blocks of `rows` queries. Cached, because every training step needs the same ones."""
    low, high = structure.ends()
    counts = structure.counts()
    blocks = []
    for start in range(0, structure.num_queries, rows):
        stop = min(start + rows, structure.num_queries)
        begin, end = 0 if structure.mask.first else int(low[start]), int(high[stop - 1])
        sure_from, sure_to = int(low[stop - 1]), int(high[start])  # what every query of the run sees
        ranges = [(begin, sure_from), (sure_to, end)] if sure_from < sure_to else [(begin, end)]
        edges = []
        for a, b in ranges:
            if b > a:
                visible = structure.between(start, stop, a, b)
                edges.append((slice(a - begin, b - begin), _minus_infinity(visible, dtype).to(device)[None]))
        count = counts[start:stop]
        some_empty = bool((count == 0).any())
        count = count.to(device, dtype)[None, :, None]
        blocks.append(Block(slice(start, stop), slice(begin, end), tuple(edges), count, some_empty))
    return tuple(blocks)


def _minus_infinity(visible: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(~visible, float("-inf"))


def _clip(number: Position, low: int, high: int) -> Position:
    if isinstance(number, Tensor):
        return number.clamp(low, high)
    return min(max(number, low), high)


def _sum_clipped(first: int, count: int, low: int, high: int) -> int:
    """Return the sum of `count` consecutive numbers from `first` on, each clipped to low … high."""
    last = first + count - 1
    below, above = (min(count, max(0, number)) for number in (low - first, last - high))
    between = count - below - above  # numbers from first + below on, which are not clipped
    return below * low + above * high + between * (2 * (first + below) + between - 1) // 2


def _require_bool(name: str, tensor: Tensor) -> None:
    if tensor.dtype != torch.bool:
        raise InputError(
            f"{name} is of type {tensor.dtype}, not bool", hint=f"{name} = {name}.bool(), True for visible"
        )
