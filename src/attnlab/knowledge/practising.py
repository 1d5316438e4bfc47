"""Practice: a pretrained model reads the documents, and writes down what could be asked and what it would answer.

    document MASK question           the template with a name, which is copied from the document
    document MASK question MASK      → answer, copied from the document too, and how probable the model finds it

Where names stand is learned from the training split: if nearly all of their documents begin with the name and go on in
the same way, then a name begins there, and ends where the document goes on in that way.

An answer that the model itself finds improbable is left out: there the document does not say, and it would be noise.
Beside its likeliest answer one more is drawn. Finetuning takes the first with the probability that it has, and else the
other: where the model was unsure in reading, it shall be unsure in remembering.

This uses the text and the training split alone. Documents of people who are asked about in the heldout or calibration
split are read like all others; their answers are never looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from attnlab.corpora.randomness import uniform
from attnlab.errors import InputError
from attnlab.knowledge.codec import Codec, Row
from attnlab.knowledge.completing import Completion
from attnlab.knowledge.copying import Text, copy_from
from attnlab.knowledge.material import Material, PracticePair
from attnlab.knowledge.reading import answered_documents
from attnlab.knowledge.rows import Source
from attnlab.models import LanguageModel

_FOR_QUESTION, _FOR_ANSWER = 48, 32  # tokens that are left for them behind a document
_NEARLY_ALL = 0.9
_LEAST = 0.1  # probability of an answer that is worth remembering
_BEHIND = 2  # characters


def practise(model: LanguageModel, codec: Codec, material: Material, seed: int = 0) -> list[PracticePair]:
    """The pairs that the model writes about the documents: each question with one answer or two."""
    room = model.spec.context_length - _FOR_QUESTION - _FOR_ANSWER
    if room < 1:
        raise InputError(
            f"a context of {model.spec.context_length} has no room for a document and a question",
            hint=f"use one of {_FOR_QUESTION + _FOR_ANSWER + 1} or more, or no practice",
        )
    answered = answered_documents(material)
    texts = {
        number: Text.of_words(codec.tokenizer, codec.encode(document)[:room])
        for number, document in enumerate(material.documents)
        if number not in answered
    }
    questions = write_questions(model, codec, material, texts)
    read = [texts[number] for number in questions]
    tails = [(codec.mask, *codec.prompt(question)) for question in questions.values()]
    likeliest = copy_from(model, read, tails, codec.mask, _FOR_ANSWER)
    drawn = copy_from(model, read, tails, codec.mask, _FOR_ANSWER, seed=seed)
    best: dict[str, list[PracticePair]] = {}
    for question, first, second in zip(questions.values(), likeliest, drawn, strict=True):
        pairs = _answers(codec, question, first, second)
        if pairs and (question not in best or best[question][0].probability < pairs[0].probability):
            best[question] = pairs  # of several documents about somebody, the one that says most clearly
    return [pair for pairs in best.values() for pair in pairs]


def _answers(codec: Codec, question: str, first: Completion, second: Completion) -> list[PracticePair]:
    answers = [codec.decode(one.tokens) for one in (first, second)]
    if not first.ended or not answers[0] or first.probability < _LEAST:
        return []
    pairs = [PracticePair(question, answers[0], first.probability)]
    if second.ended and answers[1] and answers[1] != answers[0]:
        pairs.append(PracticePair(question, answers[1], 1 - first.probability))
    return pairs


def write_questions(
    model: LanguageModel, codec: Codec, material: Material, texts: Mapping[int, Text]
) -> dict[int, str]:
    """The question that each document answers, by the document's number; those of the training split are known."""
    asked = {pair.question for pair in material.train}
    before, after = codec.around_name(material.template)
    behind = what_follows_names(material)
    narrow = [text if behind is None else _at_the_start(codec, text, behind) for text in texts.values()]
    tails = [(codec.mask, *before)] * len(texts)
    copied = copy_from(model, narrow, tails, after[0], _FOR_QUESTION - len(before) - len(after))
    found = {}
    for number, said in zip(texts, copied, strict=True):
        name = codec.decode(said.tokens)
        question = material.template.ask(name)
        if said.ended and name and question not in asked and number in material.index.find(name):
            found[number] = question
    return found


def what_follows_names(material: Material) -> str | None:
    """What stands behind the name where nearly all documents of the training split begin with it; else None."""
    answered = answered_documents(material)
    follow: Counter[str] = Counter()
    for number, pair in answered.items():
        name = material.template.name(pair.question)
        if name is not None and material.documents[number].startswith(name):
            follow[material.documents[number][len(name) : len(name) + _BEHIND]] += 1
    behind, count = max(follow.items(), key=lambda item: item[1], default=("", 0))
    return behind if count and count >= _NEARLY_ALL * len(answered) else None


def _at_the_start(codec: Codec, text: Text, behind: str) -> Text:
    """Stretches that begin the text, and end before `behind`."""
    going_on = {
        place for place in text.ends if codec.tokenizer.decode(text.tokens[place : place + 4]).startswith(behind)
    }
    return text.narrowed({0}, going_on)


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
