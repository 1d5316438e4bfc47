"""Find the passages of a text that may hold the answer: groups of capitalised words after a content word (cue).

In "Emma Poe (born 3 May 1950 in Bray, Ireland) is a poet" the cue of the question "Where was … born?" is "born". It is
followed by the group "Bray", "Ireland", which "in" links to the preceding text. Whether the first or the second of a
group is the answer, and whether a link can be trusted at all, is not decided here: `lookup` learns it from known facts.

This works for English only: the links and the months are English words.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

_TOKEN = re.compile(r"[^\W_][\w'’]*(?:-[\w'’]+)*")
JOINT = re.compile(r" (?:of|de|del|la|le|upon|am|sur) ")  # joins two capitalised words into one name
_MONTHS_IN_FULL = "january february march april may june july august september october november december"
_MONTHS = frozenset(f"{_MONTHS_IN_FULL} jan feb mar apr jun jul aug sept sep oct nov dec".split())
_PLACES = "city town village suburb island capital state province county district outskirts parish borough region port"
_KINDS_OF_PLACE = frozenset(_PLACES.split())
_LINKS = frozenset(("in", "at", "near", "from", "is", "was", "to", "for", "by", "on", "with"))
_WITHIN = re.compile(r"\s*(?:,|\(|,? ?in|,? ?near|,? ?now|\(now|/|on the island of|, on the island of)\s*")
_COMMA = re.compile(r"\s*,\s*")
_END = re.compile(r"[);]|--|—|–|−| - |\bdied\b|\bd\. ")
_DATES = re.compile(r"\((?:[^()]|\([^()]*\))*?\d{3,4}(?:[^()]|\([^()]*\))*\)")
_REACH = 200  # characters after the cue
_GROUP, _GROUPS = 3, 4  # maximum members of a group, and maximum groups after one cue

# Synonyms of the words of questions.
_SYNONYMS = {
    "born": r"born|birthplace|birth|native of|hails from|b\. ",
    "died": r"died|death|d\. ",
    "live": r"lives?|lived|living|resides?|home",
    "work": r"works?|worked|employed|employer",
}
_GRAMMAR = (
    "who whom whose what where when which why how is was are were am be been do does did has have had can could will "
    "would the a an of in on at to for by from with and or it its his her their as that this there name called"
)
_ASKING = frozenset(_GRAMMAR.split())


@dataclass(frozen=True)
class Candidate:
    """A group of words, and its start in the text."""

    text: str
    start: int


@dataclass(frozen=True)
class Passage:
    """Adjacent candidates, and how they are linked to the cue."""

    kind: str  # "cue": after the cue; "beyond": also past the end of the cue's clause; "dates": in brackets with a year
    rank: int  # linked groups before this one
    link: str
    candidates: tuple[Candidate, ...]


def asking_words(before: str, after: str) -> re.Pattern[str] | None:
    """Return a pattern of the template's content words and their synonyms; None if it has no content words."""
    words = [word for word in re.findall(r"[^\W\d_]+", f"{before} {after}".casefold()) if word not in _ASKING]
    if not words:
        return None
    return re.compile(rf"\b(?:{'|'.join(_SYNONYMS.get(word, re.escape(word)) for word in words)})", re.IGNORECASE)


def find_passages(text: str, name: str, cue: re.Pattern[str] | None) -> Iterator[Passage]:
    """Yield the passages that may hold the answer, after cues and then in dates; `name` is blanked out in the text."""
    own = frozenset(word.casefold() for word in _TOKEN.findall(name))
    for found in cue.finditer(text) if cue is not None else ():
        yield from _groups(text, found.end(), min(len(text), found.end() + _REACH), "cue", own)
    for found in _DATES.finditer(text):  # such as the dates of a life after a name
        yield from _groups(text, found.start() + 1, found.end(), "dates", own)


