"""The base class of specifications."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from attnlab.errors import SpecError
from attnlab.specification import Specification


class Cake(Specification):
    what = "a cake"
    help_at = "see the recipe"

    layers: int = 2
    weight: float = 1.0


def test_bad_values_are_spec_errors() -> None:
    with pytest.raises(SpecError, match="layers of a cake is 'two'") as wrong:
        Cake(layers="two")
    assert wrong.value.hint == "see the recipe"
    with pytest.raises(SpecError, match="a cake has no field 'layer'") as unknown:
        Cake(layer=3)
    assert unknown.value.hint == "did you mean 'layers'?"
    with pytest.raises(SpecError, match="weight of a cake is nan"):
        Cake(weight=float("nan"))


def test_frozen_and_replaced() -> None:
    cake = Cake(layers=3)
    with pytest.raises(ValidationError, match="frozen"):
        cake.layers = 4
    assert cake.replace(weight=2.0) == Cake(layers=3, weight=2.0)
    with pytest.raises(SpecError, match="layers of a cake"):
        cake.replace(layers=None)
