"""What happens to the values of a layer before they are weighted.

    residual    v ← a v¹ + b v    v¹ the values of the first layer, a and b learned by each layer     (arXiv 2410.17897)

v¹ comes from the first layer of the model that has this part and as many heads of values of the same width, which is
its own first layer, as is a layer that stands alone. The cache keeps the mixed values, so that decoding needs v¹ of
new tokens only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from attnlab.attention.parts.part import Declared, Parameter, Part

# What the first layers of a forward pass made for the later ones, by source ("self" or "cross"), heads and width.
FirstValues = dict[tuple[str, int, int], Tensor]


class Values(Part):
    """The base of all changes of the values."""

    family: ClassVar[str] = "values"
    equation: ClassVar[str]

    def mix(self, value: Tensor, first: Tensor, *args: Any, **own: Any) -> Tensor:
        """Return (batch, key-value heads, tokens, value width) from a layer's own values and those of the first."""
        raise NotImplementedError


class ValueResidual(Values):
    """Values of the first layer in every layer, so that tokens as they were read are not lost on the way up.

    The source's learnable form, whose two shares start at one half. In the first layer they add up to a factor.
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
