"""A look: one text as every head of a model sees it, with measures of the maps.

    look_at("runs/softmax-nano-gpt2-seed0-…", "to be or not to be").write(Path("look.html"))
    look_at("gpt2", "to be or not to be")        a folder of Hugging Face or a GGUF file; a notebook shows the page
    look_at(model, text, tokenizer=tokenizer)    any model
    look_at(run, more=More())                    what heads do, their importance, which are similar, what draws them
    look_at(run, more=More(embeddings=True, analogies=(("a", "A", "b", "B"),)))

The default text is the first row of the run's own validation text, or of Python's documentation. `notes` says what was
done to the text or the run, such as truncating the text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from attnlab.attention.layers.own import NO_MAPS
from attnlab.corpora import IGNORED, Tokenizer
from attnlab.errors import AttnlabError, InputError, UnsupportedError
from attnlab.lens.embeddings import token_of
from attnlab.lens.heads.role_scores import delimiter_tokens
from attnlab.lens.heads.study import Study, study_heads
from attnlab.lens.measures import MEASURES
from attnlab.lens.pages import look_page
from attnlab.lens.pages.head_views import head_tags, study_views, training_view
from attnlab.lens.pages.look_page import DIGITS, LookView, printable
from attnlab.lens.pages.model_views import (
    Question,
    analogies_view,
    beside_view,
    embeddings_view,
    facts_view,
    neurons_view,
)
from attnlab.lens.subjects import Subject, Texts, find_texts, open_subject, shape_words
from attnlab.lens.taps import Inputs, LayerMaps, Place, Progress, attention_specs, look, places, silent
from attnlab.models import LanguageModel
from attnlab.pages import HasPage, Page
from attnlab.storage.records import to_plain

_TOKENS = 12  # whose neighbours are shown if none are named


@dataclass(frozen=True)
class More:
    """What to show besides the maps."""

    heads: bool = True
    importance: bool | None = None  # the importance of each head; None: if that takes only seconds
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


def find_extras(
    subject: Subject, text: Sequence[int], more: More, cache: Path | None = None, progress: Progress = silent
) -> Extras:
    """Find everything that is asked for; `text` are the tokens that the page shows."""
    found = Extras()
    texts = _texts(subject, more, found, cache)
    delimiters = frozenset[int]() if subject.tokenizer is None else delimiter_tokens(subject.tokenizer)
    # Views that are requested by name come first, so that impossible ones are refused before the longest work.
    found.views = list(_named_views(subject, text, more, texts, delimiters))
    if more.heads and texts is not None:
        found.study = study_heads(
            subject.model,
            texts.batch,
            delimiters=delimiters,
            importance=more.importance,
            texts=texts.words,
            progress=progress,
        )
        found.views = [*study_views(found.study), *found.views]
        if found.study.ablation is None and more.importance is None:
            found.notes.append("The importance of heads takes minutes in a model of this size: use `importance=True`.")
    return found


def _texts(subject: Subject, more: More, found: Extras, cache: Path | None) -> Texts | None:
    """Return the texts to measure on. They may be missing if only heads need them that were not asked for by name."""
    if not (more.heads or more.neurons or more.over_training):
        return None
    try:
        return find_texts(subject, on=more.on, cache=cache)
    except AttnlabError as error:
        if more.neurons or more.over_training or more.importance or more.on is not None:
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


MOST_TOKENS = 512
MOST_CELLS = 200_000_000  # weights that are held in memory at once
NUMBERS = ("entropy", "effective keys", "first-token share", "sparsity", "row mass")  # measures that any map has


@dataclass(frozen=True, eq=False)
class LayerLook:
    """One layer on one text. `absence` says why a layer has no map."""

    place: Place
    layer: int
    heads: tuple[int, ...]  # those that were asked for
    weights: Tensor | None  # (heads, queries, keys)
    visible: Tensor  # (queries, keys), True where the query sees the key
    numbers: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)  # of each head, by the measure's name
    absence: str = ""

    @property
    def row_mass(self) -> Tensor | None:
        """Return the mass of each row, (heads, queries)."""
        return None if self.weights is None else self.weights.sum(-1)

    def to_dict(self, *, weights: bool = False) -> dict[str, object]:
        """Return plain data, with all weights on request."""
        found: dict[str, object] = {"place": self.place, "layer": self.layer}
        if self.weights is None or self.row_mass is None:
            return {**found, "absence": self.absence, "heads": []}
        heads = [
            {
                "head": head,
                "numbers": {name: values[place] for name, values in self.numbers.items()},
                "row_mass": self.row_mass[place].tolist(),
                **({"weights": self.weights[place].tolist()} if weights else {}),
            }
            for place, head in enumerate(self.heads)
        ]
        return {**found, "heads": to_plain(heads, nulls=True, digits=DIGITS)}


@dataclass(frozen=True, eq=False)
class Look(HasPage):
    """A text as all heads of a model see it. `write` saves it as a page, and a notebook shows this page."""

    title: str
    tokens: tuple[str, ...]
    layers: tuple[LayerLook, ...]
    source_tokens: tuple[str, ...] = ()  # what the encoder of an encoder–decoder reads
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    tags: Mapping[tuple[Place, int, int], str] = field(default_factory=dict)  # the role of a head, in one word
    study: Study | None = None  # of all heads, where that was asked for
    views: Sequence[LookView] = ()  # further views

    def sequences(self, place: Place) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the tokens of the queries, and those of the keys."""
        queries = self.source_tokens if place == "encoder" else self.tokens
        return queries, self.tokens if place == "self" else self.source_tokens

    def of(self, place: Place) -> list[LayerLook]:
        """Return the layers that attend in this place."""
        return [layer for layer in self.layers if layer.place == place]

    def to_dict(self, *, weights: bool = False) -> dict[str, object]:
        """Return plain data; all weights only on request, as there may be millions."""
        return {
            "title": self.title,
            "tokens": list(self.tokens),
            "source_tokens": list(self.source_tokens),
            "facts": dict(self.facts),
            "notes": list(self.notes),
            "layers": [layer.to_dict(weights=weights) for layer in self.layers],
            **{view.name: view.data for view in self.views},
        }

    def page(self) -> Page:
        return look_page.look_page(self)


