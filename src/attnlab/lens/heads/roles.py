"""The roles of heads: scores for every head, and names where the evidence suffices.

    found = head_roles(model, tokens, delimiters=delimiter_tokens(tokenizer))
    found[1, 3].roles                                   ("induction",)
    found[1, 3].scores["induction"].excess              Interval(mean, low, high) over texts: 0 chance, 1 everything
    found.named("previous token")                       the heads that have this role

The rule. A head gets a role if

 1. its excess over chance is at least `least`: the lower end of the interval over texts is above it, and
 2. it exceeds that of every head in all but a share `rate` of the model's shuffled copies (`subjects.py`), all
    measured on the same excerpt of the texts.

A model with random weights is indistinguishable from its copies, so the second condition alone bounds false positives:
for each role, at most a share `rate` of random models has *any* head that is given it, whatever the size of their
weights, the variant and the number of heads. The first condition excludes effects that are real but small. A head may
have several roles, the strongest first.

Same token and induction are measured on repeated random tokens, with a distance that differs from text to text: neither
meaning, position nor distance identifies the key.

Besides roles there are effective ranks: how many directions a head reads and writes.

    QK_h = W_Qᵀ W_K          how a query token matches a key token, (model width, model width)
    OV_h = W_O W_V           what a key token writes to a query token
    effective rank = exp(−Σ s log s)          s the singular values divided by their sum      Roy and Vetterli 2007

W includes the gain of the norm before it, but neither rotation by position nor biases.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from attnlab.attention import MultiHeadAttention
from attnlab.attention.latent import whole_map
from attnlab.errors import InputError, UnknownNameError
from attnlab.lens.heads.role_scores import EXCERPT, ROLES, PlaceShare, RoleReading, marked, repeated_tokens
from attnlab.lens.measures import MEASURES, Described, entropy
from attnlab.lens.subjects import shuffled_models
from attnlab.lens.taps import Given, Inputs, LayerMaps, Place, Progress, attention_layers, silent
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
    """How strongly a head plays a role: the attention on its keys and that expected by chance, as means over texts; the
    excess; and p, from the share of shuffled copies of the model with a head that plays it as strongly."""

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
    """The heads of a model, by layer and head, and the rule by which they are named."""

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
        """Return the heads with this role, the strongest first."""
        if role not in ROLES:
            raise UnknownNameError("role", role, ROLES)
        found = [(one.scores[role], one) for one in self.heads if role in one.roles]
        return [one for _, one in sorted(found, key=lambda pair: -pair[0].excess.mean if pair[0] else 0.0)]

    @property
    def rule(self) -> str:
        return (
            f"A head has a role where its attention exceeds chance by more than {self.least:g} of what is possible, at "
            f"{100 * self.level:g} % over texts, and by more than any head does in all but {100 * self.rate:g} % of "
            f"{self.controls} copies of the model with shuffled weights."
        )


def head_roles(
    model: LanguageModel,
    inputs: Given,
    *,
    delimiters: Collection[int] = (),
    repeated: Tensor | None = None,
    of: Place = "self",
    rate: float = RATE,
    least: float = LEAST,
    level: float = LEVEL,
    controls: int = CONTROLS,
    seed: int = 0,
    progress: Progress = silent,
) -> HeadRoles:
    """Return the roles and numbers of every head, on two texts or more.

    Parameters
    ----------
    model
        The model.
    inputs
        Tokens (rows, tokens), or a batch; all rows are of one length.
    delimiters
        Tokens that separate words or sentences, from `delimiter_tokens`.
    repeated
        Texts for the repetition roles; by default as many rows of `repeated_tokens`, short enough for a window to show
        all of them.
    of
        Which attention: `self`, `cross` or `encoder`.
    rate
        The accepted rate of falsely named heads.
    least
        The least excess for which a head is named.
    level
        The confidence level of intervals, such as 0.95.
    controls
        Shuffled copies of the model as controls; with 0, there are numbers but no names.
    seed
        The random seed; the same seed gives the same result.
    progress
        Called with a description of each step.
    """
    if controls < 0 or not 0 < rate < 1 or (controls and 1 / (1 + controls) > rate):
        raise InputError(
            f"{controls} shuffled copies cannot tell what happens in {rate:.3g} of them",
            hint=f"use `controls={math.ceil(1 / rate - 1) if 0 < rate < 1 else CONTROLS}` or more, or 0 for no names",
        )
    inputs = Inputs.of(inputs)
    tokens = inputs.tokens
    if len(tokens) < 2:
        raise InputError(f"texts: {len(tokens)}, too few for an interval", hint="give two rows or more")
    if repeated is None:
        windows = [layer.spec.mask.window for layer in attention_layers(model, of)]
        length = min(model.spec.context_length, 2 * tokens.shape[1], EXCERPT, *(max(4, one) for one in windows if one))
        repeated = repeated_tokens(model.spec.vocabulary_size, len(tokens), length, seed=seed)
    reading = RoleReading(model, marked(model, delimiters), of)
    reading.add("texts", inputs)
    reading.add("repeated", Inputs(repeated, source=None if inputs.source is None else repeated))
    described = [_Numbers(ranks, of) for ranks in head_ranks(model, of)]
    progress("measuring what heads do")
    scores = reading.scores(model, lambda layer, maps: described[layer].add(maps))
    chances = _chances(model, reading, controls, seed, progress)
    heads = []
    for layer, own in enumerate(described):
        for head, numbers in enumerate(own.of_heads()):
            found = {
                role: _score(layers[layer][:, head], chances[role][layer][head] if controls else None, level)
                for role, layers in scores.items()
            }
            heads.append(HeadRole(layer, head, _named(found, rate, least), found, numbers))
    return HeadRoles(tuple(heads), rate, least, level, controls)


# From maps to numbers to names


class _Numbers:
    """The numbers of one layer's heads, besides role scores."""

    def __init__(self, ranks: tuple[Tensor, Tensor], of: Place) -> None:
        self.ranks, self.of = ranks, of
        self.entropies: list[Tensor] = []
        self.place = PlaceShare()

    def add(self, maps: LayerMaps) -> None:
        self.entropies.append(entropy(maps))
        self.place.add(maps)

    def of_heads(self) -> list[dict[str, float | None]]:
        found = dict.fromkeys(NUMBERS, torch.full_like(self.ranks[0], math.nan))
        found |= {"rank of QK": self.ranks[0], "rank of OV": self.ranks[1]}
        if self.entropies:
            found["position explains"] = self.place.position()
            found["entropy"] = MEASURES["entropy"].reduce(torch.cat(self.entropies))
            if self.of != "cross":
                found["distance explains"] = self.place.distance()
        columns = {name: values.tolist() for name, values in found.items()}
        return [
            {name: value[head] if math.isfinite(value[head]) else None for name, value in columns.items()}
            for head in range(len(self.ranks[0]))
        ]


