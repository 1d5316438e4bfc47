"""Similarity of heads, in their maps and in what they write; and which head of one model matches which of another.

    maps      the cosine of p − 1 / n over all texts, queries and keys: how a head's attention differs from uniform
    effects   the cosine of what two heads add to the residual path, each minus its mean over all tokens, since a
              constant carries no information (`ablation.py` keeps it, too)

Heads with the same pattern have a cosine of 1, unrelated heads about 0. A copy is similar in both. Matching finds the
pairs of heads with the largest total similarity, each head in at most one pair (the assignment problem). The best of
many pairs is above 0 by chance alone, so the same is done with shuffled copies of the second model.

    similarity = head_similarity(model, tokens)
    similarity.copies()                            [((0, 2), (0, 3))]
    matched = match_heads(model, other, tokens)
    matched.pairs[0]                               Pair(a=(0, 1), b=(0, 3), similarity=0.93)
    matched.mean, matched.control                  0.71, 0.18
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from attnlab.errors import FileError, InputError
from attnlab.lens.subjects import shuffled_models
from attnlab.lens.taps import Given, Inputs, LayerMaps, Place, attention_layers, evaluating, head_outputs, look
from attnlab.models import LanguageModel
from attnlab.runs import RunDirectory
from attnlab.training import load_run

COPIES = 0.9
CONTROLS = 5
_CONSTANT = 1e-12  # a mean square that is only rounding error
_MOST_VALUES = 1 << 25  # in memory for all heads at once
_POINTS = {
    "self": "blocks.{}.attention.heads",
    "cross": "blocks.{}.cross_attention.heads",
    "encoder": "encoder.blocks.{}.attention.heads",
}

Head = tuple[int, int]  # layer, head


@dataclass(frozen=True, eq=False)
class HeadSimilarity:
    """Cosines of all pairs of heads, (heads, heads) each; NaN where a head has no map, or nothing varies."""

    heads: tuple[Head, ...]
    maps: Tensor
    effects: Tensor

    def copies(self, least: float = COPIES) -> list[tuple[Head, ...]]:
        """Return groups of heads that are similar in what they write and, where they have maps, in these: each to at
        least one other of its group."""
        alike = (self.effects >= least) & ((self.maps >= least) | self.maps.isnan())
        groups: dict[int, list[int]] = {number: [number] for number in range(len(self.heads))}
        for a, b in combinations(range(len(self.heads)), 2):
            if alike[a, b] and groups[a] is not groups[b]:
                joined = sorted(groups[a] + groups[b])
                groups |= dict.fromkeys(joined, joined)
        found = {tuple(group) for group in groups.values() if len(group) > 1}
        return [tuple(self.heads[number] for number in group) for group in sorted(found)]

    def redundancy(self, of: Literal["maps", "effects"] = "effects") -> float | None:
        """Return the mean over heads of their similarity to the head that is the most similar to them."""
        if not self.heads:
            return None
        table: Tensor = (self.maps if of == "maps" else self.effects).clone().fill_diagonal_(math.nan)
        best = table.nan_to_num(-math.inf).amax(-1)
        best = best[best.isfinite()]
        return best.mean().item() if len(best) else None


@dataclass(frozen=True)
class Pair:
    """Two heads and the similarity of their attention maps."""

    a: Head
    b: Head
    similarity: float  # the cosine of their maps


@dataclass(frozen=True, eq=False)
class Matching:
    """The matched heads of two models, within layers or across them, in the order of the first."""

    pairs: tuple[Pair, ...]
    table: Tensor  # (heads of a, heads of b), of all that have a map
    chance: float  # the mean over all possible pairs: that of a random matching
    control: float  # the mean of the best matchings with shuffled second models

    @property
    def mean(self) -> float:
        return sum(pair.similarity for pair in self.pairs) / len(self.pairs)


def head_similarity(model: LanguageModel, inputs: Given, *, of: Place = "self") -> HeadSimilarity:
    """Compare all pairs of heads of one model.

    Parameters
    ----------
    model
        The model.
    inputs
        Tokens (rows, tokens), or a batch; all rows are of one length.
    of
        Which attention: `self`, `cross` or `encoder`.
    """
    heads = tuple(_heads(model, of))
    maps = torch.zeros(len(heads), len(heads), dtype=torch.float64)
    writes, sums, count = maps.clone(), torch.zeros(len(heads), model.spec.model_width, dtype=torch.float64), 0
    for part in _parts(model, inputs, of):
        patterns = _patterns(model, part, of)
        maps += _products(patterns, patterns)
        written = _written(model, part, of)  # (heads, texts × tokens, model width)
        writes += _products(written.flatten(1), written.flatten(1))
        sums += written.sum(1, dtype=torch.float64).cpu()
        count += written.shape[1]
    writes -= sums @ sums.t() / count
    return HeadSimilarity(heads, _cosines(maps, maps.diagonal(), maps.diagonal()), _effect_cosines(writes, sums, count))


def match_heads(
    a: LanguageModel,
    b: LanguageModel,
    inputs: Given,
    *,
    across_layers: bool = False,
    of: Place = "self",
    controls: int = CONTROLS,
    seed: int = 0,
) -> Matching:
    """Match the heads of two models (seeds, variants or checkpoints) whose maps of the same texts are the most similar.

    A head is matched within its layer unless `across_layers`. Layers and heads without a counterpart in the other
    model, and heads without a map, stay unmatched.

    Parameters
    ----------
    a
        One model.
    b
        The other.
    inputs
        Tokens (rows, tokens), or a batch; all rows are of one length.
    across_layers
        Whether a head may be matched with one of another layer.
    of
        Which attention: `self`, `cross` or `encoder`.
    controls
        Shuffled copies of the second model as controls.
    seed
        The random seed; the same seed gives the same result.
    """
    if a.spec.vocabulary_size != b.spec.vocabulary_size:
        raise InputError(
            f"one model knows {a.spec.vocabulary_size} tokens and the other {b.spec.vocabulary_size}",
            hint="match models that were trained on the same corpus",
        )
    if controls < 1:
        raise InputError(f"a control of {controls} shuffled models says nothing", hint="use `controls=1` or more")
    rows, columns = list(_heads(a, of)), list(_heads(b, of))
    table = _map_cosines(a, b, inputs, of)
    pairs, chance = _matched(table, rows, columns, across_layers)
    if not pairs:
        raise InputError("no head of one model can be matched with one of the other", hint="use variants with a map")
    best = []
    for copied in shuffled_models(b, controls, seed):
        found, _ = _matched(_map_cosines(a, copied, inputs, of), rows, columns, across_layers)
        best += [pair.similarity for pair in found]
    return Matching(tuple(pairs), table, chance, sum(best) / len(best) if best else math.nan)


# Over seeds and over training


def match_all(models: Sequence[LanguageModel], inputs: Given, **options: Any) -> dict[tuple[int, int], Matching]:
    """Match every pair of several models, such as the seeds of one variant, by their numbers.

    Parameters
    ----------
    models
        Two models or more.
    inputs
        Tokens (rows, tokens), or a batch; all rows are of one length.
    options
        Those of `match_heads`.
    """
    if len(models) < 2:
        raise InputError(f"models to match: {len(models)}", hint="give two or more")
    return {
        (a, b): match_heads(models[a], models[b], inputs, **options) for a, b in combinations(range(len(models)), 2)
    }


def over_checkpoints(
    path: Path, inputs: Given, *, steps: Sequence[int] | None = None, **options: Any
) -> dict[int, tuple[HeadSimilarity, Matching]]:
    """Compare the heads of a run with each other, and match them with its last, after each of these steps.

    By default, all saved steps are used.

    Parameters
    ----------
    path
        The folder of the run.
    inputs
        Tokens (rows, tokens), or a batch; all rows are of one length.
    steps
        Steps whose checkpoints the run has kept; by default all.
    options
        Those of `match_heads`.
    """
    if steps is None:
        steps = RunDirectory.open(path).checkpoints.steps()
    last = load_run(path)
    found = {}
    for step in sorted({*steps, last.step}):
        model = last.model if step == last.step else load_run(path, step).model
        found[step] = head_similarity(model, inputs), match_heads(model, last.model, inputs, **options)
    if not found:
        raise FileError(f"{path} has no weights yet", hint="train it further")
    return found


# Maps and effects on the same texts


def _heads(model: LanguageModel, of: Place) -> Iterator[Head]:
    for number, layer in enumerate(attention_layers(model, of)):
        yield from ((number, head) for head in range(layer.spec.observed_heads))


def _parts(model: LanguageModel, inputs: Given, of: Place) -> Iterator[Inputs]:
    """Yield a few rows at a time, so that the tensors of all heads stay small."""
    inputs = Inputs.of(inputs)
    tokens = inputs.tokens
    if tokens.dim() != 2 or not tokens.numel():
        raise InputError(
            f"tokens have shape {tuple(tokens.shape)}, not (texts, tokens)", hint="one text is tokens[None]"
        )
    length, heads = tokens.shape[1], max(1, len(list(_heads(model, of))))
    yield from inputs.parts(_MOST_VALUES // (heads * length * max(length, model.spec.model_width)))


def _patterns(model: LanguageModel, inputs: Inputs, of: Place) -> Tensor:
    """Return p − 1 / n of every head, (heads, texts × queries × keys); 0 for a head that has no map."""
    found: list[Tensor | int] = []

    def see(layer: int, maps: LayerMaps) -> None:
        if maps.weights is None:
            found.append(attention_layers(model, of)[layer].spec.observed_heads)
            return
        shares, count = maps.shares, maps.num_visible[..., None]
        known = maps.pairs & (count > 1) & shares.isfinite()
        found.append((shares - 1 / count.clamp(min=1)).where(known, 0.0).transpose(0, 1).flatten(1))

    look(model, inputs, see, of=of)
    size = next((one.shape[1] for one in found if isinstance(one, Tensor)), 1)
    device = model.embedding.weight.device
    return torch.cat([one if isinstance(one, Tensor) else torch.zeros(one, size, device=device) for one in found])


def _written(model: LanguageModel, inputs: Inputs, of: Place) -> Tensor:
    """Return what every head adds to the residual path, (heads, texts × tokens, model width)."""
    layers = {
        _POINTS[of].format(number): layer
        for number, layer in enumerate(attention_layers(model, of))
        if layer.spec.observed_heads
    }
    with evaluating(model), model.tap(*layers) as seen:
        inputs.read(model)
        made = [head_outputs(layer, seen[name]) for name, layer in layers.items()]
    if not made:
        return torch.zeros(0, inputs.tokens.numel(), model.spec.model_width)
    return torch.cat([one.transpose(0, 1).flatten(1, 2) for one in made])


def _products(a: Tensor, b: Tensor) -> Tensor:
    return (a @ b.t()).double().cpu()


def _cosines(products: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return cosines from products and squares; NaN where one of the squares is 0."""
    squares = a[:, None] * b
    return (products / squares.sqrt()).where(squares > 0, math.nan)


