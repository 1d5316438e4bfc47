"""Sizes of a model: by name, or by a number of parameters as in `size("50k")`.

The names from `gpt2` to `gpt2-xl` are GPT-2's (Radford et al. 2019), those from `gpt3-small` to `gpt3` GPT-3's, from
125M to 175B (arXiv 2005.14165, table 2.1). Two rows of that table do not multiply out: 24 heads of width 128 at a width
of 2,048, and a width of 5,140 for 40 heads of width 128. Here `gpt3-xl` has 16 heads and `gpt3-13b` a width of 5,120,
with which they have the 1.3 and 13 billion parameters of the table.

A number selects the nearest shape of a family that ends at GPT-2 small and depends on the width D alone:

    layers  = 12 (D / 768)^0.7, at least 2          heads = the divisor of D closest to 12 (D / 768)^0.5
    context = 64                                    parameters = 12 · layers · D², without embeddings, norms and biases
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
from functools import cache

from attnlab.errors import SpecError, UnknownNameError


@dataclass(frozen=True)
class Size:
    """The shape of a model, apart from its vocabulary."""

    num_layers: int
    model_width: int
    num_heads: int
    context_length: int

    def dimensions(self) -> dict[str, int]:
        return asdict(self)


SIZES: dict[str, Size] = {
    "pico": Size(2, 96, 3, 32),
    "nano": Size(4, 128, 4, 64),
    "micro": Size(6, 192, 6, 128),
    "mini": Size(6, 384, 6, 256),
    "gpt2": Size(12, 768, 12, 1024),
    "gpt2-medium": Size(24, 1024, 16, 1024),
    "gpt2-large": Size(36, 1280, 20, 1024),
    "gpt2-xl": Size(48, 1600, 25, 1024),
    "gpt3-small": Size(12, 768, 12, 2048),
    "gpt3-medium": Size(24, 1024, 16, 2048),
    "gpt3-large": Size(24, 1536, 16, 2048),
    "gpt3-xl": Size(24, 2048, 16, 2048),
    "gpt3-1.3b": Size(24, 2048, 16, 2048),  # the paper's other name for it
    "gpt3-2.7b": Size(32, 2560, 32, 2048),
    "gpt3-6.7b": Size(32, 4096, 32, 2048),
    "gpt3-13b": Size(40, 5120, 40, 2048),
    "gpt3": Size(96, 12288, 96, 2048),
}


_GPT2 = SIZES["gpt2"]
_DEPTH_EXPONENT, _HEADS_EXPONENT = 0.7, 0.5
_LEAST_LAYERS, _CONTEXT = 2, 64
_WIDTHS = (16, 24, *range(32, 257, 16), *range(320, 16_385, 64))  # widths that many numbers of heads divide
_COUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMbBgG])")
_UNITS = {"k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9}


def size(name: str) -> Size:
    """Return a size by its name or by its number of parameters, as in "gpt2" or "50k"."""
    if name in SIZES:
        return SIZES[name]
    count = parameter_count(name)
    if count is None:
        raise UnknownNameError("size", name, SIZES, other="a number of parameters such as 50k")
    return size_of(count)


def parameter_count(text: str) -> float | None:
    """Return the number that a text such as "50k" or "0.5M" stands for; None if it stands for none."""
    match = _COUNT.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _UNITS[match[2].lower()]


@cache
def size_of(parameters: float) -> Size:
    """Return the size on the line of shapes whose number of non-embedding parameters is nearest."""
    smallest, largest = (non_embedding(_of_width(width)) for width in (_WIDTHS[0], _WIDTHS[-1]))
    if not smallest / 1.5 <= parameters <= largest * 1.5:
        raise SpecError(
            f"the number of parameters must be between {smallest:,} and {largest:,}, got {parameters:,.0f}",
            hint="write it as in 50k, 0.5M or 1.5B",
        )
    width = min(_WIDTHS, key=lambda width: abs(math.log(non_embedding(_of_width(width)) / parameters)))
    return _of_width(width)


def non_embedding(shape: Size) -> int:
    """Return 12 · layers · width²: the weights of the blocks, without embeddings, norms and biases."""
    return 12 * shape.num_layers * shape.model_width**2


def _of_width(width: int) -> Size:
    share = width / _GPT2.model_width
    layers = max(_LEAST_LAYERS, round(_GPT2.num_layers * share**_DEPTH_EXPONENT))
    wanted = _GPT2.num_heads * share**_HEADS_EXPONENT
    divisors = [heads for heads in range(1, width // 4 + 1) if width % heads == 0 and (width // heads) % 4 == 0]
    heads = min(divisors, key=lambda heads: abs(math.log(heads / wanted)))
    return Size(layers, width, heads, _CONTEXT)
