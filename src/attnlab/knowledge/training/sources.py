"""The sources of training rows. A source makes row n from random words of that row, so that runs are reproducible.

Documents        the text, by the recipe's objective
DocumentQA       document-conditioned QA: a document, the question that it answers, and the answer
FixedRows        rows that are the same every time, such as the training pairs
SyntheticPairs   pairs that a pretrained model generated
UnseenEntities   questions about people who are not in the text

The objective says how a document is learned:

lm      language modelling: predict every token from those before it
span    span corruption, as in the course assignment: truncate the document to a random length, take out a span, and
        append it: prefix MASK suffix MASK span. Every token is predicted from those before it, so that the span is
        predicted from both sides of its context. The length n is drawn from 4 … ⅞ of the context; the span has
        1 … n/2 tokens, a quarter of n on average. A document shorter than the drawn length stays whole, down to a
        single token.
mix     one or the other, drawn for each document and epoch
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnlab.corpora.randomness import below, uniform
from attnlab.knowledge.codec import Codec, Row
from attnlab.knowledge.material import Material, SyntheticPair
from attnlab.knowledge.pairs import Pair

Objective = Literal["span", "lm", "mix"]
SPAN_SHARES: dict[Objective, float] = {"span": 1.0, "lm": 0.0, "mix": 0.5}
WORDS = 4  # random words for each row
EXCHANGED = 0.75  # probability that a document gets another name and another answer
_SHORTEST = 4
_TRIES = 8


class Source(ABC):
    """Rows of one kind."""

    def __init__(self, count: int, repeats: int = 1) -> None:
        self.count = count
        self.repeats = repeats  # how often an epoch takes each row

    @abstractmethod
    def make(self, number: int, random: NDArray[np.uint64]) -> Row:
        """Return a row; `random` are `WORDS` random words of its own."""

    @abstractmethod
    def content(self) -> object:
        """Return what its rows follow from, as JSON can hold it."""


class FixedRows(Source):
    """Rows that are the same every time."""

    def __init__(self, made: Sequence[Row], repeats: int = 1) -> None:
        super().__init__(len(made), repeats)
        self._made = made

    def make(self, number: int, random: NDArray[np.uint64]) -> Row:
        del random
        return self._made[number]

    def content(self) -> object:
        # The 1.0 was once an option; it stays because the corpus's hash, and so the order of its rows, depends on it.
        return [self.repeats, 1.0, [[row.first, *row.tokens] for row in self._made]]


class Documents(Source):
    """Documents by an objective: with probability `span_share` with span corruption, else unchanged."""

    def __init__(self, documents: Sequence[Sequence[int]], span_share: float, mask: int, context: int) -> None:
        super().__init__(len(documents))
        self._documents, self._span_share, self._mask, self._context = documents, span_share, mask, context

    def make(self, number: int, random: NDArray[np.uint64]) -> Row:
        document = self._documents[number]
        if len(document) > 1 and uniform(random[:1])[0] >= self._span_share:  # a single token has no context
            return Row(tuple(document[: self._context + 1]))
        return Row(corrupt(document, random[1:], self._mask, self._context))

    def content(self) -> object:
        return [self._span_share, self._mask, self._context, [list(document) for document in self._documents]]


def corrupt(document: Sequence[int], random: NDArray[np.uint64], mask: int, context: int) -> tuple[int, ...]:
    """Return prefix MASK suffix MASK span; `random` decides length, size of the span, and where it begins."""
    longest = max(1, 7 * context // 8)
    drawn = _SHORTEST + int(below(max(1, longest - _SHORTEST + 1), random[:1])[0])
    length = min(len(document), drawn, longest)
    size = 1 + int(below(max(1, length // 2), random[1:2])[0])
    start = int(below(length - size + 1, random[2:3])[0])
    kept = document[:length]
    return (*kept[:start], mask, *kept[start + size :], mask, *kept[start : start + size])


class DocumentQA(Source):
    """Documents with the training pair that each answers: document MASK question MASK answer MASK.

    A model that sees the same documents again soon answers from memory and stops attending to the document. So most of
    the time the name and the answer are replaced by those of other pairs, in the document, the question and the answer:
    the model can then only find the answer in the document. The changed document is false, so it has no loss; only
    question and answer do.
    """

    def __init__(self, material: Material, answered: Mapping[int, Pair], codec: Codec, context: int) -> None:
        super().__init__(len(answered))
        self._template, self._codec, self._context = material.template, codec, context
        self._read = [(material.documents[number], pair) for number, pair in answered.items()]
        self._true = [codec.document_qa(codec.encode(document), pair, context) for document, pair in self._read]
        named = (self._template.name(pair.question) for pair in material.train)
        self._names = sorted({name for name in named if name is not None})
        self._answers = sorted({pair.answer for pair in material.train})

    def make(self, number: int, random: NDArray[np.uint64]) -> Row:
        if uniform(random[:1])[0] >= EXCHANGED:
            return self._true[number]
        document, pair = self._read[number]
        name, answer = _pick(self._names, random[1]), _pick(self._answers, random[2])
        old = self._template.name(pair.question) or ""
        changed = self._codec.encode(exchange(document, {old: name, pair.answer: answer}))
        row = self._codec.document_qa(changed, Pair(self._template.ask(name), answer), self._context)
        return Row(row.tokens, row.tokens.index(self._codec.mask))

    def content(self) -> object:
        return [EXCHANGED, self._names, self._answers, [[row.first, *row.tokens] for row in self._true]]


def answered_documents(material: Material) -> dict[int, Pair]:
    """Return for the number of a document the training pair that it answers: it has the name, and the answer."""
    found: dict[int, Pair] = {}
    for pair in material.train:
        name = material.template.name(pair.question)
        for document in [] if name is None else material.index.find(name, also=pair.answer):
            found.setdefault(document, pair)
    return found


def exchange(text: str, words: Mapping[str, str]) -> str:
    """Return a text with words or names exchanged for others, all at once, where no letter stands beside them."""
    longest_first = sorted(words, key=len, reverse=True)
    pattern = "|".join(re.escape(word) for word in longest_first if word)
    return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", lambda found: words[found.group()], text)


class SyntheticPairs(Source):
    """Pairs that a model generated; sometimes with another answer, the more often the less confident the model was.

    If the model gave an answer with probability p, finetuning replaces it with probability (1 − p)/2 by another one,
    drawn anew each time from the training split: a model that was unsure about a document should be unsure in recall.
    """

    def __init__(self, pairs: Sequence[SyntheticPair], others: Sequence[str], codec: Codec) -> None:
        super().__init__(len(pairs))
        self._pairs, self._others, self._codec = pairs, others, codec
        self._rows = [codec.pair(pair.pair) for pair in pairs]

    def make(self, number: int, random: NDArray[np.uint64]) -> Row:
        pair = self._pairs[number]
        if uniform(random[:1])[0] >= (1 - pair.probability) / 2:
            return self._rows[number]
        return self._codec.pair(Pair(pair.question, _pick(self._others, random[1])))

    def content(self) -> object:
        return [[[pair.question, pair.answer, pair.probability] for pair in self._pairs], list(self._others)]


class UnseenEntities(Source):
    """Questions about people whom the text does not name, with answers drawn at random.

    A model that was only ever asked about people it knows answers about everyone with the same confidence. Therefore
    names that appear nowhere in the text are combined from those that do. Their answers are drawn anew each time, with
    the frequencies of the training split, so that the model can only learn to be unsure about them. After outlier
    exposure, Hendrycks et al., arXiv 1812.04606. People who are asked about later are excluded.
    """

    def __init__(self, material: Material, codec: Codec, count: int, context: int) -> None:
        questions = [*(pair.question for pair in material.train), *(pair.question for pair in material.synthetic)]
        named = (material.template.name(question) for question in dict.fromkeys(questions))
        words = [name.split(" ") for name in named if name is not None and " " in name]
        self._first = [" ".join(parts[:-1]) for parts in words]
        self._last = [parts[-1] for parts in words]
        self._answers = [pair.answer for pair in material.train]
        self._material, self._codec, self._context = material, codec, context
        some = range(min(_TRIES, len(words)))
        possible = any(self._invent(first, last) for first in some for last in some if first != last)
        super().__init__(count if possible else 0)

    def make(self, number: int, random: NDArray[np.uint64]) -> Row:
        del number
        first, last = below(len(self._first), random[:2]).tolist()
        answer = _pick(self._answers, random[2])
        tried = (self._invent(first, (last + step) % len(self._last)) for step in range(_TRIES))
        name = next((name for name in tried if name is not None), f"{self._last[0]} {self._first[0]}")
        row = self._codec.pair(Pair(self._material.template.ask(name), answer))
        return row if len(row.tokens) <= self._context else Row(row.tokens[: self._context], row.first)

    def _invent(self, first: int, last: int) -> str | None:
        """Return a new name of two; None if the text has it."""
        name = f"{self._first[first]} {self._last[last]}"
        return None if self._material.index.find(name) else name

    def content(self) -> object:
        return [self.count, self._context, self._first, self._last, self._answers]


def _pick(options: Sequence[str], word: np.uint64) -> str:
    return options[int(below(len(options), np.array([word]))[0])]
