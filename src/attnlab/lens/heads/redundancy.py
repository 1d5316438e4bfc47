"""How alike heads are, in where they look and in what they write; and which head of one model is which of another.

    maps      the cosine of p − 1 / n over all texts, queries and keys: what a head's attention adds to chance
    effects   the cosine of what two heads add to the residual path, each minus its mean over all tokens, since what is
              always the same tells nothing (`ablation.py` leaves that in its place too)

Two heads that have the same pattern have 1, heads that have nothing to do with each other about 0. A copy is alike in
both. Matching finds the pairs of heads that are the most alike in all, each head in one pair at most (the assignment
problem). The best of many pairs is above 0 by luck alone, so the same is done with a shuffled second model.

    likeness = head_likeness(model, tokens)
    likeness.copies()                              [((0, 2), (0, 3))]
    matched = match_heads(model, other, tokens)
    matched.pairs[0]                               Pair(a=(0, 1), b=(0, 3), similarity=0.93)
    matched.mean, matched.control                  0.71, 0.18
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from attnlab.errors import FileError, InputError
from attnlab.lens.facts.shuffled import shuffled_models
from attnlab.lens.heads.patterns import Head, batches, cosines, every_head, patterns_of, products_of, written_by
from attnlab.lens.maps.attention_maps import Place
from attnlab.models import LanguageModel
from attnlab.runs import RunDirectory
from attnlab.training import load_run

COPIES = 0.9
CONTROLS = 5
_CONSTANT = 1e-12  # a mean square that is nothing but rounding


@dataclass(frozen=True, eq=False)
class Likeness:
    """How alike all pairs of heads are, (heads, heads) each; not a number where a head has no map, or nothing that
    varies."""

    heads: tuple[Head, ...]
    maps: Tensor
    effects: Tensor

    def copies(self, least: float = COPIES) -> list[tuple[Head, ...]]:
        """Groups of heads that are alike in what they write and, where they have maps, in where they look: each to at
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
        """The mean over heads of their likeness to the head that is the most like them."""
        table: Tensor = (self.maps if of == "maps" else self.effects).clone().fill_diagonal_(math.nan)
        best = table.nan_to_num(-math.inf).amax(-1)
        best = best[best.isfinite()]
        return best.mean().item() if len(best) else None


@dataclass(frozen=True)
class Pair:
    a: Head
    b: Head
    similarity: float  # the cosine of their maps


@dataclass(frozen=True, eq=False)
class Matching:
    """Which head of one model is which of another, by layer or across layers, in the order of the first."""

    pairs: tuple[Pair, ...]
    table: Tensor  # (heads of a, heads of b), of all that have a map
    chance: float  # the mean over all pairs that could have been: what a random matching has
    control: float  # what the best matching with a shuffled second model has, on average

    @property
    def mean(self) -> float:
        return sum(pair.similarity for pair in self.pairs) / len(self.pairs)


def head_likeness(
    model: LanguageModel,
    tokens: Tensor,
    *,
    source: Tensor | None = None,
    source_padding: Tensor | None = None,
    of: Place = "self",
) -> Likeness:
    """All pairs of heads of one model on tokens (texts, tokens)."""
    heads = tuple(every_head(model, of))
    others: dict[str, Any] = {"source": source, "source_padding": source_padding}
    maps = torch.zeros(len(heads), len(heads), dtype=torch.float64)
    writes, sums, count = maps.clone(), torch.zeros(len(heads), model.spec.model_width, dtype=torch.float64), 0
    for rows in batches(model, tokens, of):
        given = {name: None if one is None else one[rows] for name, one in others.items()}
        patterns = patterns_of(model, tokens[rows], of, given)
        maps += products_of(patterns, patterns)
        written = written_by(model, tokens[rows], of, given)  # (heads, texts × tokens, model width)
        writes += products_of(written.flatten(1), written.flatten(1))
        sums += written.sum(1, dtype=torch.float64).cpu()
        count += written.shape[1]
    writes -= sums @ sums.t() / count
    return Likeness(heads, cosines(maps, maps.diagonal(), maps.diagonal()), _effect_cosines(writes, sums, count))


