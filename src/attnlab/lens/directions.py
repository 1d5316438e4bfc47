"""How many directions fit into a space if they only need to be nearly orthogonal.

Directions are lines: two are closer than allowed if |cos| exceeds a limit c < 1. In D dimensions two random ones do so
with probability P = I(1 − c²; (D − 1)/2, ½), the regularised incomplete beta function.

    sampled      random directions, each kept if it is far enough from all that were kept before
    spread       N directions moved by gradient descent on the largest |cos| among them
    covering     at least 1 / P: caps of chance P around a set that cannot be enlarged cover everything
    JL           N + 1 points (N perpendicular unit vectors and 0) survive a random projection to D dimensions with
                 squared distances within 1 ± ε if D ≥ 4 ln(N + 1) / (ε²/2 − ε³/3); then |cos| ≤ 2ε / (1 − ε)
    Welch        at most D (1 − c²) / (1 − D c²), where D c² < 1

Johnson and Lindenstrauss 1984 with the constants of Dasgupta and Gupta 2003; Welch 1974. Bounds on the count are given
as natural logarithms, because the counts overflow.

Superposition: a toy model learns to compress n sparse features into m < n dimensions and to reconstruct them.

    x̂ = ReLU(Wᵀ W x + b)          W (dimensions, features), b (features)
    x_i = 0 with a chance of 1 − density, else uniform in [0, 1]
    loss = E |x̂ − x|² / density   the error per active feature

A column of W is the direction of a feature. Orthogonal features need a dimension each; features that rarely occur
together may share dimensions, at the cost of some interference, which the ReLU removes while it is negative.

    features learned        Σ min(1, |W_i|²), as a feature that is kept has a length of 1, or more against interference
    a feature's dimensions  |W_i|² / Σ_j (W_i·W_j / |W_i|)², 1 alone, ½ for one of an opposite pair, ⅖ in a pentagon

Elhage et al. 2022, "Toy models of superposition", arXiv 2209.10652; all features are equally important here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from scipy import special  # type: ignore[import-untyped,unused-ignore]
from torch import Tensor

from attnlab.errors import InputError

_BLOCK = 256  # directions that are drawn at a time
_MOST_DRAWN = 1 << 27  # numbers
_SMOOTHEST, _SHARPEST = 10.0, 10_000.0  # β of the smooth maximum, at the first step and at the last
_STRIDE = 0.1  # of the first step, relative to the length of a direction
_TINY = 1e-300


# Bounds


def chance_of_closeness(width: int, cosine: float) -> float:
    """Return the natural logarithm of the chance that two random directions have |cos| above the limit.

    Parameters
    ----------
    width
        The dimensions of the space.
    cosine
        The limit that |cos| of two directions must not exceed.
    """
    _check(width, cosine)
    if width == 1:
        return 0.0  # there is only one line
    a, x = (width - 1) / 2, 1 - cosine**2
    chance = float(special.betainc(a, 0.5, x))
    if chance > _TINY:
        return math.log(chance)
    # xᵃ c / (a B(a, ½)) · F(a + ½, 1; a + 1; x), where F is below 1/c², by less than a thousandth this far out.
    return a * math.log(x) - math.log(cosine) - math.log(a) - float(special.betaln(a, 0.5))


def covering_bound(width: int, cosine: float) -> float:
    """Return ln of a number of directions that certainly fit.

    Parameters
    ----------
    width
        The dimensions of the space.
    cosine
        The limit that |cos| of two directions must not exceed.
    """
    return -chance_of_closeness(width, cosine)


def johnson_lindenstrauss_bound(width: int, cosine: float) -> float:
    """Return ln of the number of directions that the Johnson–Lindenstrauss lemma promises; −∞ if it promises none.

    Parameters
    ----------
    width
        The dimensions of the space.
    cosine
        The limit that |cos| of two directions must not exceed.
    """
    _check(width, cosine)
    epsilon = cosine / (2 + cosine)
    points = width * (epsilon**2 / 2 - epsilon**3 / 3) / 4  # ln (N + 1)
    return points + math.log1p(-math.exp(-points)) if points > math.log(2) else -math.inf


def welch_bound(width: int, cosine: float) -> float:
    """Return ln of a number of directions that cannot be exceeded; ∞ where the limit is too wide for this bound.

    Parameters
    ----------
    width
        The dimensions of the space.
    cosine
        The limit that |cos| of two directions must not exceed.
    """
    _check(width, cosine)
    rest = 1 - width * cosine**2
    return math.log(width * (1 - cosine**2) / rest) if rest > 0 else math.inf


# Search


def largest_cosine(directions: Tensor) -> float:
    """Return the largest |cos| of two different rows of (directions, width); 0 for a single one."""
    if directions.dim() != 2:
        raise InputError(f"directions have shape {tuple(directions.shape)}", hint="give (directions, width)")
    unit = F.normalize(directions.double(), dim=-1)
    return float((unit @ unit.T).abs().fill_diagonal_(0).max())


def sampled_directions(width: int, cosine: float, *, tries: int, seed: int = 0) -> Tensor:
    """Return random directions that keep the limit, (kept, width), of length 1; more are kept if more are tried.

    Parameters
    ----------
    width
        The dimensions of the space.
    cosine
        The limit that |cos| of two directions must not exceed.
    tries
        Directions that are drawn.
    seed
        The random seed; the same seed gives the same result.
    """
    _check(width, cosine)
    if not 1 <= tries * width <= _MOST_DRAWN:
        raise InputError(
            f"{tries} directions of width {width} cannot be drawn",
            hint=f"try 1 to {max(1, _MOST_DRAWN // width)} of them",
        )
    generator = torch.Generator().manual_seed(seed)
    kept = torch.empty(0, width, dtype=torch.float64)
    for start in range(0, tries, _BLOCK):
        count = min(_BLOCK, tries - start)
        drawn = F.normalize(torch.randn(count, width, dtype=torch.float64, generator=generator), dim=-1)
        apart = drawn[((drawn @ kept.T).abs() <= cosine).all(-1)]
        kept = torch.cat((kept, apart[_first_come(apart, cosine)]))
    return kept


def expected_sampled(width: int, cosine: float, tries: int) -> float:
    """Return the least number that `sampled_directions` keeps on average, (1 − (1 − P)^tries) / P.

    k kept directions exclude at most k P of all others, so the next one is kept with probability ≥ 1 − k P.

    Parameters
    ----------
    width
        The dimensions of the space.
    cosine
        The limit that |cos| of two directions must not exceed.
    tries
        Directions that are drawn.
    """
    chance = math.exp(chance_of_closeness(width, cosine))
    if chance * tries < 1e-12:
        return float(tries)
    return -math.expm1(tries * math.log1p(-chance)) / chance if chance < 1 else 1.0


def _first_come(directions: Tensor, cosine: float) -> list[int]:
    """Return the indices of directions that keep the limit to all earlier ones that were kept."""
    near = ((directions @ directions.T).abs() > cosine).numpy()
    taken = np.zeros(len(directions), dtype=bool)
    stays: list[int] = []
    for place in range(len(directions)):
        if not taken[place]:
            stays.append(place)
            taken |= near[place]
    return stays


def spread_directions(count: int, width: int, *, steps: int = 300, seed: int = 0) -> Tensor:
    """Return `count` directions, (count, width), moved apart by gradient descent; the more steps, the further.

    The gradient is that of ln Σ e^(β|cos|) / β, close to the largest |cos|: smooth at first, so that all pairs
    move, and sharper with every step.

    Parameters
    ----------
    count
        How many directions.
    width
        The dimensions of the space.
    steps
        Steps of gradient descent.
    seed
        The random seed; the same seed gives the same result.
    """
    if count < 1 or width < 1 or steps < 1 or count * max(count, width) > _MOST_DRAWN:
        raise InputError(
            f"{count} directions of width {width} cannot be moved {steps} times",
            hint="use numbers from 1 on, and fewer directions",
        )
    generator = torch.Generator().manual_seed(seed)
    unit = F.normalize(torch.randn(count, width, dtype=torch.float64, generator=generator), dim=-1)
    best, least, moving = unit, math.inf, torch.zeros_like(unit)
    for step in range(steps):
        left = 1 - step / steps
        cosines = (unit @ unit.T).fill_diagonal_(0)
        sizes = cosines.abs()
        largest = float(sizes.max())
        if largest < least:
            best, least = unit, largest
        share = (_SHARPEST * (_SMOOTHEST / _SHARPEST) ** left * (sizes - largest)).exp_().fill_diagonal_(0)
        push = (share * cosines.sign()) @ unit
        push -= (push * unit).sum(-1, keepdim=True) * unit  # along the sphere
        moving = moving / 2 + push / push.norm(dim=-1).max().clamp_min(_TINY)
        unit = F.normalize(unit - _STRIDE * left**2 * moving, dim=-1)
    return best


def spread_ladder(width: int, loosest: float, *, most: int = 64, steps: int = 300, seed: int = 0) -> dict[int, float]:
    """Return the largest |cos| that `spread_directions` reaches, by the number of directions.

    Numbers grow from `width`, by a fifth or by one, until the limit `loosest` is broken twice in a row, or `most` is
    reached: up to there, they answer how many directions fit within any tighter limit.

    Parameters
    ----------
    width
        The dimensions of the space.
    loosest
        The limit of |cos| that ends the search when it is exceeded twice in a row.
    most
        The largest number of directions.
    steps
        Steps of gradient descent.
    seed
        The random seed; the same seed gives the same result.
    """
    _check(width, loosest)
    found: dict[int, float] = {}
    count, broken = width, 0
    while count <= most and broken < 2:
        found[count] = largest_cosine(spread_directions(count, width, steps=steps, seed=seed))
        broken = broken + 1 if found[count] > loosest else 0
        count = max(count + 1, round(1.2 * count))
    return found


def _check(width: int, cosine: float) -> None:
    if type(width) is not int or width < 1:
        raise InputError(f"a space of {width!r} dimensions", hint="use a whole number from 1 on")
    if not 0 < cosine < 1:
        raise InputError(f"a largest |cos| of {cosine:g} is not between 0 and 1", hint="use one such as 0.17, for 80°")


# Superposition

_ROWS = 256  # samples in a step
_JUDGED = 8192  # samples that the final loss is measured with
_LEARNING_RATE = 0.02
_BEGINNING = 0.5  # length of a column at the start

Steps = Callable[[Iterable[int]], Iterable[int]]


@dataclass(frozen=True)
class Superposed:
    """The result at one density: of several random initialisations, the one with the least loss."""

    density: float
    weights: Tensor  # (dimensions, features)
    bias: Tensor  # (features,)
    loss: float
    others: tuple[float, ...]  # the losses of all initialisations, in ascending order

    @property
    def features_learned(self) -> float:
        return float(self.weights.square().sum(0).clamp_max(1).sum())


def learn_superposition(
    features: int,
    dimensions: int,
    densities: Sequence[float],
    *,
    beginnings: int = 8,
    steps: int = 1000,
    seed: int = 0,
    watched: Steps = iter,
) -> list[Superposed]:
    """Train one toy model for each density, from several random initialisations, all at once.

    Parameters
    ----------
    features
        Features of the data.
    dimensions
        Dimensions of the model, fewer than features.
    densities
        The probability that a feature is not zero, for each toy model.
    beginnings
        Random initialisations of each toy model, of which the best is kept.
    steps
        Steps of gradient descent.
    seed
        The random seed; the same seed gives the same result.
    watched
        Wraps the iterable of steps, as a progress bar does.
    """
    _check_toy(features, dimensions, densities, beginnings, steps)
    generator = torch.Generator().manual_seed(seed)
    density = torch.tensor(densities, dtype=torch.float32).repeat_interleave(beginnings)[:, None, None]
    toys = len(density)
    weights = torch.randn(toys, dimensions, features, generator=generator) * (_BEGINNING / math.sqrt(dimensions))
    bias = torch.zeros(toys, 1, features)
    optimizer = torch.optim.Adam([weights.requires_grad_(), bias.requires_grad_()])
    for step in watched(range(steps)):
        optimizer.param_groups[0]["lr"] = _LEARNING_RATE * (1 - step / steps)
        optimizer.zero_grad()
        _loss(weights, bias, density, _ROWS, generator).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    with torch.no_grad():
        # One set of samples for all initialisations, so that the least loss is not the luckiest draw.
        losses = _loss(weights, bias, density, _JUDGED, generator, alike=True).view(-1, beginnings)
    found = []
    for number, row in enumerate(losses):
        best = number * beginnings + int(row.argmin())
        others = tuple(row.sort().values.tolist())
        found.append(Superposed(densities[number], weights[best].detach(), bias[best, 0].detach(), others[0], others))
    return found


def feature_dimensions(weights: Tensor) -> Tensor:
    """Return the share of the dimensions that each column of (dimensions, features) has to itself; 0 for a zero column.

    Parameters
    ----------
    weights
        (dimensions, features).
    """
    overlap = (weights.mT @ weights).square().sum(-1)
    length = weights.square().sum(-2)
    return torch.where(overlap > 0, length.square() / overlap.clamp_min(1e-30), 0.0)


def _loss(
    weights: Tensor, bias: Tensor, density: Tensor, rows: int, generator: torch.Generator, alike: bool = False
) -> Tensor:
    """Return the loss of each toy model on new samples, (toys,)."""
    shape = (1 if alike else len(weights), rows, weights.shape[-1])
    there = torch.rand(shape, generator=generator) < density
    x = torch.rand(shape, generator=generator) * there
    back = torch.relu((x @ weights.mT) @ weights + bias)
    return (back - x).square().sum(-1).mean(-1) / density[:, 0, 0]


def _check_toy(features: int, dimensions: int, densities: Sequence[float], beginnings: int, steps: int) -> None:
    if min(features, dimensions, beginnings, steps) < 1:
        raise InputError(
            f"{features} features, {dimensions} dimensions, {beginnings} beginnings, {steps} steps",
            hint="use whole numbers from 1 on",
        )
    if not densities or not all(0 < density <= 1 for density in densities):
        raise InputError(f"densities {list(densities)} are not above 0 and up to 1", hint="use such as (1.0, 0.1)")
