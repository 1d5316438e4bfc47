"""Recipes: an architecture, an optimizer and a schedule.

gpt2   the published model with AdamW and a cosine schedule; what an experiment on GPT-2 uses
fast   reaches a given loss soonest: the fast architecture with Muon, AdamW and a warmup–stable–decay schedule
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from attnlab.errors import UnknownNameError
from attnlab.models.spec import RECIPE_OPTIMIZERS
from attnlab.specification import Specification

Fraction = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(ge=0, le=1)]


class OptimizerSpec(Specification):
    """The optimizer and its hyperparameters. `matrix_learning_rate` and the fields after it are Muon's."""

    what = "an optimizer"

    kind: Literal["adamw", "muon"] = "adamw"
    learning_rate: PositiveFloat = 1e-3
    betas: tuple[Fraction, Fraction] = (0.9, 0.95)
    epsilon: PositiveFloat = 1e-8
    weight_decay: Annotated[float, Field(ge=0)] = 0.1
    matrix_learning_rate: PositiveFloat = 0.02
    momentum: Fraction = 0.95
    iterations: PositiveInt = 5


class Schedule(Specification):
    """The learning rate as a pure function of the step: a factor between 0 and 1 on the optimizer's own rate.

    Every `kind` begins with a linear warmup. `cosine`, as in GPT-2's recipe, then decays to `end` along half a cosine;
    `trapezoid`, the warmup–stable–decay schedule of the NanoGPT speedrun, stays at 1 and decays linearly over the last
    share `decay` of the steps; `constant` stays at 1.
    """

    what = "a schedule"

    kind: Literal["cosine", "trapezoid", "constant"] = "cosine"
    warmup_steps: NonNegativeInt = 100
    decay: Share = 0.4
    end: Share = 0.1

    def factor(self, step: int, steps: int) -> float:
        """Return the factor of step `step` of `steps`; the first step is 0."""
        if step < self.warmup_steps:
            return (step + 1) / (self.warmup_steps + 1)
        if self.kind == "cosine":
            done = min(1.0, (step - self.warmup_steps) / max(1, steps - self.warmup_steps))
            return self.end + (1 - self.end) * 0.5 * (1 + math.cos(math.pi * done))
        if self.kind == "trapezoid":
            left = (steps - step) / max(1.0, self.decay * steps)
            return self.end + (1 - self.end) * min(1.0, max(0.0, left))
        return 1.0


@dataclass(frozen=True)
class Recipe:
    """The defaults of a run; each of them can be changed by name."""

    architecture: str
    optimizer: OptimizerSpec
    schedule: Schedule
    batch_size: int
    steps: int
    clip: float


RECIPES: dict[str, Recipe] = {
    "gpt2": Recipe(
        "gpt2",
        OptimizerSpec(kind=RECIPE_OPTIMIZERS["gpt2"], learning_rate=1e-3, betas=(0.9, 0.99)),
        Schedule(kind="cosine", warmup_steps=100, end=0.1),
        batch_size=12,
        steps=2000,
        clip=1.0,
    ),
    "fast": Recipe(
        "fast",
        OptimizerSpec(
            kind=RECIPE_OPTIMIZERS["fast"],
            learning_rate=0.02,
            betas=(0.9, 0.95),
            weight_decay=0.0,
            matrix_learning_rate=0.02,
        ),
        Schedule(kind="trapezoid", warmup_steps=10, decay=0.9, end=0.0),
        batch_size=24,
        steps=600,
        clip=1.0,
    ),
}

# `optimizer=…` replaces only the optimizer of a recipe, with its default hyperparameters.
OPTIMIZERS: dict[str, OptimizerSpec] = {recipe.optimizer.kind: recipe.optimizer for recipe in RECIPES.values()}


def recipe(name: str) -> Recipe:
    """Return a recipe by its name."""
    if name not in RECIPES:
        raise UnknownNameError("recipe", name, RECIPES)
    return RECIPES[name]


def optimizer(name: str) -> OptimizerSpec:
    """Return the numbers of an optimizer by its name."""
    if name not in OPTIMIZERS:
        raise UnknownNameError("optimizer", name, OPTIMIZERS)
    return OPTIMIZERS[name]
