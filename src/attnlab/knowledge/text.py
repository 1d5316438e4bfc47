"""Text for a knowledge model: how it is cleaned and compared, and which documents name a person.

clean  for the model: composed characters (NFC), one space for any white space, without MASK and PAD
tidy   for the store: composed characters, one space for any white space, no control characters
key    for comparing questions: ignores case
fold   for searching: `key` without accents, so that Jose finds José

Two characters are special to a knowledge model, as in the course assignment. If a text contains one of them, it is
replaced by ordinary characters, so that no text can be taken for a special token.

MASK   ⁇ (U+2047)   stands for omitted text, and separates question and answer
PAD    □ (U+25A1)   pads rows; ignored by the loss
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from attnlab.errors import FileError, InputError
from attnlab.storage.files import read_file

MASK, PAD = "\u2047", "\u25a1"
MARKS = (MASK, PAD)
_INSTEAD = str.maketrans({MASK: "??", PAD: "■"})
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_PLAIN = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ı": "i", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th"})
_WORD = re.compile(r"[^\W_]+")
_SHOWN = 60  # characters of a bad line that an error shows


def clean(text: str) -> str:
    """Return the text as a model reads it."""
    return " ".join(unicodedata.normalize("NFC", text).translate(_INSTEAD).split())


def tidy(text: str, what: str = "text") -> str:
    """Return the text as a store keeps it; `what` names it where it is no UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        shown = text.encode("utf-8", "replace").decode()
        raise InputError(f"the {what} {shorten(shown)!r} is no UTF-8", hint="type or save it as UTF-8") from None
    return " ".join(_CONTROL.sub(" ", unicodedata.normalize("NFC", text)).split())


def key(text: str) -> str:
    return unicodedata.normalize("NFC", text.casefold())


def fold(text: str) -> str:
    """Take accents off letters; in scripts where a mark is a vowel of its own, both sides of a comparison lose it."""
    apart = unicodedata.normalize("NFD", text.casefold())
    bare = "".join(sign for sign in apart if unicodedata.category(sign) != "Mn")
    return unicodedata.normalize("NFC", bare).translate(_PLAIN)


def shorten(text: str) -> str:
    """Return a text as an error may show it."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file in UTF-8, without their ends."""
    try:
        raw = read_file(path)
    except FileError:
        raise
    except OSError as error:
        hint = "check the path" if not path.exists() else None
        raise FileError(f"{path} cannot be read: {error.strerror}", hint=hint) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise FileError(f"line {line} of {path} is no UTF-8", hint="save the file as UTF-8") from None
    return [line.rstrip("\r") for line in text.split("\n")]


def read_documents(path: Path) -> list[str]:
    """Return the documents of a file, one on each line that is not empty."""
    documents = [document for document in map(clean, read_lines(path)) if document]
    if not documents:
        raise FileError(f"{path} holds no text", hint="write one document on each line")
    return documents


class DocumentIndex:
    """Find the documents that name a person. A name counts only if no letter or digit stands beside it."""

    def __init__(self, documents: Sequence[str]) -> None:
        self._documents = tuple(documents)
        self._words: dict[str, list[int]] = {}
        for number, document in enumerate(self._documents):
            for word in dict.fromkeys(_words(document)):
                self._words.setdefault(word, []).append(number)

    def find(self, name: str, *, also: str = "") -> list[int]:
        """Return the numbers of the documents that hold a name, and what `also` says, in order."""
        words = _words(name)
        if not words:
            return []
        rarest = min(words, key=lambda word: len(self._words.get(word, ())))
        found = [number for number in self._words.get(rarest, ()) if _names(self._documents[number], name)]
        return [number for number in found if _names(self._documents[number], also)] if also else found

    def spellings(self, name: str) -> set[str]:
        """Return how the documents spell a name, whatever its accents and its upper and lower case."""
        wanted = [fold(word) for word in _words(name)]
        rarest = min((self._folded.get(word, set()) for word in wanted), key=len, default=set[int]())
        return {found for number in rarest for found in _spelled(self._documents[number], wanted)}

    @cached_property
    def _folded(self) -> dict[str, set[int]]:
        """The numbers of the documents that hold each folded word."""
        found: dict[str, set[int]] = {}
        for word, numbers in self._words.items():
            found.setdefault(fold(word), set()).update(numbers)
        return found


def _spelled(document: str, wanted: Sequence[str]) -> Iterator[str]:
    """Yield every place of a document whose words are those wanted, once they are folded."""
    places = list(_WORD.finditer(document))
    folded = [fold(place[0]) for place in places]
    for start in range(len(places) - len(wanted) + 1):
        if folded[start : start + len(wanted)] == wanted:
            yield document[places[start].start() : places[start + len(wanted) - 1].end()]


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _names(document: str, name: str) -> bool:
    start = document.find(name)
    while start >= 0:
        before, after = document[start - 1 : start], document[start + len(name) : start + len(name) + 1]
        if not before.isalnum() and not after.isalnum():
            return True
        start = document.find(name, start + 1)
    return False
