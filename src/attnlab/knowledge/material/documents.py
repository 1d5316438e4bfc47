"""The text that a model learns from: one document on each line, and who is spoken of how often."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attnlab.errors import FileError
from attnlab.knowledge.material.pairs import Pair, QuestionTemplate, clean, read_lines


def read_documents(path: Path) -> list[str]:
    """The lines of a file that say something."""
    documents = [document for document in map(clean, read_lines(path)) if document]
    if not documents:
        raise FileError(f"{path} holds no text", hint="write one document on each line")
    return documents


class Index:
    """Which documents name somebody. A name counts where no letter or digit stands beside it."""

    def __init__(self, documents: Sequence[str]) -> None:
        self._documents = tuple(documents)
        self._words: dict[str, list[int]] = {}
        for number, document in enumerate(self._documents):
            for word in dict.fromkeys(_words(document)):
                self._words.setdefault(word, []).append(number)

    def find(self, name: str) -> list[int]:
        """The numbers of the documents that name somebody, in order."""
        words = _words(name)
        if not words:
            return []
        rarest = min(words, key=lambda word: len(self._words.get(word, ())))
        return [number for number in self._words.get(rarest, ()) if _names(self._documents[number], name)]

    def answering(self, pair: Pair, template: QuestionTemplate) -> list[int]:
        """The documents that a pair is answered by: they name whom it asks about, and hold the answer."""
        name = template.name(pair.question)
        found = [] if name is None else self.find(name)
        return [number for number in found if _names(self._documents[number], pair.answer)]


def _words(text: str) -> list[str]:
    return "".join(sign if sign.isalnum() else " " for sign in text).split()


def _names(document: str, name: str) -> bool:
    start = document.find(name)
    while start >= 0:
        before, after = document[start - 1 : start], document[start + len(name) : start + len(name) + 1]
        if not before.isalnum() and not after.isalnum():
            return True
        start = document.find(name, start + 1)
    return False