def _chances(
    model: LanguageModel, reading: RoleReading, controls: int, seed: int, progress: Progress
) -> dict[str, list[list[float]]]:
    """Return p of each role, layer and head, from the share of shuffled copies with a head of as large an excess."""
    excerpt = reading.excerpt()
    own = {role: [_excess(one) for one in layers] for role, layers in excerpt.scores(model).items()} if controls else {}
    highest: dict[str, list[float]] = {role: [] for role in ROLES}
    for number, copied in enumerate(shuffled_models(model, controls, seed), 1):
        progress(f"measuring a copy with shuffled weights, {number} of {controls}")
        for role, layers in excerpt.scores(copied).items():
            highest[role].append(max(torch.cat([_excess(one) for one in layers]).tolist(), default=-math.inf))
    return {
        role: [
            [(1 + sum(x >= one for x in highest[role])) / (1 + controls) for one in layer.tolist()] for layer in layers
        ]
        for role, layers in own.items()
    }


def _excess(scores: Tensor) -> Tensor:
    """Return the mean excess over texts, (texts, heads, 3) → (heads,), −∞ where nothing can be measured."""
    return scores[..., 2].nanmean(0).nan_to_num(-math.inf)


def _score(texts: Tensor, p: float | None, level: float) -> RoleScore | None:
    """Return the score of (texts, 3); None where fewer than two texts have something to measure."""
    known = texts[texts.isfinite().all(-1)]
    if len(known) < 2:
        return None
    share, chance, _ = known.mean(0).tolist()
    return RoleScore(share, chance, mean_interval(known[:, 2].tolist(), level), p)


