"""Queries for the full-text search: words without case and accents, quoted, so that none is an operator."""

from __future__ import annotations

import unicodedata

from attnlab.errors import InputError
from attnlab.knowledge.text import fold, shorten, tidy

_MOST_WORDS = 64  # in a query; a longer name is searched by its first words, then compared in full


def match_all(words: str) -> str:
    """Return what the full-text search is asked for: texts with all these words, whatever their accents and case."""
    folded = fold(tidy(words, "search"))
    if not folded or not has_words(folded):
        raise InputError(f"nothing to search for in {shorten(words)!r}", hint="give a name or some words")
    return " ".join(phrase(word) for word in folded.split()[:_MOST_WORDS] if has_words(word))


def phrase(folded: str) -> str:
    """Quote these words, in this order, as a phrase of the full-text search, so that none of them is an operator."""
    words = [word for word in folded.split() if has_words(word)][:_MOST_WORDS]
    return '"' + " ".join(words).replace('"', '""') + '"'


def has_words(folded: str) -> bool:
    """Return whether the text has a character that the full-text search takes for part of a word."""
    kinds = map(unicodedata.category, folded)
    return any(kind[0] in "LNM" or kind in {"Co", "So", "Sk"} for kind in kinds)
