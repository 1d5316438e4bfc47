"""Reading: a document, the question that it answers, and the answer, so that a model learns to find both in a text.

    document MASK question MASK answer MASK

A model that sees the same documents again soon answers from memory, and stops looking. So most of the time the name and
the answer are exchanged, in the document and behind it, for those of other pairs: what stands there can then only be
read. Such a document is given and not learned, for it is not true; only the question and the answer count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from attnlab.corpora.randomness import below, uniform
from attnlab.knowledge.material.codec import Codec, Row
from attnlab.knowledge.material.material import Material
from attnlab.knowledge.material.pairs import Pair, QuestionTemplate
from attnlab.knowledge.training.rows import Source

EXCHANGED = 0.75  # of the times


def answered_documents(material: Material) -> dict[int, Pair]:
    """For the number of a document, the training pair that it answers."""
    found: dict[int, Pair] = {}
    for pair in material.train:
        for document in material.index.answering(pair, material.template):
            found.setdefault(document, pair)
    return found


class Reading(Source):
    """Documents with the training pair that each answers."""

    def __init__(self, material: Material, answered: Mapping[int, Pair], codec: Codec, context: int) -> None:
        super().__init__(len(answered))
        self._template: QuestionTemplate = material.template
        self._codec, self._context = codec, context
        self._read = [(material.documents[number], pair) for number, pair in answered.items()]
        self._true = [codec.reading(codec.encode(document), pair, context) for document, pair in self._read]
        named = (self._template.name(pair.question) for pair in material.train)
        self._names: Sequence[str] = sorted({name for name in named if name is not None})
        self._answers: Sequence[str] = sorted({pair.answer for pair in material.train})

    def make(self, number: int, random: NDArray[np.uint64]) -> Row:
        if uniform(random[:1])[0] >= EXCHANGED:
            return self._true[number]
        document, pair = self._read[number]
        name = self._names[int(below(len(self._names), random[1:2])[0])]
        answer = self._answers[int(below(len(self._answers), random[2:3])[0])]
        old = self._template.name(pair.question) or ""
        changed = exchange(document, {old: name, pair.answer: answer})
        row = self._codec.reading(self._codec.encode(changed), Pair(self._template.ask(name), answer), self._context)
        return Row(row.tokens, row.tokens.index(self._codec.mask))

    def content(self) -> object:
        return [EXCHANGED, self._names, self._answers, [[row.first, *row.tokens] for row in self._true]]


def exchange(text: str, words: Mapping[str, str]) -> str:
    """A text with words or names exchanged for others, all at once, where no letter stands beside them."""
    longest_first = sorted(words, key=len, reverse=True)
    pattern = "|".join(re.escape(word) for word in longest_first if word)
    return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", lambda found: words[found.group()], text)
