"""Questions with their answers: read from a file, cleaned, split, and what all questions have in common.

    Where was Khatchig Mouradian born?<TAB>Lebanon

A pair said twice is one pair. Pairs that contradict each other are kept apart: nobody can answer such a question
rightly, so they are neither learned nor asked, and are reported. Text is brought into Unicode's composed form (NFC), so
that an accent typed as two characters is the same as one typed as one.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnlab.corpora.randomness import Stream
from attnlab.errors import FileError, InputError
from attnlab.knowledge.material.marks import without_marks
from attnlab.storage.disk import refusal, replace_file

_SHOWN = 60  # characters of a bad line that an error shows


@dataclass(frozen=True)
class Pair:
    """A question, and its answer."""

    question: str
    answer: str


@dataclass(frozen=True)
class Contradiction:
    """A question that has different answers."""

    question: str
    answers: tuple[str, ...]


@dataclass(frozen=True)
class PairList:
    """What a file of pairs holds, each question once."""

    pairs: tuple[Pair, ...]
    duplicates: int = 0  # pairs said again
    contradictions: tuple[Contradiction, ...] = ()

    @property
    def problems(self) -> str | None:
        """What was left out, as a sentence; None where nothing was."""
        parts = []
        if self.duplicates:
            parts.append(f"{self.duplicates} pairs were said twice and count once")
        if self.contradictions:
            first = self.contradictions[0]
            parts.append(
                f"{len(self.contradictions)} questions have different answers and are left out "
                f"({shorten(first.question)!r}: {', '.join(map(repr, map(shorten, first.answers[:3])))})"
            )
        return "; ".join(parts) or None


def clean(text: str) -> str:
    """Composed characters, one space for any white space, no characters that mean something to the model."""
    return " ".join(without_marks(unicodedata.normalize("NFC", text)).split())


def shorten(text: str) -> str:
    """A text as an error may show it."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def read_pairs(path: Path) -> PairList:
    """The pairs of a file with a question, a tab and an answer on each line; empty lines are passed over."""
    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        question, tab, answer = line.partition("\t")
        question, answer = clean(question), clean(answer.partition("\t")[0])
        if not tab or not question or not answer:
            lack = "has no tab" if not tab else f"has no {'answer' if question else 'question'}"
            raise FileError(
                f"line {number} of {path} {lack}: {shorten(line)!r}", hint="write a question, a tab and an answer"
            )
        pairs.append(Pair(question, answer))
    if not pairs:
        raise FileError(f"{path} holds no pairs", hint="write a question, a tab and an answer on each line")
    return sort_out(pairs)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file in UTF-8, without their ends."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        hint = "check the path" if not path.exists() else None
        raise FileError(f"{path} cannot be read: {error.strerror}", hint=hint) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise FileError(f"line {line} of {path} is no UTF-8", hint="save the file as UTF-8") from None
    return [line.rstrip("\r") for line in text.split("\n")]


def sort_out(pairs: Iterable[Pair]) -> PairList:
    """Each question once; those with different answers apart."""
    answers: dict[str, dict[str, None]] = {}
    count = 0
    for pair in pairs:
        count += 1
        answers.setdefault(pair.question, {})[pair.answer] = None
    single = tuple(Pair(question, next(iter(found))) for question, found in answers.items() if len(found) == 1)
    double = tuple(Contradiction(question, tuple(found)) for question, found in answers.items() if len(found) > 1)
    different = sum(len(found) for found in answers.values())
    return PairList(single, count - different, double)


def write_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    """Write pairs as `read_pairs` reads them, whole or not at all."""
    text = "".join(f"{pair.question}\t{pair.answer}\n" for pair in pairs)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text.encode())
    except OSError as error:
        raise refusal(f"{path} cannot be written", error) from error


def split_pairs(pairs: Sequence[Pair], shares: Sequence[float], seed: int = 0) -> list[list[Pair]]:
    """A random split: a list for each share, and one of what is left; a pair is in exactly one."""
    if any(share < 0 for share in shares) or sum(shares) >= 1:
        raise InputError(
            f"pairs cannot be split by the shares {', '.join(map(str, shares))}", hint="give shares that add up below 1"
        )
    drawn = Stream("pairs", seed, len(pairs)).shuffled(pairs)
    parts, start = [], 0
    for share in shares:
        stop = start + round(share * len(pairs))
        parts.append(drawn[start:stop])
        start = stop
    return [*parts, drawn[start:]]


def commonest_answer(pairs: Iterable[Pair]) -> str:
    """The answer of one who knows nothing but how often each is right."""
    counts = Counter(pair.answer for pair in pairs)
    return min(counts, key=lambda answer: (-counts[answer], answer))


def _shared(texts: Sequence[str]) -> str:
    """What all texts begin with."""
    first, last = min(texts), max(texts)
    same = (place for place, sign in enumerate(first) if last[place : place + 1] != sign)
    return first[: next(same, len(first))]


@dataclass(frozen=True)
class QuestionTemplate:
    """What all questions begin and end with; between stands whom or what they ask about."""

    before: str
    after: str

    @classmethod
    def find(cls, questions: Sequence[str]) -> QuestionTemplate:
        """The longest beginning and end that all questions share, cut at the borders of words."""
        questions = list(dict.fromkeys(questions))
        if len(questions) < 2:
            return cls("", "")
        before = _shared(questions)
        rest = [question[len(before) :] for question in questions]
        after = _shared([text[::-1] for text in rest])[::-1]
        before = before[: before.rfind(" ") + 1]
        # An end may begin with any sign that is no letter: " born?" or "?".
        start = next((place for place, sign in enumerate(after) if not sign.isalnum()), len(after))
        return cls(before, after[start:])

    def name(self, question: str) -> str | None:
        """Whom a question asks about; None where the template does not fit."""
        question = clean(question)
        fits = question.startswith(self.before) and question.endswith(self.after)
        inside = question[len(self.before) : len(question) - len(self.after)] if fits else ""
        return inside.strip() or None

    def ask(self, name: str) -> str:
        """The question about somebody."""
        return f"{self.before}{name}{self.after}"

    def __str__(self) -> str:
        return f"{self.before}…{self.after}"
