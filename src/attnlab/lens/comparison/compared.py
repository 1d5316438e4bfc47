"""What came of comparing heads: `comparing_heads.py` says how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.lens.comparison import compare_page
from attnlab.lens.comparison.sides import Side
from attnlab.lens.heads.redundancy import Matching
from attnlab.lens.heads.studying import Study
from attnlab.lens.maps.looks import Look
from attnlab.lens.pages.look_page import framed
from attnlab.lens.pages.views import plain
from attnlab.pages import Page, render, write_page
from attnlab.statistics import Interval

ALPHA = 0.05


@dataclass(frozen=True)
class Difference:
    """A number of the first side and of another; the intervals and p are over paired runs, None with one pair."""

    ours: float  # of the other side
    theirs: float  # of the first
    difference: Interval | None
    p: float | None  # of a difference, corrected for all that were looked at on this side (Holm)

    @property
    def change(self) -> float:
        return self.ours - self.theirs


@dataclass(frozen=True)
class Likenesses:
    """Mean cosines of matched heads' maps; an interval is over runs, None with fewer than two."""

    another_seed: Interval | None
    another_variant: Interval | None
    same_seed: Interval | None
    values: Mapping[str, tuple[float, ...]]
    control: float  # of heads matched with those of shuffled weights
    gap: Interval | None  # another variant − another seed, run by run


@dataclass(frozen=True, eq=False)
class HeadComparison:
    """The sides, their profiles, what differs, and one run of each side by side."""

    sides: tuple[Side, ...]
    texts: str
    profiles: Mapping[str, tuple[Mapping[str, float | None], ...]]  # by side: one for each run
    differences: Mapping[str, Mapping[str, Difference]]  # by side but the first, and by name
    likenesses: Mapping[str, Likenesses]
    looks: Mapping[str, Look]  # of the first run of each side
    matched: Mapping[str, Matching]  # of these runs, with that of the first side
    studies: Mapping[str, Study]  # of these runs
    notes: tuple[str, ...] = ()

    def differing(self, side: str) -> list[str]:
        """What differs beyond chance, the surest first."""
        found = self.differences[side]
        sure = [(one.p, name) for name, one in found.items() if one.p is not None and one.p < ALPHA]
        return [name for _, name in sorted(sure)]

    def to_dict(self) -> dict[str, Any]:
        """As strict JSON can hold it."""
        found: dict[str, Any] = plain(
            {
                "texts": self.texts,
                "sides": [
                    {"name": side.name, "runs": [str(run) for run in side.runs], "seeds": side.seeds}
                    | {"heads": list(self.profiles[side.name])}
                    for side in self.sides
                ],
                "differences": {
                    side: {name: vars(one) for name, one in found.items()} for side, found in self.differences.items()
                },
                "differing": {side: self.differing(side) for side in self.differences},
                "matching": {side: {**vars(one), "values": dict(one.values)} for side, one in self.likenesses.items()},
                "matched": {
                    side: [{"a": pair.a, "b": pair.b, "similarity": pair.similarity} for pair in one.pairs]
                    for side, one in self.matched.items()
                },
                "notes": self.notes,
            }
        )
        return found

    def page(self) -> Page:
        return compare_page.compare_page(self)

    def write(self, path: Path) -> None:
        """Write the page as a whole or not at all."""
        write_page(self.page(), path)

    def _repr_html_(self) -> str:
        return framed(render(self.page()), "heads side by side")
