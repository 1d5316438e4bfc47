"""What a look shows besides the maps, as it is asked for in Python and on the command line.

look_at(run, more=More())                              what heads do and are worth, which are alike, what draws them
look_at(run, more=More(embeddings=True, analogies=(("a", "A", "b", "B"),)))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attnlab.corpora import Tokenizer
from attnlab.errors import AttnlabError, InputError
from attnlab.lens.embeddings.embeddings import token_of
from attnlab.lens.heads.role_reading import delimiter_tokens
from attnlab.lens.heads.studying import Study, study_heads
from attnlab.lens.maps.attention_maps import Place
from attnlab.lens.pages.embedding_views import Question, analogies_view, beside_view, embeddings_view
from attnlab.lens.pages.fact_views import facts_view
from attnlab.lens.pages.neuron_views import neurons_view
from attnlab.lens.pages.study_views import head_tags, study_views
from attnlab.lens.pages.training_views import training_view
from attnlab.lens.pages.views import View
from attnlab.lens.subjects import Subject
from attnlab.lens.texts import Texts, find_texts

_TOKENS = 12  # whose neighbours are shown if none are named


@dataclass(frozen=True)
class More:
    """What to show besides the maps."""

    heads: bool = True
    worth: bool | None = None  # what each head is worth; None where that takes seconds
    embeddings: bool = False
    tokens: tuple[str, ...] = ()  # for embeddings and neurons: those in question
    analogies: tuple[Question, ...] = ()  # a is to b as c is to d
    beside: str | None = None  # another sentence that shares a token with the text
    neurons: bool = False
    facts: bool = False  # of a run on the generated world
    over_training: bool = False
    on: Path | None = None  # a text file to measure on


@dataclass
class Found:
    """What was found."""

    study: Study | None = None
    views: list[View] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def tags(self) -> dict[tuple[Place, int, int], str]:
        return {} if self.study is None else head_tags(self.study)


def look_further(subject: Subject, text: Sequence[int], more: More, cache: Path | None = None) -> Found:
    """Everything that is asked for; `text` are the tokens that the page shows."""
    found = Found()
    texts = _texts(subject, more, found, cache)
    # First what is asked for by name, so that what cannot be is refused before the longest work.
    found.views = [view() for wanted, view in _wanted(subject, text, more, texts) if wanted]
    if more.heads and texts is not None:
        found.study = study_heads(
            subject.model, texts.batch, delimiters=_delimiters(subject), worth=more.worth, texts=texts.words
        )
        found.views = [*study_views(found.study), *found.views]
        if found.study.worth is None and more.worth is None:
            found.notes.append("What each head is worth takes minutes in a model of this size: ask by --worth.")
    return found


def _texts(subject: Subject, more: More, found: Found, cache: Path | None) -> Texts | None:
    """What to measure on. If only the heads would need it and nobody asked for them by name, it may be missing."""
    if not (more.heads or more.neurons or more.over_training):
        return None
    try:
        return find_texts(subject, on=more.on, cache=cache)
    except AttnlabError as error:
        if more.neurons or more.over_training or more.worth or more.on is not None:
            raise
        found.notes.append(f"What heads do is not measured: {error.message}.")
        return None


def _delimiters(subject: Subject) -> frozenset[int]:
    return frozenset() if subject.tokenizer is None else delimiter_tokens(subject.tokenizer)


def _wanted(
    subject: Subject, text: Sequence[int], more: More, texts: Texts | None
) -> list[tuple[bool, Callable[[], View]]]:
    model = subject.model

    def batch() -> Texts:
        assert texts is not None  # they were found, or it was said why not
        return texts

    return [
        (more.embeddings, lambda: embeddings_view(model, _tokenizer(subject), _tokens(subject, text, more))),
        (bool(more.analogies), lambda: analogies_view(model, _tokenizer(subject), more.analogies)),
        (more.beside is not None, lambda: beside_view(model, _tokenizer(subject), text, more.beside or "")),
        (
            more.neurons,
            lambda: neurons_view(
                model, _tokenizer(subject), batch().batch, _named(subject, more.tokens), batch().words
            ),
        ),
        (more.facts, lambda: facts_view(subject)),
        (more.over_training, lambda: training_view(_run(subject), batch().batch, _delimiters(subject))),
    ]


def _tokenizer(subject: Subject) -> Tokenizer:
    if subject.tokenizer is None:
        raise InputError("without a tokenizer nobody knows what tokens say", hint="give tokenizer=…")
    return subject.tokenizer


def _named(subject: Subject, words: Sequence[str]) -> list[int]:
    return [token_of(_tokenizer(subject), word) for word in dict.fromkeys(words)]


def _tokens(subject: Subject, text: Sequence[int], more: More) -> list[int]:
    """Those that are named, or the first different ones of the text."""
    return _named(subject, more.tokens) or list(dict.fromkeys(text))[:_TOKENS]


def _run(subject: Subject) -> Path:
    if subject.run is None:
        raise InputError("only a run has checkpoints to look at", hint="leave --over-training out")
    return subject.run[0]
