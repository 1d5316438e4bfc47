"""The texts on which heads are asked what they do, and what is read of a model on them, batch by batch."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from attnlab.corpora import Tokenizer
from attnlab.errors import InputError
from attnlab.lens.heads.role_scores import ROLES, Texts, score
from attnlab.lens.maps.attention_maps import LayerMaps, Place, See, attention_layers, check_tokens, look
from attnlab.models import LanguageModel

EXCERPT = 64  # tokens of a text
_EXCERPT_TOKENS = 256  # of all texts, unless two have more
_MOST_WEIGHTS = 1 << 24  # of one layer that are looked at together


class Reading:
    """The texts, and what is read of a model on them."""

    def __init__(self, model: LanguageModel, delimiters: Tensor, of: Place) -> None:
        self.model, self.delimiters, self.of = model, delimiters, of
        self.given: dict[str, dict[str, Tensor | None]] = {}

    def add(self, name: str, tokens: Tensor, padding: Tensor | None, *other: Tensor | None) -> None:
        source, source_padding = other
        for one in (tokens, source):
            if one is not None:
                check_tokens(self.model, one)
        given = {"tokens": tokens, "padding": padding, "source": source, "source_padding": source_padding}
        device = self.delimiters.device
        self.given[name] = {key: None if one is None else one.to(device) for key, one in given.items()}

    def excerpt(self) -> Reading:
        """The beginnings of some of the texts, so few that a model reads them many times without taking long."""
        found = Reading(self.model, self.delimiters, self.of)
        for name, given in self.given.items():
            tokens = given["tokens"]
            assert tokens is not None
            rows = max(2, _EXCERPT_TOKENS // min(tokens.shape[1], EXCERPT))
            found.given[name] = {key: None if one is None else one[:rows, :EXCERPT] for key, one in given.items()}
        return found

    def scores(self, model: LanguageModel, also: See | None = None) -> dict[str, list[Tensor]]:
        """Of each role and layer (texts, heads, 3), not a number where there is nothing to measure; `also` sees the
        maps that are not of repeated text."""
        heads = [layer.spec.num_heads for layer in attention_layers(model, self.of)]
        found: dict[str, list[list[Tensor]]] = {role: [[] for _ in heads] for role in ROLES}
        for name in self.given:
            roles = {role: one for role, one in ROLES.items() if one.repeated == (name == "repeated")}
            for part in self._batches(name):
                texts = self._texts(part)
                where = {role: one.where(texts) for role, one in roles.items() if not (one.within and texts.crosses)}

                def see(
                    layer: int, maps: LayerMaps, where: Mapping[str, Tensor] = where, first: bool = name == "texts"
                ) -> None:
                    if maps.weights is None:
                        return
                    for role, one in zip(where, score(maps, *where.values()).unbind(2) if where else (), strict=True):
                        found[role][layer].append(one.cpu())
                    if also is not None and first:
                        also(layer, maps)

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


# Texts and tokens


def repeated_tokens(vocabulary_size: int, texts: int, length: int, *, seed: int = 0) -> Tensor:
    """Random tokens that are said again and again, (texts, length): each text with its own period, from a quarter to a
    half of the length. Inside a period no token comes twice, as far as the vocabulary allows."""
    if length < 4 or texts < 1:
        raise InputError(f"{texts} texts of {length} tokens cannot repeat anything", hint="use 4 tokens or more")
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(texts):
        period = int(torch.randint(length // 4 + 1, length // 2 + 1, (), generator=generator))
        enough = -(-period // vocabulary_size)
        drawn = torch.cat([torch.randperm(vocabulary_size, generator=generator) for _ in range(enough)])[:period]
        rows.append(drawn.repeat(-(-length // period))[:length])
    return torch.stack(rows)


def delimiter_tokens(tokenizer: Tokenizer) -> frozenset[int]:
    """The tokens that are nothing but spaces, line ends and punctuation."""
    every = ((token, tokenizer.decode([token])) for token in range(tokenizer.vocabulary_size))
    return frozenset(token for token, piece in every if piece and all(map(_parts, piece)))


def _parts(character: str) -> bool:
    return character.isspace() or unicodedata.category(character)[0] == "P"


def marked(model: LanguageModel, delimiters: Collection[int]) -> Tensor:
    """(vocabulary,), True for a delimiter."""
    size = model.spec.vocabulary_size
    odd = [token for token in delimiters if not 0 <= token < size]
    if odd:
        raise InputError(
            f"the delimiter {odd[0]} is no token: the model knows 0 to {size - 1}",
            hint="use delimiter_tokens with the tokenizer that the model was trained with",
        )
    marked = torch.zeros(size, dtype=torch.bool)
    marked[list(delimiters)] = True
    return marked.to(model.embedding.weight.device)