def look_at(
    subject: str | Path | LanguageModel | Subject,
    text: str | None = None,
    *,
    source: str | None = None,
    tokenizer: Tokenizer | None = None,
    step: int | None = None,
    tokens: int = MOST_TOKENS,
    layers: Collection[int] | None = None,
    heads: Collection[int] | None = None,
    more: More | None = None,
    cache: Path | None = None,
    progress: Progress = silent,
) -> Look:
    """Return the maps of all heads, or of some layers and heads by their numbers from 0.

    `subject` is a run's folder, the path of a pretrained model, or a model with its `tokenizer`. An encoder–decoder
    reads `source` and generates `text`. For a run, `step` chooses a checkpoint, and `cache` is the folder of its
    corpus. A text of more than `tokens` is truncated. `more` says what to show besides the maps; `progress` is called
    at every step.
    """
    if tokens < 1:
        raise InputError(f"a text of {tokens} tokens cannot be looked at", hint="use a number from 1 on")
    progress("opening the model")
    opened = open_subject(subject, tokenizer, step)
    asked = _read(opened, text, source, cache)
    ids = {name: _cut(opened, name, one, tokens) for name, one in asked.items()}
    model, shown = opened.model, opened.known_tokenizer()
    chosen = _Chosen(layers, heads)
    chosen.check(model, ids)
    progress("running the model on the text")
    found: list[LayerLook] = []
    for place in places(model):
        see = lambda layer, maps, place=place: found.extend(chosen.keep(model, place, layer, maps))  # noqa: E731
        look(model, Inputs(ids["text"], source=ids.get("source")), see, of=place)
    extras = Extras() if more is None else find_extras(opened, ids["text"][0].tolist(), more, cache, progress)
    return Look(
        title=opened.title,
        tokens=printable(shown, ids["text"][0].tolist()),
        layers=tuple(found),
        source_tokens=printable(shown, ids["source"][0].tolist()) if "source" in ids else (),
        facts={**opened.facts, "model": shape_words(model)},
        notes=(*opened.notes, *extras.notes),
        tags=extras.tags,
        study=extras.study,
        views=tuple(extras.views),
    )


# The text


