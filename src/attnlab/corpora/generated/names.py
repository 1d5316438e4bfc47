"""Invented names of people and places, put together from syllables.

No name of a kind begins another one of its kind, so that a text with "Bera Dolock" speaks of that person.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import product

from attnlab.corpora.randomness import Stream

SINGLE = ["b", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v"]
DOUBLE = ["br", "dr", "fl", "gr", "kl", "pr", "sh", "st", "tr"]
ONSETS = [*SINGLE, *DOUBLE]
VOWELS = ["a", "e", "i", "o", "u"]
MIDDLES = ["d", "l", "m", "n", "nd", "r", "s", "v"]
WOMEN = ["a", "ia", "ena", "elle"]
MEN = ["or", "eth", "ar", "ick"]
FAMILIES = ["ander", "elow", "enko", "ersh", "idge", "ock", "ott", "ulin", "urst", "yard"]
PLACES = ["aven", "bury", "dale", "field", "gate", "holm", "mark", "minster", "mouth", "port", "stead", "wick"]


def _join(*parts: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted("".join(part).capitalize() for part in product(*parts)))


@functools.cache
def women() -> tuple[str, ...]:
    return _join(ONSETS, VOWELS, MIDDLES, WOMEN)


@functools.cache
def men() -> tuple[str, ...]:
    return _join(ONSETS, VOWELS, MIDDLES, MEN)


@functools.cache
def families() -> tuple[str, ...]:
    return _join(ONSETS, VOWELS, MIDDLES, FAMILIES)


@functools.cache
def places() -> tuple[str, ...]:
    return _join(ONSETS, VOWELS, MIDDLES, PLACES)


def full_names(stream: Stream, count: int) -> list[str]:
    """Different first and last names together; from pools so small that each part is shared by several people."""
    pool = max(20, 2 * int(count**0.5) + 1)
    first = stream.sample([*women(), *men()], min(pool, len(women()) + len(men())))
    last = stream.sample(families(), min(pool, len(families())))
    return [
        f"{first[code % len(first)]} {last[code // len(first)]}"
        for code in _different(stream, count, len(first) * len(last))
    ]


def _different(stream: Stream, count: int, bound: int) -> list[int]:
    chosen: dict[int, None] = {}
    while len(chosen) < count:
        chosen[stream.below(bound)] = None
    return list(chosen)
