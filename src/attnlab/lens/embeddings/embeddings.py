"""What the directions of an embedding mean, and how many there are.

    nearest       the tokens with the largest cosine or dot product
    analogies     a is to b as c is to d: the rank of d by its cosine with c − a + b, each of length 1
    orthogonality |cos| of two tokens against that of two random directions, Γ(d/2) / (√π Γ((d+1)/2)) ≈ √(2/πd)
    dimensions    (Σλ)² / Σλ² over the eigenvalues λ of the covariance: all d if they are equal, 1 if one is all

Vectors are (vocabulary, width), such as `model.embedding.weight`. An embedding is the same vector in every sentence;
how far its token goes with the sentence is in `contexts.py`.

That d is near c − a + b says little by itself: d may be near c alone, or near every b. So each analogy is also asked
with c alone, and again with the second halves of all pairs exchanged (Linzen 2016, arXiv 1606.07736).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.corpora import Tokenizer
from attnlab.errors import InputError

_MOST_VALUES = 1 << 24  # of one table of similarities
_MOST_TOKENS = 2048  # whose every pair is looked at; of a larger vocabulary so many are drawn
_QUANTILES = (0.5, 0.9, 0.99, 1.0)


class Neighbour(NamedTuple):
    """Another token, and how similar it is."""

    token: int
    similarity: float


def token_of(tokenizer: Tokenizer, text: str) -> int:
    """The one token that is this text. Most words need the space before them."""
    tokens = tokenizer.encode(text)
    if len(tokens) != 1:
        raise InputError(f"{text!r} is {len(tokens)} tokens, not one", hint='try it with a space before it, as " king"')
    return tokens[0]


def nearest(
    vectors: Tensor, token: int, *, count: int = 10, by: Literal["cosine", "dot"] = "cosine"
) -> list[Neighbour]:
    """The tokens most similar to this one, which is not among them."""
    vectors = _checked(vectors)
    _check_tokens(vectors, [token])
    if by not in ("cosine", "dot"):
        raise InputError(f"there is no similarity called {by!r}", hint="use cosine or dot")
    if count < 1:
        raise InputError(f"{count} neighbours", hint="ask for one or more")
    x = F.normalize(vectors, dim=-1) if by == "cosine" else vectors
    similarity = x @ x[token]
    similarity[token] = -math.inf
    found = similarity.topk(min(count, len(vectors) - 1))
    return [Neighbour(*pair) for pair in zip(found.indices.tolist(), found.values.tolist(), strict=True)]


# Analogies


@dataclass(frozen=True)
class Analogy:
    """a is to b as c is to d. A rank of 1 is the best; tokens that are as near count as nearer."""

    tokens: tuple[int, int, int, int]
    rank: int  # of d among all tokens but a, b and c
    rank_among_all: int  # with a, b and c, of which c often comes first
    rank_alone: int  # by the cosine with c alone, among all tokens but a, b and c
    parallel: float  # the cosine of b − a and d − c


@dataclass(frozen=True, eq=False)
class Analogies:
    """What became of each analogy, and of the same ones with the pairs exchanged."""

    found: tuple[Analogy, ...]
    shuffled_ranks: Tensor  # (draws, analogies)

    @property
    def first(self) -> float:
        """The share whose d comes first."""
        return sum(one.rank == 1 for one in self.found) / len(self.found)

    @property
    def first_alone(self) -> float:
        """The same by c alone: what of it needs no a and b."""
        return sum(one.rank_alone == 1 for one in self.found) / len(self.found)

    @property
    def first_shuffled(self) -> float:
        """The same with the pairs exchanged: what of it needs no pairs."""
        return float((self.shuffled_ranks == 1).double().mean())

    @cached_property
    def p(self) -> float:
        """How often exchanged pairs have a mean of 1 / rank as large: small only where the pairs matter."""
        ranks = torch.tensor([one.rank for one in self.found])
        reached = (1 / self.shuffled_ranks.double()).mean(1) >= (1 / ranks.double()).mean()
        return (1 + int(reached.sum())) / (1 + len(reached))

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        numbers = {name: getattr(self, name) for name in ("first", "first_alone", "first_shuffled", "p")}
        return {**numbers, "found": [{**vars(one), "tokens": list(one.tokens)} for one in self.found]}


def analogies(
    vectors: Tensor, questions: Sequence[tuple[int, int, int, int]], *, draws: int = 99, seed: int = 0
) -> Analogies:
    """Ask a : b = c : d for tokens (a, b, c, d). The smallest p that can be found is 1 / (draws + 1).

    For the control the pairs (a, b) and (c, d) have their second halves exchanged, so that none keeps its own.
    """
    vectors = _checked(vectors)
    _check_tokens(vectors, [token for question in questions for token in question])
    pairs = list(dict.fromkeys(pair for a, b, c, d in questions for pair in ((a, b), (c, d))))
    if len(pairs) < 2 or draws < 1:
        raise InputError(
            f"{len(pairs)} different pairs and {draws} draws leave nothing to exchange",
            hint="give analogies of two pairs or more, and one draw or more",
        )
    place = {pair: number for number, pair in enumerate(pairs)}
    asked = torch.tensor(questions)
    generator = torch.Generator().manual_seed(seed)
    seconds, shuffled = torch.tensor([pair[1] for pair in pairs]), []
    which = torch.tensor([[place[a, b], place[c, d]] for a, b, c, d in questions])
    for _ in range(draws):
        order = torch.randperm(len(pairs), generator=generator)
        other = torch.empty_like(seconds)
        other[order] = seconds[order.roll(1)]  # the next one in a random circle, never one's own
        shuffled.append(torch.stack([asked[:, 0], other[which[:, 0]], asked[:, 2], other[which[:, 1]]], 1))
    unit = F.normalize(vectors, dim=-1)
    _, ranks = _ranks(unit, torch.cat([asked, *shuffled]))
    everywhere, _ = _ranks(unit, asked)
    _, alone = _ranks(unit, asked, alone=True)
    a, b, c, d = unit[asked.to(unit.device)].unbind(1)
    parallel = F.cosine_similarity(b - a, d - c, dim=-1)
    columns = (ranks[: len(asked)].tolist(), everywhere.tolist(), alone.tolist(), parallel.tolist())
    found = tuple(Analogy(question, *row) for question, *row in zip(questions, *columns, strict=True))
    return Analogies(found, ranks[len(asked) :].view(draws, -1))


def _ranks(unit: Tensor, asked: Tensor, *, alone: bool = False) -> tuple[Tensor, Tensor]:
    """The rank of d in each question (questions, 4): among all tokens, and among all but a, b and c."""
    all_ranks, ranks = [], []
    for some in torch.split(asked.to(unit.device), max(1, _MOST_VALUES // len(unit))):
        a, b, c, _ = unit[some].unbind(1)
        similarity = (c if alone else c - a + b) @ unit.t()  # (questions, tokens): the query's length changes no rank
        mine = similarity.gather(1, some[:, 3:])
        nearer = similarity >= mine
        nearer.scatter_(1, some[:, 3:], True)
        all_ranks.append(nearer.sum(1))
        nearer.scatter_(1, some[:, :3], False)
        nearer.scatter_(1, some[:, 3:], True)  # also where d is one of the others
        ranks.append(nearer.sum(1))
    return torch.cat(all_ranks).cpu(), torch.cat(ranks).cpu()


# Directions


@dataclass(frozen=True)
class Orthogonality:
    """|cos| of two different tokens. `centred` is without the mean vector, which all of them may share."""

    mean: float
    centred: float
    expected: float  # of random directions
    quantiles: tuple[tuple[float, float], ...]  # (share, |cos| that this share of the pairs does not exceed)
    expected_quantile: float  # that 99 % of random pairs do not exceed, about


def orthogonality(vectors: Tensor, *, seed: int = 0) -> Orthogonality:
    """How nearly perpendicular the tokens are, over all pairs of a vocabulary, or of some of a large one."""
    vectors = _checked(vectors)
    count, width = vectors.shape
    if count > _MOST_TOKENS:
        chosen = torch.randperm(count, generator=torch.Generator().manual_seed(seed))[:_MOST_TOKENS]
        some = vectors[chosen.to(vectors.device)]
    else:
        some = vectors
    sizes = _sizes(some).sort().values
    places = [min(len(sizes) - 1, math.ceil(share * len(sizes)) - 1) for share in _QUANTILES]
    expected = math.exp(math.lgamma(width / 2) - math.lgamma((width + 1) / 2)) / math.sqrt(math.pi)
    return Orthogonality(
        float(sizes.mean()),
        float(_sizes(some - vectors.mean(0)).mean()),
        expected,
        tuple((share, float(sizes[place])) for share, place in zip(_QUANTILES, places, strict=True)),
        min(1.0, 2.5758 / math.sqrt(width)),  # the normal distribution's, which the sphere's approaches
    )


def _sizes(vectors: Tensor) -> Tensor:
    """|cos| of every two rows."""
    unit = F.normalize(vectors, dim=-1)
    row, column = torch.triu_indices(len(unit), len(unit), 1, device=unit.device)
    return (unit @ unit.t())[row, column].abs()


@dataclass(frozen=True)
class Dimensions:
    """How many dimensions are in use, of how many; `random` is what as many normal vectors would show."""

    effective: float
    width: int
    random: float


def dimensions(vectors: Tensor) -> Dimensions:
    """The participation ratio of the covariance, tr(C)² / tr(C²)."""
    vectors = _checked(vectors)
    count, width = vectors.shape
    centred = vectors - vectors.mean(0)
    covariance = centred.t() @ centred
    squares = covariance.square().sum()
    effective = float(covariance.trace().square() / squares) if squares > 0 else 0.0
    free = count - 1  # degrees of freedom of the Wishart matrix that random vectors give
    return Dimensions(effective, width, (free * width + 2) / (free + width + 1))


def _checked(vectors: Tensor) -> Tensor:
    """The vectors in double precision, if there are some and all are numbers."""
    if vectors.dim() != 2 or len(vectors) < 2 or vectors.shape[1] < 1:
        raise InputError(
            f"vectors of shape {tuple(vectors.shape)}", hint="give (vocabulary, width) with two tokens or more"
        )
    vectors = vectors.detach().double()
    if not bool(vectors.isfinite().all()):
        raise InputError("vectors that are not finite numbers", hint="was the model's training stable?")
    return vectors


def _check_tokens(vectors: Tensor, tokens: Sequence[int]) -> None:
    if not tokens:
        raise InputError("no tokens to ask for", hint="give one or more")
    for token in (min(tokens), max(tokens)):
        if not 0 <= token < len(vectors):
            raise InputError(f"{token} is no token", hint=f"the vectors are those of 0 to {len(vectors) - 1}")
