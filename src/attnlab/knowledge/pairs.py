"""Question–answer pairs: reading and writing files, cleaning, splitting, and the template that the questions share.

    Where was Khatchig Mouradian born?<TAB>Lebanon

Duplicate pairs count once. Pairs that contradict each other are set apart: no model can answer such a question
correctly, so they are neither learned nor asked, and are reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnlab.corpora.randomness import Stream
from attnlab.errors import FileError, InputError
from attnlab.knowledge.text import clean, read_lines, shorten
from attnlab.storage.disk import refusal, replace_file


@dataclass(frozen=True)
class Pair:
    """A question and its answer."""

    question: str
    answer: str


@dataclass(frozen=True)
class Contradiction:
    """A question that has different answers."""

    question: str
    answers: tuple[str, ...]


@dataclass(frozen=True)
class PairList:
    """The pairs of a file, each question once."""

    pairs: tuple[Pair, ...]
    duplicates: int = 0  # repeated pairs
    contradictions: tuple[Contradiction, ...] = ()

    @property
    def problems(self) -> str | None:
        """Return a sentence about what was left out; None if nothing was."""
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


def read_pairs(path: Path) -> PairList:
    """Return the pairs of a file with a question, a tab and an answer on each line; empty lines are skipped.

    Parameters
    ----------
    path
        The file.
    """
    pairs = [Pair(question, answer) for question, answer, _ in read_rows(path, clean)]
    if not pairs:
        raise FileError(f"{path} holds no pairs", hint="write a question, a tab and an answer on each line")
    return sort_out(pairs)


def read_rows(path: Path, tidied: Callable[[str], str]) -> Iterator[tuple[str, str, str]]:
    """Yield question, answer and source (or nothing), which stand on a line with tabs between them."""
    for number, line in numbered_lines(path):
        question, tab, rest = line.partition("\t")
        answer, _, source = rest.partition("\t")
        question, answer, source = tidied(question), tidied(answer), tidied(source)
        if not tab or not question or not answer:
            lack = "has no tab" if not tab else f"has no {'answer' if question else 'question'}"
            raise FileError(
                f"line {number} of {path} {lack}: {shorten(line)!r}", hint="write a question, a tab and an answer"
            )
        yield question, answer, source


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not empty, each with its number."""
    return ((number, line) for number, line in enumerate(read_lines(path), start=1) if line.strip())


def sort_out(pairs: Iterable[Pair]) -> PairList:
    """Keep each question once, and set those with different answers apart."""
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
    """Write pairs in the format of `read_pairs`, atomically.

    Parameters
    ----------
    path
        The file.
    pairs
        Question–answer pairs.
    """
    write_lines(path, (f"{pair.question}\t{pair.answer}" for pair in pairs))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines into a file, whole or not at all; its folder is made where it is missing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, "".join(f"{line}\n" for line in lines).encode())
    except OSError as error:
        raise refusal(f"{path} cannot be written", error) from error


def split_pairs(pairs: Sequence[Pair], shares: Sequence[float], seed: int = 0) -> list[list[Pair]]:
    """Return a random split: a list for each share, and one of what is left; a pair is in exactly one."""
    if not (all(share >= 0 for share in shares) and sum(shares) < 1):  # rejects NaN too
        raise InputError(
            f"pairs cannot be split by the shares {', '.join(map(str, shares))}",
            hint="use numbers from 0 on for `heldout_share` and `calibration_share` that add up below 1",
        )
    drawn = Stream("pairs", seed, len(pairs)).shuffled(pairs)
    parts, start = [], 0
    for share in shares:
        stop = start + round(share * len(pairs))
        parts.append(drawn[start:stop])
        start = stop
    return [*parts, drawn[start:]]


def commonest_answer(pairs: Iterable[Pair]) -> str:
    """Return the answer of one who knows nothing but how often each is right."""
    counts = Counter(pair.answer for pair in pairs)
    return min(counts, key=lambda answer: (-counts[answer], answer))


def _shared(texts: Sequence[str]) -> str:
    """Return the longest common prefix of the texts."""
    first, last = min(texts), max(texts)
    same = (place for place, sign in enumerate(first) if last[place : place + 1] != sign)
    return first[: next(same, len(first))]


@dataclass(frozen=True)
class QuestionTemplate:
    """The beginning and the end that all questions share; what they ask about stands in between."""

    before: str
    after: str

    @classmethod
    def find(cls, questions: Sequence[str]) -> QuestionTemplate:
        """Return the longest beginning and end that all questions share, cut at word boundaries."""
        questions = list(dict.fromkeys(questions))
        if len(questions) < 2:
            return cls("", "")
        before = _shared(questions)
        rest = [question[len(before) :] for question in questions]
        after = _shared([text[::-1] for text in rest])[::-1]
        before = before[: before.rfind(" ") + 1]
        # An end may begin with any character that is not a letter: " born?" or "?".
        start = next((place for place, sign in enumerate(after) if not sign.isalnum()), len(after))
        return cls(before, after[start:])

    def name(self, question: str) -> str | None:
        """Return whom a question asks about; None if the template does not fit."""
        question = clean(question)
        fits = question.startswith(self.before) and question.endswith(self.after)
        inside = question[len(self.before) : len(question) - len(self.after)] if fits else ""
        return inside.strip() or None

    def ask(self, name: str) -> str:
        """Return the question about a person."""
        return f"{self.before}{name}{self.after}"

    def __str__(self) -> str:
        return f"{self.before}…{self.after}"
