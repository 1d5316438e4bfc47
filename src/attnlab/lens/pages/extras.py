"""Extras: what a look shows besides the maps, as it is asked for in Python and on the command line.

look_at(run, more=More())                   what heads do, their importance, which are similar, what draws them
look_at(run, more=More(embeddings=True, analogies=(("a", "A", "b", "B"),)))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attnlab.errors import AttnlabError, InputError
from attnlab.lens.embeddings.embeddings import token_of
from attnlab.lens.heads.role_scores import delimiter_tokens
from attnlab.lens.heads.study import Study, study_heads
from attnlab.lens.pages.embedding_views import Question, analogies_view, beside_view, embeddings_view, neurons_view
from attnlab.lens.pages.fact_views import facts_view
from attnlab.lens.pages.head_views import head_tags, study_views, training_view
from attnlab.lens.pages.views import LookView
from attnlab.lens.subjects import Subject, Texts, find_texts
from attnlab.lens.taps import Place

_TOKENS = 12  # whose neighbours are shown if none are named


@dataclass(frozen=True)
class More:
    """What to show besides the maps."""

    heads: bool = True
    worth: bool | None = None  # the importance of each head; None where that takes seconds
    embeddings: bool = False
    tokens: tuple[str, ...] = ()  # for embeddings and neurons: those in question
    analogies: tuple[Question, ...] = ()  # a is to b as c is to d
    beside: str | None = None  # another sentence that shares a token with the text
    neurons: bool = False
    facts: bool = False  # of a run on the generated world
    over_training: bool = False
    on: Path | None = None  # a text file to measure on


@dataclass
class Extras:
    """What was found besides the maps."""

    study: Study | None = None
    views: list[LookView] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def tags(self) -> dict[tuple[Place, int, int], str]:
        return {} if self.study is None else head_tags(self.study)


def find_extras(subject: Subject, text: Sequence[int], more: More, cache: Path | None = None) -> Extras:
    """Find everything that is asked for; `text` are the tokens that the page shows."""
    found = Extras()
    texts = _texts(subject, more, found, cache)
    delimiters = frozenset[int]() if subject.tokenizer is None else delimiter_tokens(subject.tokenizer)
    # First what is asked for by name, so that what cannot be is refused before the longest work.
    found.views = list(_named_views(subject, text, more, texts, delimiters))
    if more.heads and texts is not None:
        found.study = study_heads(
            subject.model, texts.batch, delimiters=delimiters, worth=more.worth, texts=texts.words
        )
        found.views = [*study_views(found.study), *found.views]
        if found.study.ablation is None and more.worth is None:
            found.notes.append("The importance of each head takes minutes in a model of this size: use `worth=True`.")
    return found


def _texts(subject: Subject, more: More, found: Extras, cache: Path | None) -> Texts | None:
    """Return what to measure on. It may be missing if only the heads need it and they were not asked for by name."""
    if not (more.heads or more.neurons or more.over_training):
        return None
    try:
        return find_texts(subject, on=more.on, cache=cache)
    except AttnlabError as error:
        if more.neurons or more.over_training or more.worth or more.on is not None:
            raise
        found.notes.append(f"What heads do is not measured: {error.message}.")
        return None


def _named_views(
    subject: Subject, text: Sequence[int], more: More, texts: Texts | None, delimiters: frozenset[int]
) -> Iterator[LookView]:
    model = subject.model
    named = [token_of(subject.known_tokenizer(), word) for word in dict.fromkeys(more.tokens)]
    if more.embeddings:
        tokens = named or list(dict.fromkeys(text))[:_TOKENS]
        yield embeddings_view(model, subject.known_tokenizer(), tokens)
    if more.analogies:
        yield analogies_view(model, subject.known_tokenizer(), more.analogies)
    if more.beside is not None:
        yield beside_view(model, subject.known_tokenizer(), text, more.beside)
    if more.neurons:
        assert texts is not None  # they were found, or an error was raised
        yield neurons_view(model, subject.known_tokenizer(), texts.batch, named, texts.words)
    if more.facts:
        yield facts_view(subject)
    if more.over_training:
        if subject.run is None:
            raise InputError("only a run has checkpoints to look at", hint="leave out `over_training=True`")
        assert texts is not None
        yield training_view(subject.run[0], texts.batch, delimiters)
