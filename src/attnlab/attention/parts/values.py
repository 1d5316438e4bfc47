"""Changes of a layer's values before they are weighted.

    residual    v ← a v¹ + b v    v¹ the values of the first layer, a and b learned by each layer     (arXiv 2410.17897)

v¹ comes from the first layer of the model that has this part, with as many value heads of the same width. For that
layer itself, and for a layer that is used alone, v¹ = v. The cache keeps the mixed values, so that decoding needs v¹ of
new tokens only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from attnlab.attention.parts.part import Declared, Parameter, Part

# Values that the first layers of a forward pass provide to later ones, by source ("self" or "cross"), heads and width.
FirstValues = dict[tuple[str, int, int], Tensor]


class Values(Part):
    """The base class of all changes of the values."""

    family: ClassVar[str] = "values"
    equation: ClassVar[str]

    def mix(self, value: Tensor, first: Tensor, *args: Any, **own: Any) -> Tensor:
        """Return (batch, key-value heads, tokens, value width) from a layer's own values and those of the first."""
        raise NotImplementedError


class ValueResidual(Values):
    """Adds the values of the first layer in every layer, so that the input tokens are not lost in higher layers.

    This is the learnable form of the paper, with both shares starting at one half. In the first layer the shares only
    scale the values.
    """

    kind: ClassVar[str] = "residual"
    equation: ClassVar[str] = "a v¹ + b v, v¹ of the first layer"
    learned: ClassVar[Mapping[str, Parameter]] = {
        "first_share": Parameter(initial=0.5, per="layer"),
        "own_share": Parameter(initial=0.5, per="layer"),
    }
    variants = (
        Declared(
            "value-residual",
            "Each layer adds the values of the first layer to its own.",
            "Zhou et al. 2024, arXiv 2410.17897",
            "1.8: what the value map has to carry",
        ),
    )

    def mix(self, value: Tensor, first: Tensor, first_share: Tensor, own_share: Tensor) -> Tensor:
        return first * first_share + value * own_share
