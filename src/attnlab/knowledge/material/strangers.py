"""Strangers: names that nobody in the text has, put together from those that are there, with answers drawn at random.

A model that has only ever been asked about people it knows answers about anybody with the same confidence. Among what
it is finetuned on there are therefore some whom it cannot know. Their answers are new each time, drawn as often as they
are right in the training split, so that nothing can be learned from them but this: of a stranger, one cannot be sure.
After outlier exposure, Hendrycks et al., arXiv 1812.04606. People who are asked about later are not among them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attnlab.corpora.randomness import below
from attnlab.knowledge.material.codec import Codec, Row
from attnlab.knowledge.material.material import Material
from attnlab.knowledge.material.pairs import Pair
from attnlab.knowledge.training.rows import Source

_TRIES = 8


class Strangers(Source):
    """Questions about people whom the text does not name."""

    def __init__(self, material: Material, codec: Codec, count: int, context: int) -> None:
        questions = [*(pair.question for pair in material.train), *(pair.question for pair in material.practice)]
        named = (material.template.name(question) for question in dict.fromkeys(questions))
        words = [name.split(" ") for name in named if name is not None and " " in name]
        self._first: Sequence[str] = [" ".join(parts[:-1]) for parts in words]
        self._last: Sequence[str] = [parts[-1] for parts in words]
        self._answers = [pair.answer for pair in material.train]
        self._material, self._codec, self._context = material, codec, context
        some = range(min(_TRIES, len(words)))
        possible = any(self._invent(first, last) for first in some for last in some if first != last)
        super().__init__(count if possible else 0)

    def make(self, number: int, random: NDArray[np.uint64]) -> Row:
        del number
        places = below(len(self._first), random[:2]).tolist()
        answer = self._answers[int(below(len(self._answers), random[2:3])[0])]
        name = None
        for _ in range(_TRIES):
            name = self._invent(*places)
            if name is not None:
                break
            places[1] = (places[1] + 1) % len(self._last)
        row = self._codec.pair(Pair(self._material.template.ask(name or f"{self._last[0]} {self._first[0]}"), answer))
        return row if len(row.tokens) <= self._context else Row(row.tokens[: self._context], row.first)

    def _invent(self, first: int, last: int) -> str | None:
        """A new name of two; None if the text has it."""
        name = f"{self._first[first]} {self._last[last]}"
        return None if self._material.index.find(name) else name

    def content(self) -> object:
        return [self.count, self._context, self._first, self._last, self._answers]
