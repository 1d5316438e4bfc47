"""What each head does, in numbers, and by name where a name is safe.

    found = head_roles(model, tokens, delimiters=delimiter_tokens(tokenizer))
    found[1, 3].roles                                   ("induction",)
    found[1, 3].scores["induction"].excess              Interval(mean, low, high) over texts: 0 chance, 1 everything
    found.named("previous token")                       the heads that have this role

The rule. A head gets a role if

 1. its excess over chance is at least `least`: the lower end of the interval over texts is above it, and
 2. it exceeds that of every head of the model's shuffled copies (`shuffled.py`) in all but a share `rate` of them.

A model whose weights are random cannot be told from its copies, so the second alone says for each role: at most a
share `rate` of random models has *any* head that is given it, whatever the size of their weights, the variant and the
number of heads. The first keeps out what is real but small. A head may have several roles, the strongest first.

Same token and induction are measured on random tokens that are repeated, at a distance that differs from text to text:
there neither meaning, nor position, nor distance tells which key it is.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from attnlab.corpora import Tokenizer
from attnlab.errors import InputError, UnknownNameError
from attnlab.lens.maps import Place, attention_layers
from attnlab.lens.measures import MEASURES, Described
from attnlab.lens.ranks import head_ranks
from attnlab.lens.role_reading import Reading
from attnlab.lens.role_scores import ROLES, PlaceShare
from attnlab.lens.shuffled import shuffled_models
from attnlab.models import LanguageModel
from attnlab.statistics import Interval, mean_interval

RATE = 0.05
LEAST = 0.1
LEVEL = 0.95
CONTROLS = 19

NUMBERS: Mapping[str, Described] = MappingProxyType(
    {
        "position explains": Described("what of the map's variance is the same in every text", "share"),
        "distance explains": Described("what of it follows from the distance of query and key alone", "share"),
        "entropy": Described(MEASURES["entropy"].meaning, MEASURES["entropy"].unit),
        "rank of QK": Described("the effective rank of what a query's token asks of a key's", "directions"),
        "rank of OV": Described("the effective rank of what a key's token becomes for the query's", "directions"),
    }
)


@dataclass(frozen=True)
class RoleScore:
    """How far a head plays a role: the means over texts of what its keys get and of what they would by chance, the
    excess, and the share of shuffled copies of the model with a head that plays it as far."""

    share: float
    chance: float
    excess: Interval
    p: float | None  # None without copies


@dataclass(frozen=True)
class HeadRole:
    """A head: its roles, the strongest first, and the numbers; None where there is nothing to measure."""

    layer: int
    head: int
    roles: tuple[str, ...]
    scores: Mapping[str, RoleScore | None]
    numbers: Mapping[str, float | None]


@dataclass(frozen=True)
class HeadRoles:
    """The heads of a model, by layer and head, and the rule by which they have names."""

    heads: tuple[HeadRole, ...]
    rate: float
    least: float
    level: float
    controls: int

    def __getitem__(self, place: tuple[int, int]) -> HeadRole:
        for one in self.heads:
            if (one.layer, one.head) == place:
                return one
        raise UnknownNameError("head", str(place), {str((one.layer, one.head)) for one in self.heads})

    def named(self, role: str) -> list[HeadRole]:
        """The heads with this role, the strongest first."""
        if role not in ROLES:
            raise UnknownNameError("role", role, ROLES)
        found = [(one.scores[role], one) for one in self.heads if role in one.roles]
        return [one for _, one in sorted(found, key=lambda pair: -pair[0].excess.mean if pair[0] else 0.0)]

    @property
    def rule(self) -> str:
        return (
            f"A head has a role where its attention exceeds chance by more than {self.least:g} of what is possible, at "
            f"{self.level:.0%} over texts, and by more than any head does in all but {self.rate:.0%} of "
            f"{self.controls} copies of the model with shuffled weights."
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def head_roles(
    model: LanguageModel,
    tokens: Tensor,
    *,
    delimiters: Collection[int] = (),
    repeated: Tensor | None = None,
    padding: Tensor | None = None,
    source: Tensor | None = None,
    source_padding: Tensor | None = None,
    of: Place = "self",
    rate: float = RATE,
    least: float = LEAST,
    level: float = LEVEL,
    controls: int = CONTROLS,
    seed: int = 0,
) -> HeadRoles:
    """What every head does with two texts or more, tokens (texts, tokens).

    `repeated` are the texts for the roles that are about repetition, by default as many of `repeated_tokens`, so short
    that a window shows all of them. Without controls there are numbers but no names.
    """
    if controls < 0 or not 0 < rate < 1 or (controls and 1 / (1 + controls) > rate):
        raise InputError(
            f"{controls} shuffled copies cannot tell what happens in {rate:.3g} of them",
            hint=f"use controls={math.ceil(1 / rate - 1) if 0 < rate < 1 else CONTROLS} or more, or 0 for no names",
        )
    if len(tokens) < 2:
        raise InputError(f"texts: {len(tokens)}, too few for an interval", hint="give two rows or more")
    if repeated is None:
        windows = [layer.spec.mask.window for layer in attention_layers(model, of)]
        length = min(model.spec.context_length, 2 * tokens.shape[1], *(max(4, one) for one in windows if one))
        repeated = repeated_tokens(model.spec.vocabulary_size, len(tokens), length, seed=seed)
    reading = Reading(model, _marked(model, delimiters), of)
    reading.add("texts", tokens, padding, source, source_padding)
    reading.add("repeated", repeated, None, repeated if source is not None else None, None)
    numbers = [_numbers(*both, of) for both in zip(reading.numbers(), head_ranks(model, of), strict=True)]
    scores = reading.scores(model)
    highest: dict[str, list[float]] = {role: [] for role in ROLES}
    for copied in shuffled_models(model, controls, seed):
        for role, layers in reading.scores(copied).items():
            excess = torch.cat([one[..., 2].nanmean(0) for one in layers])
            highest[role].append(excess.nan_to_num(-math.inf).max().item())
    heads = []
    for layer, own in enumerate(numbers):
        for head, described in enumerate(own):
            found = {role: _score(layers[layer][:, head], highest[role], level) for role, layers in scores.items()}
            roles = _named(found, rate, least)
            heads.append(HeadRole(layer, head, roles, found, described))
    return HeadRoles(tuple(heads), rate, least, level, controls)


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


def _marked(model: LanguageModel, delimiters: Collection[int]) -> Tensor:
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


# From numbers to names


def _numbers(kept: Mapping[str, Any], ranks: tuple[Tensor, Tensor], of: Place) -> list[dict[str, float | None]]:
    """Of each head of a layer."""
    nothing = torch.full_like(ranks[0], math.nan)
    place: PlaceShare | None = kept.get("place")
    found = {
        "position explains": nothing if place is None else place.position(),
        "distance explains": nothing if place is None or of == "cross" else place.distance(),
        "entropy": MEASURES["entropy"].reduce(kept["entropy"]) if kept else nothing,
        "rank of QK": ranks[0],
        "rank of OV": ranks[1],
    }
    columns = {name: values.tolist() for name, values in found.items()}
    return [
        {name: value[head] if math.isfinite(value[head]) else None for name, value in columns.items()}
        for head in range(len(nothing))
    ]


def _score(texts: Tensor, highest: list[float], level: float) -> RoleScore | None:
    """From (texts, 3); None where fewer than two texts have something to measure."""
    known = texts[texts.isfinite().all(-1)]
    if len(known) < 2:
        return None
    share, chance, _ = known.mean(0).tolist()
    excess = mean_interval(known[:, 2].tolist(), level)
    p = (1 + sum(one >= excess.mean for one in highest)) / (1 + len(highest)) if highest else None
    return RoleScore(share, chance, excess, p)


def _named(scores: Mapping[str, RoleScore | None], rate: float, least: float) -> tuple[str, ...]:
    found = [
        (one.excess.mean, role)
        for role, one in scores.items()
        if one is not None and one.p is not None and one.p <= rate and one.excess.low > least
    ]
    return tuple(role for _, role in sorted(found, reverse=True))