def _effect_cosines(products: Tensor, sums: Tensor, count: int) -> Tensor:
    """Return cosines of effects; an effect that varies by less than the rounding of its mean is constant."""
    squares = products.diagonal()
    varies = squares > _CONSTANT * (squares + sums.square().sum(-1) / count)
    squares = squares.where(varies, 0.0)
    return _cosines(products, squares, squares)


def _map_cosines(a: LanguageModel, b: LanguageModel, inputs: Given, of: Place) -> Tensor:
    """Return the cosines of maps, (heads of a, heads of b)."""
    products: Any = 0
    squares: list[Any] = [0, 0]
    for part in _parts(a, inputs, of):
        patterns = [_patterns(model, part, of) for model in (a, b)]
        if patterns[0].shape[1] != patterns[1].shape[1]:  # one of the models has no map anywhere
            patterns = [torch.zeros(len(one), 1) for one in patterns]
        products = products + _products(*patterns)
        squares = [
            old + one.square().sum(1, dtype=torch.float64).cpu() for old, one in zip(squares, patterns, strict=True)
        ]
    return _cosines(products, *squares)


def _matched(table: Tensor, rows: list[Head], columns: list[Head], across_layers: bool) -> tuple[list[Pair], float]:
    """Return the best pairs, and the mean over all possible pairs."""
    from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped,unused-ignore]  # takes long to load

    pairs, possible = [], []
    layers = [None] if across_layers else sorted({layer for layer, _ in rows} & {layer for layer, _ in columns})
    for wanted in layers:
        ours, theirs = (
            [place for place, (layer, _) in enumerate(heads) if wanted in (None, layer)] for heads in (rows, columns)
        )
        block = table[ours][:, theirs]
        ours = [place for place, known in zip(ours, block.isfinite().any(1).tolist(), strict=True) if known]
        theirs = [place for place, known in zip(theirs, block.isfinite().any(0).tolist(), strict=True) if known]
        block = table[ours][:, theirs]
        possible.append(block.flatten())
        chosen = zip(*linear_sum_assignment(block.numpy(), maximize=True), strict=True)
        pairs += [Pair(rows[ours[i]], columns[theirs[j]], float(block[i, j])) for i, j in chosen]
    every = torch.cat(possible) if possible else torch.zeros(0)
    return pairs, every.mean().item() if len(every) else math.nan
