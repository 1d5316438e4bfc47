"""Looking at what every head of a model does with one text.

    look_at("runs/softmax-nano-gpt2-seed0-…", "to be or not to be").write(Path("look.html"))
    look_at("gpt2", "to be or not to be")        a GPT-2 folder of Transformers; a notebook shows the page
    look_at(model, text, tokenizer=tokenizer)    any model

Without a text it is the first row of the run's own validation text. What was done to the text or the run, such as
cutting what does not fit, is said in `notes`.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnlab.corpora import IGNORED, Tokenizer
from attnlab.errors import InputError
from attnlab.lens.maps.attention_maps import LayerMaps, Place, look, places
from attnlab.lens.maps.looks import LayerLook, Look, printable
from attnlab.lens.maps.measures import MEASURES
from attnlab.lens.maps.run_measures import corpus_of_run
from attnlab.lens.pages.further import Found, More, look_further
from attnlab.lens.subjects import Subject, open_subject, shape_words
from attnlab.models import LanguageModel

__all__ = ["MOST_CELLS", "MOST_TOKENS", "NUMBERS", "Subject", "look_at", "open_subject"]

MOST_TOKENS = 512
MOST_CELLS = 200_000_000  # weights that are held in memory at once
NUMBERS = ("entropy", "effective keys", "first-token share", "sparsity", "row mass")  # measures that any map has


def look_at(
    subject: str | Path | LanguageModel,
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
) -> Look:
    """The maps of all heads, or of some layers and heads by their numbers from 0.

    `subject` is a run's folder, a GPT-2 folder of Transformers, or a model with its `tokenizer`. An encoder–decoder
    reads `source` and writes `text`. Of a run, `step` chooses a checkpoint, and `cache` is where its text is kept. A
    text of more than `tokens` is cut. `more` says what to show besides the maps.
    """
    if tokens < 1:
        raise InputError(f"a text of {tokens} tokens cannot be looked at", hint="use a number from 1 on")
    opened = open_subject(subject, tokenizer, step)
    asked = _read(opened, text, source, cache)
    ids = {name: _cut(opened, name, one, tokens) for name, one in asked.items()}
    model, shown = opened.model, opened.tokenizer
    assert shown is not None  # without one there would be no ids
    chosen = _Chosen(layers, heads)
    chosen.check(model, ids)
    found: list[LayerLook] = []
    for place in places(model):
        see = lambda layer, maps, place=place: found.extend(chosen.keep(model, place, layer, maps))  # noqa: E731
        look(model, ids["text"], see, source=ids.get("source"), of=place)
    further = Found() if more is None else look_further(opened, ids["text"][0].tolist(), more, cache)
    return Look(
        title=opened.title,
        tokens=printable(shown, ids["text"][0].tolist()),
        layers=tuple(found),
        source_tokens=printable(shown, ids["source"][0].tolist()) if "source" in ids else (),
        facts={**opened.facts, "model": shape_words(model)},
        notes=(*opened.notes, *further.notes),
        tags=further.tags,
        study=further.study,
        views=tuple(further.views),
    )


# The text


def _read(subject: Subject, text: str | None, source: str | None, cache: Path | None) -> dict[str, Tensor]:
    """The tokens of the text, and of the source where the model reads one, (1, tokens) each."""
    paired = subject.model.encoder is not None
    if source is not None and not paired:
        raise InputError(f"a model of the family {subject.model.spec.family} takes no source", hint="leave source out")
    if text is None and source is None:
        return _first_row(subject, cache)
    given = {"text": text} | ({"source": source} if paired else {})
    for name, one in given.items():
        if one is None:
            raise InputError(
                f"an encoder–decoder needs both its source and its text, and the {name} is missing",
                hint="give both, or neither",
            )
    if subject.tokenizer is None:
        raise InputError("without a tokenizer the text cannot be read", hint="give tokenizer=…")
    return {name: _encode(subject.tokenizer, name, one) for name, one in given.items() if one is not None}


def _encode(tokenizer: Tokenizer, name: str, text: str) -> Tensor:
    ids = tokenizer.encode(text)
    if not ids:
        raise InputError(f"the {name} is empty: there is nothing to look at", hint="give a few words")
    return torch.tensor(ids)[None]


def _first_row(subject: Subject, cache: Path | None) -> dict[str, Tensor]:
    if subject.run is None:
        raise InputError("this model has no text of its own", hint="give a text to look at")
    path, loaded = subject.run
    corpus = corpus_of_run(path, loaded.record, cache)
    context = loaded.resolved.model.context_length
    batch = next(iter(corpus.validation_batches(batch_size=1, context_length=context, limit=1)))
    subject.facts["text"] = f"the first validation row of {corpus.spec.name}"
    if batch.source is None or batch.source_padding is None:
        return {"text": batch.inputs}
    asked = int((batch.targets[0] != IGNORED).nonzero().max()) + 1  # what comes after is padding
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
    """Which layers and heads are looked at."""

    layers: Collection[int] | None
    heads: Collection[int] | None

    def check(self, model: LanguageModel, ids: dict[str, Tensor]) -> None:
        spec = model.spec
        every = (*spec.attention, *spec.encoder_attention, *spec.cross_attention)
        for kind, wanted, count in (
            ("layer", self.layers, spec.num_layers),
            ("head", self.heads, max(one.num_heads for one in every)),
        ):
            odd = [number for number in wanted or () if not 0 <= number < count]
            if odd:
                raise InputError(f"there is no {kind} {odd[0]}", hint=f"the model has {kind}s 0 to {count - 1}")
        layers = spec.num_layers if self.layers is None else len(set(self.layers))
        heads = max(one.num_heads for one in every) if self.heads is None else len(set(self.heads))
        cells = layers * heads * len(places(model)) * max(one.shape[1] for one in ids.values()) ** 2
        if cells > MOST_CELLS:
            raise InputError(
                f"{layers} layers of {heads} heads on this text have {cells / 1e6:.0f} million weights, too many",
                hint="look at some layers or heads, or at fewer tokens",
            )

    def keep(self, model: LanguageModel, place: Place, layer: int, maps: LayerMaps) -> list[LayerLook]:
        """What is shown of a layer."""
        if self.layers is not None and layer not in self.layers:
            return []
        visible = maps.visible.cpu()
        if maps.weights is None:
            specs = {"self": model.spec.attention, "encoder": model.spec.encoder_attention}
            operator = specs.get(place, model.spec.cross_attention)[layer].operator
            words = f"no map: {operator} attention gives no weight to a single token"
            return [LayerLook(place, layer, (), None, visible, absence=words)]
        count = maps.weights.shape[1]
        heads = tuple(head for head in range(count) if self.heads is None or head in self.heads)
        numbers = {name: _plain(MEASURES[name](maps), heads) for name in NUMBERS}
        weights = maps.weights[0, list(heads)].float().cpu()
        return [LayerLook(place, layer, heads, weights, visible, numbers)]


def _plain(values: Tensor, heads: tuple[int, ...]) -> tuple[float | None, ...]:
    numbers: list[Any] = values.tolist()
    return tuple(numbers[head] if math.isfinite(numbers[head]) else None for head in heads)
