"""Named sizes, from what trains in seconds on a CPU to what is only counted.

Those from `gpt2` to `gpt2-xl` are GPT-2's (Radford et al. 2019), `gpt3` is GPT-3 175B (arXiv 2005.14165).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from attnlab.errors import UnknownNameError


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
    "gpt3": Size(96, 12288, 96, 2048),
}


def size(name: str) -> Size:
    """A size by its name."""
    if name not in SIZES:
        raise UnknownNameError("size", name, SIZES)
    return SIZES[name]
