"""How many directions fit into a space when they need only be nearly perpendicular.

Directions are lines: two are closer than allowed if |cos| exceeds a limit c < 1. In D dimensions two random ones do so
with the chance P = I(1 − c²; (D − 1)/2, ½), the regularised incomplete beta function.

    sampled      random directions, each kept if it is far enough from all that were kept before
    spread       N directions moved by gradient descent on the largest |cos| among them
    covering     at least 1 / P: caps of chance P around a set that cannot be enlarged cover everything
    JL           N + 1 points (N perpendicular unit vectors and 0) survive a random projection to D dimensions with
                 squared distances within 1 ± ε if D ≥ 4 ln(N + 1) / (ε²/2 − ε³/3); then |cos| ≤ 2ε / (1 − ε)
    Welch        at most D (1 − c²) / (1 − D c²), where D c² < 1

Johnson and Lindenstrauss 1984 with the constants of Dasgupta and Gupta 2003; Welch 1974. Bounds on the count are given
as natural logarithms, for the counts overflow.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from scipy import special  # type: ignore[import-untyped,unused-ignore]
from torch import Tensor

from attnlab.errors import InputError

_BLOCK = 256  # directions that are drawn at a time
_MOST_DRAWN = 1 << 27  # numbers
_SMOOTHEST, _SHARPEST = 10.0, 10_000.0  # β of the smooth maximum, at the first step and at the last
_STRIDE = 0.1  # of the first step, in lengths of a direction
_TINY = 1e-300


# What is certain


def chance_of_closeness(width: int, cosine: float) -> float:
    """The natural logarithm of the chance that two random directions have |cos| above the limit."""
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
    """ln of a number of directions that certainly fit."""
    return -chance_of_closeness(width, cosine)


def johnson_lindenstrauss_bound(width: int, cosine: float) -> float:
    """ln of the number of directions that the Johnson–Lindenstrauss lemma promises; −∞ where it promises none."""
    _check(width, cosine)
    epsilon = cosine / (2 + cosine)
    points = width * (epsilon**2 / 2 - epsilon**3 / 3) / 4  # ln (N + 1)
    return points + math.log1p(-math.exp(-points)) if points > math.log(2) else -math.inf


def welch_bound(width: int, cosine: float) -> float:
    """ln of a number of directions that cannot be exceeded; ∞ where the limit is too wide for this bound."""
    _check(width, cosine)
    rest = 1 - width * cosine**2
    return math.log(width * (1 - cosine**2) / rest) if rest > 0 else math.inf


# What is found


def largest_cosine(directions: Tensor) -> float:
    """The largest |cos| of two different rows of (directions, width); 0 for a single one."""
    if directions.dim() != 2:
        raise InputError(f"directions have shape {tuple(directions.shape)}", hint="give (directions, width)")
    unit = F.normalize(directions.double(), dim=-1)
    return float((unit @ unit.T).abs().fill_diagonal_(0).max())


def sampled_directions(width: int, cosine: float, *, tries: int, seed: int = 0) -> Tensor:
    """Random directions that keep the limit, (kept, width), each of length 1; the more are tried, the more are kept."""
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
    """The least number that `sampled_directions` keeps on average, (1 − (1 − P)^tries) / P.

    For k kept directions exclude at most k P of all others: the next one stays with a chance of 1 − k P or more.
    """
    chance = math.exp(chance_of_closeness(width, cosine))
    if chance * tries < 1e-12:
        return float(tries)
    return -math.expm1(tries * math.log1p(-chance)) / chance if chance < 1 else 1.0


def _first_come(directions: Tensor, cosine: float) -> list[int]:
    """The places of those that keep the limit to all that came before and stayed."""
    near = ((directions @ directions.T).abs() > cosine).numpy()
    taken = np.zeros(len(directions), dtype=bool)
    stays: list[int] = []
    for place in range(len(directions)):
        if not taken[place]:
            stays.append(place)
            taken |= near[place]
    return stays


def spread_directions(count: int, width: int, *, steps: int = 300, seed: int = 0) -> Tensor:
    """So many directions, (count, width), moved apart as far as descent finds; the more steps, the farther.

    The gradient is that of ln Σ e^(β|cos|) / β, which is nearly the largest |cos|: smooth at first, so that all pairs
    move, and sharper with every step.
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
    """The largest |cos| that `spread_directions` comes to, by the number of directions.

    Numbers grow from `width`, by a fifth or by one, until the limit `loosest` is broken twice in a row, or `most` is
    reached: up to there, they answer how many directions fit within any tighter limit.
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