def _read(subject: Subject, text: str | None, source: str | None, cache: Path | None) -> dict[str, Tensor]:
    """Return the tokens of the text, and of the source where the model reads one, (1, tokens) each."""
    paired = subject.model.encoder is not None
    if source is not None and not paired:
        raise InputError(
            f"a model of the family {subject.model.spec.family} takes no source", hint="leave out `source`"
        )
    if text is None and source is None:
        return _first_row(subject, cache)
    given = {"text": text} | ({"source": source} if paired else {})
    for name, one in given.items():
        if one is None:
            raise InputError(
                f"an encoder–decoder needs both its source and its text, and the {name} is missing",
                hint="give both, or neither",
            )
    tokenizer = subject.known_tokenizer()
    return {name: _encode(tokenizer, name, one) for name, one in given.items() if one is not None}


def _encode(tokenizer: Tokenizer, name: str, text: str) -> Tensor:
    ids = tokenizer.encode(text)
    if not ids:
        raise InputError(f"the {name} is empty: there is nothing to look at", hint="give a few words")
    return torch.tensor(ids)[None]


def _first_row(subject: Subject, cache: Path | None) -> dict[str, Tensor]:
    if subject.run is None and subject.tokenizer is not None:
        texts = find_texts(subject, rows=2, cache=cache)
        subject.facts["text"] = "the first of " + texts.words
        return {"text": texts.batch.inputs[:1]}
    corpus = subject.corpus(cache)
    context = subject.model.spec.context_length
    batch = next(iter(corpus.validation_batches(batch_size=1, context_length=context, limit=1)))
    subject.facts["text"] = f"the first validation row of {corpus.spec.name}"
    if batch.source is None or batch.source_padding is None:
        return {"text": batch.inputs}
    asked = int((batch.targets[0] != IGNORED).nonzero().max()) + 1  # the rest is padding
    return {"text": batch.inputs[:, :asked], "source": batch.source[:, batch.source_padding[0]]}


def _cut(subject: Subject, name: str, ids: Tensor, most: int) -> Tensor:
    context, count = subject.model.spec.context_length, ids.shape[1]
    room = min(context, most)
    if count <= room:
        return ids
    why = f"the model’s context has {context}" if room == context else f"at most {most} were asked for"
    subject.notes.append(f"The {name} has {count} tokens, and {why}: the first {room} are shown.")
    return ids[:, :room]


# The maps


@dataclass(frozen=True)
class _Chosen:
    """The layers and heads that are shown."""

    layers: Collection[int] | None
    heads: Collection[int] | None

    def check(self, model: LanguageModel, ids: dict[str, Tensor]) -> None:
        spec = model.spec
        most = max(one.observed_heads for one in attention_specs(model))
        if self.heads and most == 0:
            raise UnsupportedError(f"no layer of this model has heads: {NO_MAPS}", hint="leave out the heads")
        for kind, wanted, count in (("layer", self.layers, spec.num_layers), ("head", self.heads, most)):
            odd = [number for number in wanted or () if not 0 <= number < count]
            if odd:
                raise InputError(f"there is no {kind} {odd[0]}", hint=f"the model has {kind}s 0 to {count - 1}")
        layers = spec.num_layers if self.layers is None else len(set(self.layers))
        heads = most if self.heads is None else len(set(self.heads))
        cells = layers * heads * len(places(model)) * max(one.shape[1] for one in ids.values()) ** 2
        if cells > MOST_CELLS:
            raise InputError(
                f"{layers} layers of {heads} heads on this text have {cells / 1e6:.0f} million weights, too many",
                hint="look at some layers or heads, or at fewer tokens",
            )

    def keep(self, model: LanguageModel, place: Place, layer: int, maps: LayerMaps) -> list[LayerLook]:
        """Return the part of a layer that is shown."""
        if self.layers is not None and layer not in self.layers:
            return []
        visible = maps.visible.cpu()
        if maps.weights is None:
            specs = {"self": model.spec.attention, "encoder": model.spec.encoder_attention}
            spec = specs.get(place, model.spec.cross_attention)[layer]
            words = f"no map: {spec.operator} attention gives no weight to a single token"
            if spec.layer is not None:
                words = f"{spec.layer}: {NO_MAPS}"
            return [LayerLook(place, layer, (), None, visible, absence=words)]
        count = maps.weights.shape[1]
        heads = tuple(head for head in range(count) if self.heads is None or head in self.heads)
        measured = {name: to_plain(MEASURES[name](maps).tolist(), nulls=True) for name in NUMBERS}
        numbers = {name: tuple(values[head] for head in heads) for name, values in measured.items()}
        weights = maps.weights[0, list(heads)].float().cpu()
        return [LayerLook(place, layer, heads, weights, visible, numbers)]