def match_heads(
    a: LanguageModel,
    b: LanguageModel,
    tokens: Tensor,
    *,
    across_layers: bool = False,
    source: Tensor | None = None,
    source_padding: Tensor | None = None,
    of: Place = "self",
    controls: int = CONTROLS,
    seed: int = 0,
) -> Matching:
    """The heads of two models (seeds, variants or checkpoints) that look at the same texts in the most alike ways.

    A head is matched inside its layer unless `across_layers`. Layers and heads that the other model has none for, and
    heads without a map, stay alone.
    """
    if a.spec.vocabulary_size != b.spec.vocabulary_size:
        raise InputError(
            f"one model knows {a.spec.vocabulary_size} tokens and the other {b.spec.vocabulary_size}",
            hint="match models that were trained on the same corpus",
        )
    if controls < 1:
        raise InputError(f"a control of {controls} shuffled models says nothing", hint="use 1 or more")
    others: dict[str, Any] = {"source": source, "source_padding": source_padding}
    rows, columns = list(every_head(a, of)), list(every_head(b, of))
    table = _similarity(a, b, tokens, of, others)
    pairs, chance = _matched(table, rows, columns, across_layers)
    if not pairs:
        raise InputError("no head of one model can be matched with one of the other", hint="use variants with a map")
    best = []
    for copied in shuffled_models(b, controls, seed):
        found, _ = _matched(_similarity(a, copied, tokens, of, others), rows, columns, across_layers)
        best += [pair.similarity for pair in found]
    return Matching(tuple(pairs), table, chance, sum(best) / len(best) if best else math.nan)


# Over seeds and over training


def match_all(models: Sequence[LanguageModel], tokens: Tensor, **options: Any) -> dict[tuple[int, int], Matching]:
    """Every pair of several models, such as the seeds of one variant, by their numbers."""
    if len(models) < 2:
        raise InputError(f"models to match: {len(models)}", hint="give two or more")
    return {
        (a, b): match_heads(models[a], models[b], tokens, **options) for a, b in combinations(range(len(models)), 2)
    }


def over_checkpoints(
    path: Path, tokens: Tensor, *, steps: Sequence[int] | None = None, **options: Any
) -> dict[int, tuple[Likeness, Matching]]:
    """How alike the heads of a run were to each other after each of these steps, by default all that are saved, and
    which of them became which of its last."""
    directory = RunDirectory.open(path)
    if steps is None:
        steps = directory.checkpoints.steps()
    last = load_run(path)
    found = {}
    for step in sorted({*steps, last.step}):
        model = last.model if step == last.step else load_run(path, step).model
        found[step] = head_likeness(model, tokens), match_heads(model, last.model, tokens, **options)
    if not found:
        raise FileError(f"{path} has no weights yet", hint="train it further")
    return found


# The parts of it


def _effect_cosines(products: Tensor, sums: Tensor, count: int) -> Tensor:
    """What varies by less than rounding of its mean is constant."""
    squares = products.diagonal()
    varies = squares > _CONSTANT * (squares + sums.square().sum(-1) / count)
    squares = squares.where(varies, 0.0)
    return cosines(products, squares, squares)


def _similarity(a: LanguageModel, b: LanguageModel, tokens: Tensor, of: Place, others: dict[str, Any]) -> Tensor:
    """(heads of a, heads of b)."""
    products: Any = 0
    squares: list[Any] = [0, 0]
    for rows in batches(a, tokens, of):
        given = {name: None if one is None else one[rows] for name, one in others.items()}
        patterns = [patterns_of(model, tokens[rows], of, given) for model in (a, b)]
        if patterns[0].shape[1] != patterns[1].shape[1]:  # one of the models has no map anywhere
            patterns = [torch.zeros(len(one), 1) for one in patterns]
        products = products + products_of(*patterns)
        squares = [
            old + one.square().sum(1, dtype=torch.float64).cpu() for old, one in zip(squares, patterns, strict=True)
        ]
    return cosines(products, *squares)


def _matched(table: Tensor, rows: list[Head], columns: list[Head], across_layers: bool) -> tuple[list[Pair], float]:
    """The best pairs, and the mean of all that could be."""
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
