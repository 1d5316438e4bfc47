"""What there is to learn from a document.

lm      every token follows from those before it
span    span corruption, as in the course assignment: cut the document to a random length, take out a span, and put it
        last; prefix MASK suffix MASK span. Every token follows from those before it, so that the span follows from what
        stands around it.
mix     one or the other, drawn for each document and each time

The document's length n is drawn from 4 … ⅞ of the context; the span has 1 … n/2 tokens, a quarter on average. A
document that is shorter than what is drawn stays whole, down to a single token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnlab.corpora.randomness import below, uniform
from attnlab.knowledge.material.codec import Row

Objective = Literal["span", "lm", "mix"]
SPAN_SHARES: dict[Objective, float] = {"span": 1.0, "lm": 0.0, "mix": 0.5}
WORDS = 4  # random words for each document: which objective, what length, what span, where
_SHORTEST = 4


def longest_document(context_length: int) -> int:
    """What span corruption leaves of a document at most: seven eighths of the context."""
    return max(1, 7 * context_length // 8)


def learn_from(document: Sequence[int], random: NDArray[np.uint64], span_share: float, mask: int, context: int) -> Row:
    """One row of a document: `random` are its own random words, of which there are `WORDS`."""
    if len(document) > 1 and uniform(random[:1])[0] >= span_share:  # a single token follows from nothing
        return Row(tuple(document[: context + 1]))
    return Row(corrupt(document, random[1:], mask, context))


def corrupt(document: Sequence[int], random: NDArray[np.uint64], mask: int, context: int) -> tuple[int, ...]:
    """prefix MASK suffix MASK span."""
    longest = longest_document(context)
    drawn = _SHORTEST + int(below(max(1, longest - _SHORTEST + 1), random[:1])[0])
    length = min(len(document), drawn, longest)
    size = 1 + int(below(max(1, length // 2), random[1:2])[0])
    start = int(below(length - size + 1, random[2:3])[0])
    kept = document[:length]
    return (*kept[:start], mask, *kept[start + size :], mask, *kept[start : start + size])