def _named(scores: Mapping[str, RoleScore | None], rate: float, least: float) -> tuple[str, ...]:
    found = [
        (one.excess.mean, role)
        for role, one in scores.items()
        if one is not None and one.p is not None and one.p <= rate and one.excess.low > least
    ]
    return tuple(role for _, role in sorted(found, reverse=True))


# Ranks


_NONE = 1e-30  # the sum of singular values below which a matrix is zero


def head_ranks(model: LanguageModel, of: Place = "self") -> list[tuple[Tensor, Tensor]]:
    """Return for each layer the effective ranks of QK and OV, (heads,) each, NaN for a missing matrix."""
    stack: Any = model.encoder if of == "encoder" else model.stack
    found = []
    for layer, block in zip(attention_layers(model, of), stack.blocks, strict=True):
        norm = block.cross_norm if of == "cross" else block.attention_norm
        with torch.no_grad():
            found.append(_ranks(layer, getattr(norm, "weight", None)))
    return found


def _ranks(layer: MultiHeadAttention, gain: Tensor | None) -> tuple[Tensor, Tensor]:
    spec = layer.spec
    if spec.layer is not None:
        return torch.zeros(0), torch.zeros(0)
    other = None if spec.source == "cross" else gain  # the other sequence is normalised by the encoder
    value = _projection(layer, ("value", "key", "query"), spec.num_key_value_heads, spec.value_width, other)
    out = _outputs(layer)
    values = torch.linalg.svdvals(value) if out is None else _singular_values(out.mT, value)
    ov = effective_rank(values)
    if not (spec.score.projects_query and spec.score.projects_key):
        return torch.full_like(ov, math.nan), ov
    query = _projection(layer, ("query",), spec.num_heads, spec.key_width, gain)
    key = _projection(layer, ("key", "query"), spec.num_key_value_heads, spec.key_width, other)
    return effective_rank(_singular_values(query, key)), ov


def effective_rank(singular_values: Tensor) -> Tensor:
    """Return the effective rank, (…, values) → (…), NaN for a matrix of zeros."""
    total = singular_values.sum(-1, keepdim=True)
    shares = singular_values / total.where(total > _NONE, math.nan)
    nats: Tensor = torch.special.entr(shares).sum(-1)
    return nats.exp()


def _projection(
    layer: MultiHeadAttention, names: tuple[str, ...], count: int, width: int, gain: Tensor | None
) -> Tensor:
    """Return the first of these projections that the layer has, for every query head: (heads, width, model width)."""
    spec = layer.spec
    made = [weight for name in names if (weight := whole_map(layer, name)) is not None]
    like = layer.output.weight if layer.output is not None else gain
    # Without a projection, the tokens themselves are split into heads.
    weight = made[0] if made else torch.eye(spec.model_width, device=None if like is None else like.device)
    weight = weight.double() if gain is None else weight.double() * gain.double()
    return weight.view(count, width, spec.model_width).repeat_interleave(spec.num_heads // count, dim=0)


def _outputs(layer: MultiHeadAttention) -> Tensor | None:
    """Return the columns of W_O for each head, (heads, model width, value width); None where there is no W_O."""
    spec = layer.spec
    if layer.output is None:
        return None
    weight = layer.output.weight.double()
    if spec.join == "average":
        return weight.expand(spec.num_heads, -1, -1)
    return weight.view(spec.model_width, spec.num_heads, spec.value_width).transpose(0, 1)


def _singular_values(a: Tensor, b: Tensor) -> Tensor:
    """Return the singular values of aᵀ b that its rank allows to differ from 0, a and b (heads, width, model width).

    With aᵀ = Q R and bᵀ = P S, aᵀ b = Q (R Sᵀ) Pᵀ has the singular values of R Sᵀ, which is small.
    """
    r, s = (torch.linalg.qr(matrix.mT, mode="r").R for matrix in (a, b))
    values: Tensor = torch.linalg.svdvals(r @ s.mT)
    return values
