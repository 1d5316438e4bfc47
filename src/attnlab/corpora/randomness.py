"""Random numbers that are a pure function of a key and a counter, the same on every machine and in every release.

Only the raw words of Philox are used, because numpy guarantees their stream; the output of its `Generator` may change
from release to release. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
WORDS_PER_COUNT = 4  # Philox-4x64 generates four 64-bit words for each value of its counter


def digest(*parts: object) -> str:
    """Return the SHA-256, in hex, of plain values (anything that JSON can hold)."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("ascii")).hexdigest()


def words(key: str, count: int, *, skip: int = 0) -> NDArray[np.uint64]:
    """Return `count` words of the key's stream, after the first `skip` × 4."""
    return np.random.Philox(key=int(digest(key)[:32], 16), counter=skip).random_raw(count)


def sample_words(key: str, first: int, samples: int, each: int) -> NDArray[np.uint64]:
    """Return words for consecutive samples, (samples, each): each has its own, whichever others are asked for."""
    counts = -(-each // WORDS_PER_COUNT)
    block = words(key, samples * counts * WORDS_PER_COUNT, skip=first * counts)
    return block.reshape(samples, counts * WORDS_PER_COUNT)[:, :each]


def below(bound: int, raw: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return integers in [0, bound), for a bound under 2³²."""
    return (((raw >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)


def uniform(raw: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return numbers in the open interval (0, 1)."""
    return ((raw >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def permutation(key: str, size: int) -> NDArray[np.int64]:
    """Return 0 … size − 1 in a random order."""
    return np.argsort(words(key, size), kind="stable").astype(np.int64, copy=False)


class Stream:
    """A sequence of random decisions, for code that builds something piece by piece."""

    def __init__(self, *key: object) -> None:
        self._words = _endless(digest(*key))

    def below(self, bound: int) -> int:
        return ((next(self._words) >> 32) * bound) >> 32

    def chance(self, probability: float) -> bool:
        return next(self._words) < probability * 2.0**64

    def choice(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def weighted(self, options: Sequence[T], cumulative: Sequence[float]) -> T:
        """Draw one of the options, by the running sums of their weights."""
        point = (next(self._words) >> 12) * 2.0**-52 * cumulative[-1]
        return options[min(bisect_right(cumulative, point), len(options) - 1)]

    def sample(self, options: Sequence[T], size: int) -> list[T]:
        """Draw `size` of the options without replacement, in a random order."""
        pool = list(options)
        for place in range(size):
            other = place + self.below(len(pool) - place)
            pool[place], pool[other] = pool[other], pool[place]
        return pool[:size]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        return self.sample(options, len(options))


def _endless(key: str) -> Iterator[int]:
    size = 1024
    block = 0
    while True:
        yield from words(key, size, skip=block * size // WORDS_PER_COUNT).tolist()
        block += 1
