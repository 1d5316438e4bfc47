"""The same token in two sentences, layer by layer: where a vector begins to tell of its context.

    found = same_token(model, one, two)
    found.similarity        the cosine of the token's two vectors, at the embedding, before the blocks and behind each
    found.others            the mean cosine of all different tokens of the two, at the same place

At the embedding the similarity is 1, whatever the sentence. Further up all vectors of many models point nearly the same
way, so that a large cosine says nothing unless it is larger than that of other tokens (Ethayarajh, arXiv 1909.00512):

    kept = (similarity − others) / (1 − others)         1: it is still the token alone; 0: as alike as any two
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.errors import InputError, UnsupportedError
from attnlab.lens.maps.attention_maps import check_tokens, evaluating
from attnlab.models import LanguageModel


@dataclass(frozen=True)
class SameToken:
    """A token at one place of each of two sentences."""

    token: int
    places: tuple[int, int]
    names: tuple[str, ...]  # as `model.tap` knows them
    similarity: tuple[float, ...]
    others: tuple[float, ...]  # not a number where the sentences have no two different tokens

    @property
    def kept(self) -> tuple[float, ...]:
        pairs = zip(self.similarity, self.others, strict=True)
        return tuple((one - other) / (1 - other) if other < 1 else math.nan for one, other in pairs)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        rows = zip(self.names, self.similarity, self.others, self.kept, strict=True)
        keys = ("name", "similarity", "others", "kept")
        layers = [dict(zip(keys, (name, *map(_plain, values)), strict=True)) for name, *values in rows]
        return {"token": self.token, "places": list(self.places), "layers": layers}


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


def same_token(model: LanguageModel, one: Sequence[int], two: Sequence[int], token: int | None = None) -> SameToken:
    """Compare what a model makes of a token in two sentences, where it stands last in each.

    Without a `token`, it is the last token of the first sentence that the second has too.
    """
    if model.encoder is not None:
        raise UnsupportedError("an encoder–decoder reads two sequences at once", hint="use a decoder or an encoder")
    common = [number for number in one if number in set(two)] if token is None else [token]
    if not common or common[-1] not in one or common[-1] not in two:
        what = "no token" if token is None else f"token {token} not"
        raise InputError(f"{what} in both sentences", hint="give sentences that share a token")
    token = common[-1]
    places = tuple(max(i for i, number in enumerate(sentence) if number == token) for sentence in (one, two))
    names = ["embedding", "residual", *(f"blocks.{layer}.residual" for layer in range(model.spec.num_layers))]
    seen_one, seen_two = (_read(model, sentence, names) for sentence in (one, two))
    differ = torch.tensor(one)[:, None] != torch.tensor(two)
    similarity, others = [], []
    for name in names:
        cosines = seen_one[name] @ seen_two[name].t()  # (tokens of one, tokens of two)
        similarity.append(float(cosines[places]))
        others.append(float(cosines[differ].mean()))
    return SameToken(token, (places[0], places[1]), tuple(names), tuple(similarity), tuple(others))


def _read(model: LanguageModel, sentence: Sequence[int], names: list[str]) -> dict[str, Tensor]:
    """The directions of all tokens at each name, (tokens, model width)."""
    tokens = torch.tensor([list(sentence)], dtype=torch.long)
    check_tokens(model, tokens)
    with evaluating(model), model.tap(*names) as seen:
        model.hidden(tokens.to(model.embedding.weight.device))
    return {name: F.normalize(seen[name][0].double().cpu(), dim=-1) for name in names}
