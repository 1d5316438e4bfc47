"""Mixtures: which layer of a model has which variant.

    a            every layer
    a,b          layers alternate: a b a b …
    a*2,b        a twice, then b: a a b a a b …
    a,(b,c),d    the part in parentheses is repeated between the first and last layers: a b c b c … d

Without parentheses the whole list is repeated. The last repetition may be truncated, but a list with more layers than
the model is refused.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from attnlab.attention.names.catalogue import Variant, variant
from attnlab.errors import SpecError

_PARTS = re.compile(r"(?:([^()]*),)?\s*\(([^()]*)\)\s*(?:,([^()]*))?")  # first, (turns), last
_COUNT = re.compile(r"[1-9][0-9]{0,2}")


@dataclass(frozen=True)
class Mixture:
    """The variants of the first layers, of the repeated layers in between, and of the last layers."""

    name: str
    first: tuple[Variant, ...]
    turns: tuple[Variant, ...]
    last: tuple[Variant, ...]

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The variants of the mixture, each once."""
        return tuple({one.name: one for one in (*self.first, *self.turns, *self.last)}.values())

    @property
    def meaning(self) -> str:
        """Return which layers have which variants, in words."""
        if len(self.variants) == 1:
            return self.variants[0].meaning
        turns = f"{'layers take turns:' if len(self.turns) > 1 else 'layers of'} {_listed(self.turns)}"
        first = f"first {_listed(self.first)}; " if self.first else ""
        last = f"; last {_listed(self.last)}" if self.last else ""
        text = f"{first}{turns}{last}."
        return text[0].upper() + text[1:]

    @property
    def listed(self) -> int:
        """Return how many layers the list has."""
        return len(self.first) + len(self.turns) + len(self.last)

    def layers(self, num_layers: int) -> tuple[Variant, ...]:
        """Return the variant of each layer of a model."""
        if self.listed > num_layers:
            raise SpecError(
                f"the mixture {self.name!r} lists {self.listed} layers, and the model has {num_layers}",
                hint=f"shorten the list, or use a model with num_layers={self.listed} or more",
            )
        between = num_layers - len(self.first) - len(self.last)
        return (*self.first, *itertools.islice(itertools.cycle(self.turns), between), *self.last)


def mixture(name: str) -> Mixture:
    """Return a mixture by its name; a single variant is one, too."""
    if "(" not in name and ")" not in name:
        return Mixture(name, (), _variants(name), ())
    found = _PARTS.fullmatch(name.strip())
    if found is None:
        raise SpecError(
            f"{name!r} is not a list of layers with one part in parentheses",
            hint='write "softmax,(window),softmax": the part in parentheses is repeated between the others',
        )
    first, turns, last = (() if part is None else _variants(part) for part in found.groups())
    return Mixture(name, first, turns, last)


def _variants(text: str) -> tuple[Variant, ...]:
    """Return the variants that a list names, one for each layer."""
    found: list[Variant] = []
    for entry in text.split(","):
        name, star, count = (part.strip() for part in entry.partition("*"))
        if star and not _COUNT.fullmatch(count):
            raise SpecError(
                f"{count!r} in {entry.strip()!r} is not a number of layers",
                hint="give a whole number from 1 to 999, as in window*2",
            )
        found += [variant(name)] * (int(count) if star else 1)
    return tuple(found)


def _listed(variants: tuple[Variant, ...]) -> str:
    counted = ((name, len([*group])) for name, group in itertools.groupby(one.name for one in variants))
    return ", ".join(name if count == 1 else f"{count} × {name}" for name, count in counted)
