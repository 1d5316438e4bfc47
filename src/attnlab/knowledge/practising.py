"""Practice: a pretrained model reads the documents, and writes down what could be asked and what it would answer.

    document MASK question           the template with a name, which is copied from the document
    document MASK question MASK      → answer, and how probable the model finds it

Beside its likeliest answer one more is drawn. Finetuning takes the first with the probability that it has, and else the
other: where the model was unsure in reading, it shall be unsure in remembering.

This uses the text and the training split alone. Documents of people who are asked about in the heldout or calibration
split are read like all others; their answers are never looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attnlab.corpora.randomness import uniform
from attnlab.errors import InputError
from attnlab.knowledge.codec import Codec, Row
from attnlab.knowledge.completing import complete
from attnlab.knowledge.copying import copy_from
from attnlab.knowledge.material import Material, PracticePair
from attnlab.knowledge.reading import answered_documents
from attnlab.knowledge.rows import Source
from attnlab.models import LanguageModel

_FOR_QUESTION, _FOR_ANSWER = 48, 32  # tokens that are left for them behind a document


def practise(model: LanguageModel, codec: Codec, material: Material, seed: int = 0) -> list[PracticePair]:
    """The pairs that the model writes about the documents: each question with one answer or two."""
    documents = [codec.encode(document) for document in material.documents]
    questions = write_questions(model, codec, material, documents)
    prompts = [_reading_prompt(model, codec, documents[number], question) for number, question in questions.items()]
    likeliest = complete(model, prompts, codec.mask, longest=_FOR_ANSWER)
    drawn = complete(model, prompts, codec.mask, longest=_FOR_ANSWER, seed=seed)
    best: dict[str, list[PracticePair]] = {}
    for question, first, second in zip(questions.values(), likeliest, drawn, strict=True):
        answers = [codec.decode(one.tokens) for one in (first, second)]
        if not first.ended or not answers[0]:
            continue
        pairs = [PracticePair(question, answers[0], first.probability)]
        if second.ended and answers[1] and answers[1] != answers[0]:
            pairs.append(PracticePair(question, answers[1], 1 - first.probability))
        if question not in best or best[question][0].probability < first.probability:
            best[question] = pairs  # of several documents about somebody, the one that says most clearly
    return [pair for pairs in best.values() for pair in pairs]


def write_questions(
    model: LanguageModel, codec: Codec, material: Material, documents: Sequence[tuple[int, ...]]
) -> dict[int, str]:
    """The question of each document that has one, by the document's number; those of the training split are known."""
    asked = {pair.question for pair in material.train}
    answered = answered_documents(material)
    numbers = [number for number in range(len(documents)) if number not in answered and documents[number]]
    room = model.spec.context_length - _FOR_QUESTION - _FOR_ANSWER
    if room < 1:
        raise InputError(
            f"a context of {model.spec.context_length} has no room for a document and a question",
            hint=f"use one of {_FOR_QUESTION + _FOR_ANSWER + 1} or more, or no practice",
        )
    texts = [documents[number][:room] for number in numbers]
    before, after = codec.around_name(material.template)
    copied = copy_from(model, texts, (codec.mask, *before), after, longest=_FOR_QUESTION - len(before) - len(after))
    found = {}
    for number, tokens in zip(numbers, copied, strict=True):
        name = codec.decode(tokens)
        question = material.template.ask(name)
        if name and question not in asked and number in material.index.find(name):
            found[number] = question
    return found


def _reading_prompt(model: LanguageModel, codec: Codec, document: tuple[int, ...], question: str) -> tuple[int, ...]:
    tail = (codec.mask, *codec.prompt(question))
    return (*document[: max(0, model.spec.context_length - len(tail) - _FOR_ANSWER)], *tail)


class Practice(Source):
    """Rows of written pairs: each question once in an epoch, with one of its answers."""

    def __init__(self, pairs: Sequence[PracticePair], codec: Codec) -> None:
        answers: dict[str, list[tuple[float, Row]]] = {}
        for pair in pairs:
            answers.setdefault(pair.question, []).append((pair.probability, codec.pair(pair.pair)))
        self._rows = list(answers.values())
        super().__init__(len(self._rows))

    def make(self, number: int, random: NDArray[np.uint64]) -> Row:
        first, *others = self._rows[number]
        return others[0][1] if others and uniform(random[:1])[0] >= first[0] else first[1]

    def content(self) -> object:
        return [[[chance, row.first, *row.tokens] for chance, row in answers] for answers in self._rows]
