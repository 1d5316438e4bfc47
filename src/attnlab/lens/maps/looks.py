"""What was seen when a model was looked at: the weights of each head on one text, and what they come to in numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from attnlab.corpora import Tokenizer
from attnlab.lens.heads.studying import Study
from attnlab.lens.maps.attention_maps import Place
from attnlab.lens.pages import look_page
from attnlab.lens.pages.views import View
from attnlab.pages import Page, write_page

_MARKS = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍"}
_DIGITS = 6  # of the numbers in JSON, as more are nothing but rounding


@dataclass(frozen=True, eq=False)
class LayerLook:
    """One layer on one text. A layer that has no map says why in `absence`."""

    place: Place
    layer: int
    heads: tuple[int, ...]  # those that were asked for
    weights: Tensor | None  # (heads, queries, keys)
    visible: Tensor  # (queries, keys), True where the query sees the key
    numbers: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)  # of each head, by the measure's name
    absence: str = ""

    @property
    def row_mass(self) -> Tensor | None:
        """How much each query takes in, (heads, queries)."""
        return None if self.weights is None else self.weights.sum(-1)


@dataclass(frozen=True, eq=False)
class Look:
    """A text as all heads of a model see it. `write` makes a page of it, and a notebook shows that page."""

    title: str
    tokens: tuple[str, ...]
    layers: tuple[LayerLook, ...]
    source_tokens: tuple[str, ...] = ()  # what the encoder of an encoder–decoder reads
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    tags: Mapping[tuple[Place, int, int], str] = field(default_factory=dict)  # what a head does, in a word
    study: Study | None = None  # of all heads, where that was asked for
    views: Sequence[View] = ()  # what else was looked at

    def sequences(self, place: Place) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The tokens that look, and those that they look at."""
        queries = self.source_tokens if place == "encoder" else self.tokens
        return queries, self.tokens if place == "self" else self.source_tokens

    def of(self, place: Place) -> list[LayerLook]:
        """The layers that attend in this place."""
        return [layer for layer in self.layers if layer.place == place]

    def to_dict(self, *, weights: bool = False) -> dict[str, Any]:
        """As strict JSON can hold it; all weights only on request, as there may be millions."""
        return {
            "title": self.title,
            "tokens": list(self.tokens),
            "source_tokens": list(self.source_tokens),
            "facts": dict(self.facts),
            "notes": list(self.notes),
            "layers": [_layer(layer, weights) for layer in self.layers],
            **{view.name: view.data for view in self.views},
        }

    def page(self) -> Page:
        return look_page.look_page(self)

    def write(self, path: Path) -> None:
        """Write the page as a whole or not at all."""
        write_page(self.page(), path)

    def _repr_html_(self) -> str:
        return look_page.notebook_html(self)


def _layer(layer: LayerLook, weights: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"place": layer.place, "layer": layer.layer}
    if layer.weights is None or layer.row_mass is None:
        return {**found, "absence": layer.absence, "heads": []}
    masses, maps = layer.row_mass.tolist(), layer.weights.tolist() if weights else ()
    heads = [
        {
            "head": head,
            "numbers": {name: _plain(values[place]) for name, values in layer.numbers.items()},
            "row_mass": [_plain(mass) for mass in masses[place]],
            **({"weights": [[_plain(weight) for weight in row] for row in maps[place]]} if weights else {}),
        }
        for place, head in enumerate(layer.heads)
    ]
    return {**found, "heads": heads}


def _plain(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.{_DIGITS}g}")


def printable(tokenizer: Tokenizer, ids: Iterable[int]) -> tuple[str, ...]:
    """Each token as something that can be seen: spaces and line ends as signs, half characters as their bytes."""
    return tuple(_shown(tokenizer, token) for token in ids)


def _shown(tokenizer: Tokenizer, token: int) -> str:
    piece = tokenizer.decode([token])
    if tokenizer.kind == "byte" and token > 127:
        return f"\\x{token:02x}"
    return "".join(_sign(character) for character in piece) or "∅"


def _sign(character: str) -> str:
    if character in _MARKS:
        return _MARKS[character]
    return character if character.isprintable() else repr(character)[1:-1]
