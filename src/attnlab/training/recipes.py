"""Recipes: an architecture, and how it is trained.

gpt2   the published model with AdamW and a cosine; what an experiment on GPT-2 uses
fast   what reaches a loss soonest: the fast architecture with Muon beside AdamW and a trapezoid
"""

from __future__ import annotations

from dataclasses import dataclass

from attnlab.errors import UnknownNameError
from attnlab.models.architectures import RECIPE_OPTIMIZERS
from attnlab.training.optimizers import OptimizerSpec
from attnlab.training.schedules import Schedule


@dataclass(frozen=True)
class Recipe:
    """The defaults of a run; every one of them can be changed by name."""

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

# What `optimizer=…` changes in a recipe: the optimizer alone, with the numbers that suit it.
OPTIMIZERS: dict[str, OptimizerSpec] = {recipe.optimizer.kind: recipe.optimizer for recipe in RECIPES.values()}


def recipe(name: str) -> Recipe:
    """A recipe by its name."""
    if name not in RECIPES:
        raise UnknownNameError("recipe", name, RECIPES)
    return RECIPES[name]


def optimizer(name: str) -> OptimizerSpec:
    """The numbers of an optimizer by its name."""
    if name not in OPTIMIZERS:
        raise UnknownNameError("optimizer", name, OPTIMIZERS)
    return OPTIMIZERS[name]
