"""Encode texts, questions and answers as the tokens of one model.

document        d₁ … dₙ
pair            question MASK answer MASK
document QA     document MASK question MASK answer MASK

If a token includes the space before its word, as in BPE, every text begins with a space: a name then has the same
tokens wherever it appears, and an answer the same as in a document.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from attnlab.corpora import BpeTokenizer, CharTokenizer, Tokenizer
from attnlab.errors import FileError, InputError, SpecError
from attnlab.knowledge.pairs import Pair, QuestionTemplate
from attnlab.knowledge.text import MARKS, clean

TOKENIZERS = ("char", "bpe")
_SPACES = {"\n", "\u00a0"}  # cleaning turns them into plain spaces; the assignment's vocabulary has them


@dataclass(frozen=True)
class Row:
    """The tokens of a training example; those before `first` are context and not predicted."""

    tokens: tuple[int, ...]
    first: int = 0


def make_tokenizer(kind: str, texts: Iterable[str], vocabulary_size: int | None) -> Tokenizer:
    """Build a tokenizer for these texts, with MASK and PAD in its vocabulary."""
    if kind == "char":
        return CharTokenizer({sign for text in texts for sign in text} | _SPACES | set(MARKS))
    if kind == "bpe":
        lines = (f" {text}\n" for text in texts)
        return BpeTokenizer.train(lines, vocabulary_size or 2048, special=MARKS)
    raise SpecError(f"the tokenizer {kind!r} has no marks", hint=f"use one of {', '.join(TOKENIZERS)}")


class Codec:
    """A tokenizer with MASK and PAD, and the layouts of rows."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        marks = [tokenizer.encode(mark) for mark in MARKS]
        if any(len(mark) != 1 for mark in marks):
            raise FileError("this tokenizer has no marks", hint="name a knowledge run")
        self.mask, self.pad = marks[0][0], marks[1][0]

    @cached_property
    def _begin(self) -> str:
        return " " if isinstance(self.tokenizer, BpeTokenizer) else ""

    @property
    def vocabulary_size(self) -> int:
        return self.tokenizer.vocabulary_size

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text, in which ordinary characters first replace MASK and PAD."""
        return tuple(self.tokenizer.encode(self._begin + clean(text)))

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text of tokens, leaving out MASK and PAD."""
        return clean(self.tokenizer.decode(token for token in tokens if token not in (self.pad, self.mask)))

    def prompt(self, question: str) -> tuple[int, ...]:
        """Return what a question without a document looks like: question MASK."""
        return (*self.encode(question), self.mask)

    def pair(self, pair: Pair) -> Row:
        """Return question MASK answer MASK; the loss counts from the first MASK on."""
        question = self.encode(pair.question)
        return Row((*question, self.mask, *self.encode(pair.answer), self.mask), len(question))

    def document_qa(self, document: Sequence[int], pair: Pair, context_length: int) -> Row:
        """Return document MASK question MASK answer MASK, the document cut so that it fits."""
        tail = (self.mask, *self.pair(pair).tokens)
        room = max(0, context_length + 1 - len(tail))
        return Row((*document[:room], *tail)[: context_length + 1])

    def around_name(self, template: QuestionTemplate) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the tokens of a question before and after the name, including the MASK that ends it."""
        before = f"{self._begin}{template.before}"
        if self._begin:
            before = before.rstrip()  # the name's first token includes the space
        encoded = [tuple(self.tokenizer.encode(text)) if text else () for text in (before, template.after)]
        return encoded[0], (*encoded[1], self.mask)

    def known(self, text: str) -> str | None:
        """Return None if the text can be encoded, else the reason why not."""
        try:
            self.encode(text)
        except InputError as error:
            return error.message
        return None
