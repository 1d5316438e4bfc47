"""The texts on which heads are asked what they do, and what is read of a model on them, batch by batch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from attnlab.lens.maps import LayerMaps, Place, attention_layers, look
from attnlab.lens.measures import MEASURES
from attnlab.lens.role_scores import ROLES, PlaceShare, Texts, score
from attnlab.models import LanguageModel

_MOST_WEIGHTS = 1 << 24  # of one layer that are looked at together


class Reading:
    """The texts, and what is read of a model on them."""

    def __init__(self, model: LanguageModel, delimiters: Tensor, of: Place) -> None:
        self.model, self.delimiters, self.of = model, delimiters, of
        self.given: dict[str, dict[str, Tensor | None]] = {}

    def add(self, name: str, tokens: Tensor, padding: Tensor | None, *other: Tensor | None) -> None:
        source, source_padding = other
        given = {"tokens": tokens, "padding": padding, "source": source, "source_padding": source_padding}
        device = self.delimiters.device
        self.given[name] = {key: None if one is None else one.to(device) for key, one in given.items()}

    def numbers(self) -> list[dict[str, Tensor | PlaceShare]]:
        """Of each layer the entropies (texts, heads, queries), and what place explains, where there is a map."""
        entropies: list[list[Tensor]] = [[] for _ in attention_layers(self.model, self.of)]
        places = [PlaceShare() for _ in entropies]

        def see(layer: int, maps: LayerMaps) -> None:
            if maps.weights is not None:
                found = MEASURES["entropy"].observe(maps)
                assert found is not None
                entropies[layer].append(found)
                places[layer].add(maps)

        for part in self._batches("texts"):
            look(self.model, see=see, of=self.of, **part)
        return [
            {"entropy": torch.cat(kept), "place": place} if kept else {}
            for kept, place in zip(entropies, places, strict=True)
        ]

    def scores(self, model: LanguageModel) -> dict[str, list[Tensor]]:
        """Of each role and layer (texts, heads, 3), not a number where there is nothing to measure."""
        heads = [layer.spec.num_heads for layer in attention_layers(model, self.of)]
        found: dict[str, list[list[Tensor]]] = {role: [[] for _ in heads] for role in ROLES}
        for name in self.given:
            roles = {role: one for role, one in ROLES.items() if one.repeated == (name == "repeated")}
            for part in self._batches(name):
                texts = self._texts(part)
                where = {role: one.where(texts) for role, one in roles.items() if not (one.within and texts.crosses)}

                def see(layer: int, maps: LayerMaps, where: Mapping[str, Tensor] = where) -> None:
                    for role, sets in where.items() if maps.weights is not None else ():
                        found[role][layer].append(score(maps, sets).cpu())

                look(model, see=see, of=self.of, **part)
        nothing = torch.full((1, 1, 3), math.nan, dtype=torch.float64)
        return {
            role: [torch.cat(kept) if kept else nothing.expand(1, h, 3) for kept, h in zip(layers, heads, strict=True)]
            for role, layers in found.items()
        }

    def _texts(self, part: Mapping[str, Any]) -> Texts:
        queries = part["source"] if self.of == "encoder" else part["tokens"]
        keys = part["tokens"] if self.of == "self" else part["source"]
        return Texts(queries, keys, self.delimiters, self.of == "cross")

    def _batches(self, name: str) -> Iterator[dict[str, Any]]:
        given = self.given[name]
        tokens = given["tokens"]
        assert tokens is not None
        longest = max(one.shape[1] for one in given.values() if one is not None)
        heads = max(layer.spec.num_heads for layer in attention_layers(self.model, self.of))
        rows = max(1, _MOST_WEIGHTS // (heads * longest**2))
        for start in range(0, len(tokens), rows):
            yield {key: None if one is None else one[start : start + rows] for key, one in given.items()}
