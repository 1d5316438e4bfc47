"""Synthetic QA: a pretrained model writes down what could be asked about each document, and what it would answer.

    document MASK question           the template with a name, which is copied from the document
    document MASK question MASK      → answer, copied from the document too, and how probable the model finds it

Where names stand is learned from the training split: if nearly all of their documents begin with the name and continue
in the same way, then a name begins there, and ends where the document continues in that way. An answer that is hardly
likelier than another stretch of the document is left out.

This uses the text and the training split alone. Documents of people who are asked about in the heldout or calibration
split are read like all others; their answers are never used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from attnlab.errors import InputError
from attnlab.knowledge.answers.decoding import CopySource, copy_from
from attnlab.knowledge.material.codec import Codec
from attnlab.knowledge.material.material import Material, SyntheticPair
from attnlab.knowledge.training.sources import answered_documents
from attnlab.models import LanguageModel

_FOR_QUESTION, _FOR_ANSWER = 48, 32  # tokens that are left for them behind a document
_NEARLY_ALL = 0.9
_LEAST = 0.5  # probability of an answer among all stretches of its document
_BEHIND = 2  # characters


def write_synthetic_pairs(model: LanguageModel, codec: Codec, material: Material) -> list[SyntheticPair]:
    """Return the pairs that the model writes about the documents."""
    room = model.spec.context_length - _FOR_QUESTION - _FOR_ANSWER
    if room < 1:
        raise InputError(
            f"a context of {model.spec.context_length} has no room for a document and a question",
            hint=f"use `context_length={_FOR_QUESTION + _FOR_ANSWER + 1}` or more, or `practice=False`",
        )
    answered = answered_documents(material)
    texts = {
        number: CopySource.of_words(codec.tokenizer, codec.encode(document)[:room])
        for number, document in enumerate(material.documents)
        if number not in answered
    }
    questions = write_questions(model, codec, material, texts)
    read = [texts[number] for number in questions]
    tails = [(codec.mask, *codec.prompt(question)) for question in questions.values()]
    likeliest = copy_from(model, read, tails, codec.mask, _FOR_ANSWER)
    best: dict[str, SyntheticPair] = {}
    for question, said in zip(questions.values(), likeliest, strict=True):
        answer = codec.decode(said.tokens)
        known = best.get(question)  # of several documents about somebody, the one that says most clearly counts
        if answer and said.among_stretches >= _LEAST and (known is None or known.probability < said.probability):
            best[question] = SyntheticPair(question, answer, said.probability)
    return list(best.values())


def write_questions(
    model: LanguageModel, codec: Codec, material: Material, texts: Mapping[int, CopySource]
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


def _at_the_start(codec: Codec, text: CopySource, behind: str) -> CopySource:
    """Stretches that begin the text, and end before `behind`."""
    decode, tokens = codec.tokenizer.decode, text.tokens
    return text.narrowed({0}, {end for end in text.ends if decode(tokens[end : end + 4]).startswith(behind)})