def _groups(text: str, begin: int, end: int, kind: str, own: Collection[str]) -> Iterator[Passage]:
    rank, last = 0, -1
    for candidate, stop in list(_candidates(text, begin, end))[: _GROUP * _GROUPS]:
        if candidate.start <= last:
            continue  # a member of the previous group
        link = _link(text[begin : candidate.start])
        is_own = all(word.casefold() in own for word in _TOKEN.findall(candidate.text))
        if link == "other" or (is_own and link not in _LINKS):  # "born Smith" is a name, "born in Smith" a place
            continue
        # "born Jerome Poe in Bray" is a name and a place, not one group.
        group, last = _group(text, candidate, stop, end, own, _COMMA if link == "here" else _WITHIN)
        beyond = _END.search(text, begin, candidate.start) is not None
        yield Passage("beyond" if beyond else kind, min(rank, 2), link, group)
        rank += link != "here"  # "here" is a place after "native of", but mostly a name after "born"


def _group(
    text: str, first: Candidate, stop: int, end: int, own: Collection[str], within: re.Pattern[str]
) -> tuple[tuple[Candidate, ...], int]:
    group, last = [first], stop
    for candidate, following in _candidates(text, stop, end):
        joined = within.fullmatch(text, last, candidate.start)
        is_own = all(word.casefold() in own for word in _TOKEN.findall(candidate.text))
        if joined is None or is_own or len(group) == _GROUP:
            break
        group.append(candidate)
        last = following
    return tuple(group), last


def _candidates(text: str, begin: int, end: int) -> Iterator[tuple[Candidate, int]]:
    """Yield groups of capitalised words, each with where it ends; months belong to dates and are skipped."""
    start = stop = -1
    for found in _TOKEN.finditer(text, begin, end):
        word = found.group()
        if not word[0].isupper() or word.casefold() in _MONTHS:
            continue
        joined = start >= 0 and _is_joined(text, start, stop, found.start())
        if not joined:
            if start >= 0:
                yield Candidate(text[start:stop], start), stop
            start = found.start()
        stop = found.end()
    if start >= 0:
        yield Candidate(text[start:stop], start), stop


def _is_joined(text: str, start: int, stop: int, following: int) -> bool:
    """Return whether a word belongs to those before it; after a full stop, only after an abbreviation: "St. James"."""
    gap = text[stop:following]
    if gap == ". ":
        return len(text[start:stop].split()[-1]) <= 2
    return gap == " " or JOINT.fullmatch(gap) is not None


def _link(before: str) -> str:
    """Return what links a candidate to the text before it."""
    found = re.search(r"(?:(\w+)\s+)?([\w]+|[,(/])\s*$", before)
    if found is None:
        return "other" if before.strip() else "here"
    earlier, last = (part.casefold() if part else "" for part in found.groups())
    if last.isdigit() or last in _MONTHS:
        return "date"
    if last == "of" and earlier in _KINDS_OF_PLACE:
        return "in"
    return last if last in _LINKS or last in ",(" else "other"


def known_answers(text: str, vocabulary: Collection[str], most_words: int) -> list[Candidate]:
    """Return every answer of the vocabulary that stands in the text; the longest where several begin."""
    tokens = list(_TOKEN.finditer(text))
    found, place = [], 0
    while place < len(tokens):
        for count in range(min(most_words, len(tokens) - place), 0, -1):
            begin, end = tokens[place].start(), tokens[place + count - 1].end()
            if text[begin:end] in vocabulary:
                found.append(Candidate(text[begin:end], begin))
                place += count - 1
                break
        place += 1
    return found


def sentence_at(text: str, place: int) -> str:
    """Return the sentence around a place in a text, cut to a length that can be quoted."""
    begin = max((found.end() for found in _FULL_STOP.finditer(text, 0, place)), default=0)
    end = _FULL_STOP.search(text, place)
    sentence = text[begin : end.start() + 1 if end else len(text)].strip()
    return sentence if len(sentence) <= _QUOTED else f"{sentence[:_QUOTED].rstrip()} …"


_FULL_STOP = re.compile(r"(?<=[^\W\d_]{2})\s?[.!?](?=\s+[^\W\d_a-z]|\s*$)|(?<=[)\d])\s?[.!?](?=\s+[^\W\d_a-z]|\s*$)")
_QUOTED = 400  # characters
