"""The first losses of every recipe are those that were written down; see `support/golden.py` for how, and how anew."""

from __future__ import annotations

import pytest
import torch

from attnlab.training import RECIPES
from support.golden import FACTOR, STEPS, engine, losses_of, read, this_machine


def explained(found: list[float], recipe: str) -> bool:
    """Whether rounding explains all differences from the golden losses."""
    golden = read(recipe)
    floor = 4 * torch.finfo(torch.float32).eps
    return all(
        abs(loss - expected) <= FACTOR * spread + floor * expected
        for loss, expected, spread in zip(found, golden["losses"], golden["spread"], strict=True)
    )


@pytest.mark.parametrize("recipe", RECIPES)
def test_losses_are_golden(recipe: str) -> None:
    golden, found = read(recipe), losses_of(engine(recipe))
    assert len(golden["losses"]) == STEPS
    assert explained(found, recipe), f"{found} are not the golden losses; if that is meant, write them anew"
    if golden["machine"] == this_machine():
        assert found == golden["losses"], "rounding changed; if that is meant: cd tests && python -m support.golden"


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_tolerance_holds_what_it_should(recipe: str) -> None:
    """Exact arithmetic is within it, and the smallest change of the run is not."""
    assert explained(losses_of(engine(recipe, torch.float64)), recipe)
    rate = RECIPES[recipe].optimizer.learning_rate
    assert not explained(losses_of(engine(recipe, learning_rate=1.01 * rate)), recipe)
    assert not explained(losses_of(engine(recipe, seed=1)), recipe)
