"""More features than dimensions: a toy that learns to put n sparse features through m < n numbers and back.

    x̂ = ReLU(Wᵀ W x + b)          W (dimensions, features), b (features)
    x_i = 0 with a chance of 1 − density, else uniform in [0, 1]
    loss = E |x̂ − x|² / density   the error for each feature that is there

A column of W is the direction of a feature. Perpendicular features need a dimension each; features that seldom occur
together may share them, at the price of some interference, which the ReLU removes while it is negative.

    features learned        Σ min(1, |W_i|²), as a feature that is kept has a length of 1, or more against interference
    a feature's dimensions  |W_i|² / Σ_j (W_i·W_j / |W_i|)², 1 alone, ½ for one of an opposite pair, ⅖ in a pentagon

Elhage et al. 2022, "Toy models of superposition", arXiv 2209.10652; all features are equally important here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.errors import InputError

_ROWS = 256  # samples in a step
_JUDGED = 8192  # samples that the final loss is measured with
_LEARNING_RATE = 0.02
_BEGINNING = 0.5  # length of a column at the start

Steps = Callable[[Iterable[int]], Iterable[int]]


@dataclass(frozen=True)
class Superposed:
    """What was learned at one density: of several beginnings, the one with the least loss."""

    density: float
    weights: Tensor  # (dimensions, features)
    bias: Tensor  # (features,)
    loss: float
    others: tuple[float, ...]  # the losses of all beginnings, from the least on

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
    """One toy for each density, trained from several random beginnings, all of them at once.

    `watched` is handed the steps and gives them back one by one, as a progress bar does.
    """
    _check(features, dimensions, densities, beginnings, steps)
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
        # One set of samples for all beginnings, so that the least loss is not the luckiest draw.
        losses = _loss(weights, bias, density, _JUDGED, generator, alike=True).view(-1, beginnings)
    found = []
    for number, row in enumerate(losses):
        best = number * beginnings + int(row.argmin())
        others = tuple(row.sort().values.tolist())
        found.append(Superposed(densities[number], weights[best].detach(), bias[best, 0].detach(), others[0], others))
    return found


def feature_dimensions(weights: Tensor) -> Tensor:
    """The share of the dimensions that each column of (dimensions, features) has to itself; 0 for one that is 0."""
    overlap = (weights.mT @ weights).square().sum(-1)
    length = weights.square().sum(-2)
    return torch.where(overlap > 0, length.square() / overlap.clamp_min(1e-30), 0.0)


def _loss(
    weights: Tensor, bias: Tensor, density: Tensor, rows: int, generator: torch.Generator, alike: bool = False
) -> Tensor:
    """For each toy the squared error of its samples, (toys,)."""
    shape = (1 if alike else len(weights), rows, weights.shape[-1])
    there = torch.rand(shape, generator=generator) < density
    x = torch.rand(shape, generator=generator) * there
    back = torch.relu((x @ weights.mT) @ weights + bias)
    return (back - x).square().sum(-1).mean(-1) / density[:, 0, 0]


def _check(features: int, dimensions: int, densities: Sequence[float], beginnings: int, steps: int) -> None:
    if min(features, dimensions, beginnings, steps) < 1:
        raise InputError(
            f"{features} features, {dimensions} dimensions, {beginnings} beginnings, {steps} steps",
            hint="use whole numbers from 1 on",
        )
    if not densities or not all(0 < density <= 1 for density in densities):
        raise InputError(f"densities {list(densities)} are not above 0 and up to 1", hint="use such as (1.0, 0.1)")
