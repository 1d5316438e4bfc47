"""Directions of an embedding: their meaning, their number, and how a token's vector changes with its context.

    nearest       the tokens with the largest cosine or dot product
    analogies     a is to b as c is to d: the rank of d by its cosine with c − a + b, each of length 1
    orthogonality |cos| of two tokens against that of two random directions, Γ(d/2) / (√π Γ((d+1)/2)) ≈ √(2/πd)
    dimensions    (Σλ)² / Σλ² over the eigenvalues λ of the covariance: d if all are equal, 1 if only one is not 0
    same_token    the same token in two sentences, layer by layer: where a vector begins to depend on its context

Vectors are (vocabulary, width), such as `model.embedding.weight`. An embedding is the same vector in every sentence.

That d is near c − a + b says little on its own: d may be near c alone, or near every b. So each analogy is also scored
with c alone, and with the second words of all pairs exchanged (Linzen 2016, arXiv 1606.07736).

In the embedding layer, two vectors of the same token have a similarity of 1, whatever the sentence. In higher layers of
many models, all vectors point in nearly the same direction, so that a large cosine says little unless it exceeds that
of other tokens (Ethayarajh, arXiv 1909.00512):

    kept = (similarity − others) / (1 − others)         1: depends on the token alone; 0: as similar as any two
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.corpora import Tokenizer
from attnlab.errors import InputError, UnsupportedError
from attnlab.lens.taps import Inputs, evaluating
from attnlab.models import LanguageModel
from attnlab.storage.records import to_plain

_MOST_VALUES = 1 << 24  # of one table of similarities
_MOST_TOKENS = 2048  # tokens of which all pairs are compared; a larger vocabulary is sampled
_QUANTILES = (0.5, 0.9, 0.99, 1.0)


class Neighbour(NamedTuple):
    """Another token, and how similar it is."""

    token: int
    similarity: float


def token_of(tokenizer: Tokenizer, text: str) -> int:
    """Return the one token that is this text. Most words need the space before them.

    Parameters
    ----------
    tokenizer
        The tokenizer.
    text
        The text of the token.
    """
    tokens = tokenizer.encode(text)
    if len(tokens) != 1:
        raise InputError(f"{text!r} is {len(tokens)} tokens, not one", hint='try it with a space before it, as " king"')
    return tokens[0]


def nearest(
    vectors: Tensor, token: int, *, count: int = 10, by: Literal["cosine", "dot"] = "cosine"
) -> list[Neighbour]:
    """Return the tokens most similar to this one, which is not among them.

    Parameters
    ----------
    vectors
        The embedding, (tokens, width).
    token
        The number of the token.
    count
        How many to return.
    by
        cosine, or dot for the dot product.
    """
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
    """a is to b as c is to d. A rank of 1 is the best; ties count against d."""

    tokens: tuple[int, int, int, int]
    rank: int  # of d among all tokens but a, b and c
    rank_among_all: int  # with a, b and c, of which c often comes first
    rank_alone: int  # by the cosine with c alone, among all tokens but a, b and c
    parallel: float  # the cosine of b − a and d − c


@dataclass(frozen=True, eq=False)
class Analogies:
    """The result of each analogy, and the ranks with the pairs exchanged."""

    found: tuple[Analogy, ...]
    shuffled_ranks: Tensor  # (draws, analogies)

    @property
    def first(self) -> float:
        """Return the share of analogies whose d ranks first."""
        return sum(one.rank == 1 for one in self.found) / len(self.found)

    @property
    def first_alone(self) -> float:
        """Return the same share by c alone, without a and b."""
        return sum(one.rank_alone == 1 for one in self.found) / len(self.found)

    @property
    def first_shuffled(self) -> float:
        """Return the same share with the pairs exchanged."""
        return float((self.shuffled_ranks == 1).double().mean())

    @cached_property
    def p(self) -> float:
        """Return the p-value of the mean of 1 / rank in a permutation test that exchanges the pairs."""
        ranks = torch.tensor([one.rank for one in self.found])
        reached = (1 / self.shuffled_ranks.double()).mean(1) >= (1 / ranks.double()).mean()
        return (1 + int(reached.sum())) / (1 + len(reached))

    def to_dict(self) -> dict[str, object]:
        """Return plain data."""
        numbers = {name: getattr(self, name) for name in ("first", "first_alone", "first_shuffled", "p")}
        return {**numbers, "found": to_plain(self.found)}


def analogies(
    vectors: Tensor, questions: Sequence[tuple[int, int, int, int]], *, draws: int = 99, seed: int = 0
) -> Analogies:
    """Ask a : b = c : d for tokens (a, b, c, d). The smallest p that can be found is 1 / (draws + 1).

    For the control the pairs (a, b) and (c, d) have their second halves exchanged, so that none keeps its own.

    Parameters
    ----------
    vectors
        The embedding, (tokens, width).
    questions
        Tokens (a, b, c, d) of each question.
    draws
        Number of random exchanges for the control.
    seed
        The random seed; the same seed gives the same result.
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
        other[order] = seconds[order.roll(1)]  # the next one in a random cycle, never a pair's own
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
    """Return the rank of d in each question (questions, 4): among all tokens, and among all but a, b and c."""
    all_ranks, ranks = [], []
    for some in torch.split(asked.to(unit.device), max(1, _MOST_VALUES // len(unit))):
        a, b, c, _ = unit[some].unbind(1)
        similarity = (c if alone else c - a + b) @ unit.t()  # (questions, tokens): the query's length changes no rank
        mine = similarity.gather(1, some[:, 3:])
        nearer = similarity >= mine
        nearer.scatter_(1, some[:, 3:], True)
        all_ranks.append(nearer.sum(1))
        nearer.scatter_(1, some[:, :3], False)
        nearer.scatter_(1, some[:, 3:], True)  # also if d is one of a, b and c
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
    expected_quantile: float  # the 99 % quantile of random pairs, approximately


def orthogonality(vectors: Tensor, *, seed: int = 0) -> Orthogonality:
    """Return how nearly orthogonal the tokens are, over all pairs, or over a sample of a large vocabulary.

    Parameters
    ----------
    vectors
        The embedding, (tokens, width).
    seed
        The random seed; the same seed gives the same result.
    """
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
        min(1.0, 2.5758 / math.sqrt(width)),  # of the normal distribution, the limit for large widths
    )


def _sizes(vectors: Tensor) -> Tensor:
    """Return |cos| of every two rows."""
    unit = F.normalize(vectors, dim=-1)
    row, column = torch.triu_indices(len(unit), len(unit), 1, device=unit.device)
    return (unit @ unit.t())[row, column].abs()


@dataclass(frozen=True)
class Dimensions:
    """The effective number of dimensions, of `width`; `random` is that of as many normal vectors."""

    effective: float
    width: int
    random: float


def dimensions(vectors: Tensor) -> Dimensions:
    """Return the participation ratio of the covariance, tr(C)² / tr(C²).

    Parameters
    ----------
    vectors
        The embedding, (tokens, width).
    """
    vectors = _checked(vectors)
    count, width = vectors.shape
    centred = vectors - vectors.mean(0)
    covariance = centred.t() @ centred
    squares = covariance.square().sum()
    effective = float(covariance.trace().square() / squares) if squares > 0 else 0.0
    free = count - 1  # degrees of freedom of the Wishart matrix that random vectors give
    return Dimensions(effective, width, (free * width + 2) / (free + width + 1))


def _checked(vectors: Tensor) -> Tensor:
    """Return the vectors in double precision, if there are some and all are numbers."""
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


# Contexts


@dataclass(frozen=True)
class SameToken:
    """A token at one position in each of two sentences."""

    token: int
    places: tuple[int, int]
    names: tuple[str, ...]  # as `model.tap` knows them
    similarity: tuple[float, ...]
    others: tuple[float, ...]  # NaN where the sentences have no two different tokens

    @property
    def kept(self) -> tuple[float, ...]:
        pairs = zip(self.similarity, self.others, strict=True)
        return tuple((one - other) / (1 - other) if other < 1 else math.nan for one, other in pairs)

    def to_dict(self) -> dict[str, object]:
        """Return plain data."""
        keys = ("name", "similarity", "others", "kept")
        rows = zip(self.names, self.similarity, self.others, self.kept, strict=True)
        layers = to_plain([dict(zip(keys, row, strict=True)) for row in rows], nulls=True)
        return {"token": self.token, "places": list(self.places), "layers": layers}


def same_token(model: LanguageModel, one: Sequence[int], two: Sequence[int], token: int | None = None) -> SameToken:
    """Compare the vectors of a token in two sentences, at its last position in each.

    By default, `token` is the last token of the first sentence that is also in the second.

    Parameters
    ----------
    model
        The model.
    one
        Tokens of the first sentence.
    two
        Tokens of the second.
    token
        The token; by default the last of the first sentence that is also in the second.
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
    """Return the directions of all tokens at each name, (tokens, model width)."""
    tokens = torch.tensor([list(sentence)], dtype=torch.long)
    with evaluating(model), model.tap(*names) as seen:
        Inputs(tokens).read(model)
    return {name: F.normalize(seen[name][0].double().cpu(), dim=-1) for name in names}
