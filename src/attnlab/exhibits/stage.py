"""The stage: the functions with which an exhibit shows something, checks something, and reports its progress."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Protocol, SupportsFloat, TypeVar

import numpy as np

from attnlab.errors import InputError
from attnlab.exhibits.blocks import Block, Cell, Formula, Heatmap, Plot, Series, Slip, TableBlock, Words, flat
from attnlab.formats import general
from attnlab.statistics import Estimate, estimate_mean, kolmogorov_distance, kolmogorov_limit

ERRORS = 4.0  # maximum distance of a sampled number from the derived one, in standard errors
ALPHA = 6e-5  # the probability that a normal variable is farther away than that

Item = TypeVar("Item")


@dataclass(frozen=True)
class Check:
    """A check of a claim, whether it holds, and the figure that shows it."""

    claim: str
    what: str
    ok: bool
    figure: str
    found: float | None = None
    expected: float | None = None
    within: float | None = None
    samples: int | None = None


class ExhibitListener(Protocol):
    """Watches an exhibit while it runs."""

    def shown(self, block: Block | Check) -> None:
        """Receive a new block."""

    def progress(self, what: str, done: int, total: int | None) -> None:
        """Receive the progress of long work."""


class Stage:
    """Collects the blocks and checks of an exhibit, in order, and passes them on to a listener.

    A check needs its `claim` only if the exhibit has several.
    """

    def __init__(self, claims: Sequence[str], listener: ExhibitListener | None = None) -> None:
        self.claims = tuple(claims)
        self.blocks: list[Block | Check] = []
        self._listener = listener

    @property
    def checks(self) -> list[Check]:
        return [block for block in self.blocks if isinstance(block, Check)]

    def say(self, text: str) -> None:
        """Show a paragraph of plain words."""
        self._add(Words(" ".join(text.split())))

    def formula(self, text: str) -> None:
        """Show an equation, or several on lines of their own."""
        self._add(Formula(text))

    def numbers(self, title: str, numbers: Mapping[str, Cell]) -> None:
        """Show names with their numbers."""
        self.table(title, ("", ""), list(numbers.items()))

    def table(self, title: str, headings: Sequence[str], rows: Iterable[Sequence[Cell | SupportsFloat]]) -> None:
        """Show rows under headings; the first column names its row."""
        made = tuple(
            tuple(cell if isinstance(cell, str | int | float) else float(cell) for cell in row) for row in rows
        )
        if any(len(row) != len(headings) for row in made):
            raise InputError(f"a row of {title!r} has not {len(headings)} cells", hint="give one for each heading")
        self._add(TableBlock(title, tuple(headings), made))

    def plot(
        self,
        title: str,
        *series: Series,
        x: str,
        y: str,
        caption: str = "",
        log_x: bool = False,
        log_y: bool = False,
        labels: Sequence[str] = (),
        equal: bool = False,
    ) -> None:
        """Show lines, points, histograms or bars over two axes; `x` and `y` are the axis titles with units.

        With `equal` both axes have the same scale, so that shapes are not distorted.
        """
        if any(one.kind == "bars" and len(one.y) != len(labels) for one in series) or not series:
            raise InputError(f"{title!r} needs a label for each bar, and a series", hint="labels=[…]")
        self._add(Plot(title, series, x, y, caption, log_x, log_y, tuple(labels), equal))

    def heatmap(
        self,
        title: str,
        cells: Any,
        *,
        rows: Iterable[str],
        columns: Iterable[str] | None = None,
        x: str,
        y: str,
        unit: str,
        caption: str = "",
    ) -> None:
        """Show a matrix with its first row on top; `unit` is the quantity or unit of its entries.

        Without `columns`, the columns have the names of the rows.
        """
        grid = np.asarray(cells if not hasattr(cells, "detach") else cells.detach().cpu(), dtype=np.float64)
        names = tuple(rows)
        others = names if columns is None else tuple(columns)
        if grid.shape != (len(names), len(others)):
            raise InputError(
                f"{title!r} has cells of shape {grid.shape} for {len(names)} rows and {len(others)} columns",
                hint="name each row and column",
            )
        self._add(Heatmap(title, tuple(tuple(row) for row in grid.tolist()), names, others, x, y, unit, caption))

    def slip(self, *, says: str, computed: str, claim: str | None = None) -> None:
        """Show where a note is wrong. What is computed instead needs a check besides."""
        self._add(Slip(self._claim(claim), says, computed))

    def check(self, what: str, *, found: Any, expected: Any, within: float = 0.0, claim: str | None = None) -> bool:
        """Check that all numbers found are within `within` of those expected: numbers, tensors, arrays or lists."""
        left, right = flat(found), flat(expected)
        if len(right) == 1:
            right = right * len(left)
        if len(left) != len(right) or not left:
            raise InputError(f"{what!r} compares {len(left)} numbers with {len(right)}", hint="give as many of each")
        gaps = [abs(a - b) if a != b else 0.0 for a, b in zip(left, right, strict=True)]
        gap = max(gaps, key=lambda one: math.inf if math.isnan(one) else one)
        ok = gap <= within  # False for NaN
        if len(left) == 1:
            limit = f" ± {general(within, 2)}" if within else " exactly"
            figure = f"{general(left[0], 7)}, expected {general(right[0], 7)}{limit}"
            return self._add(Check(self._claim(claim), what, ok, figure, left[0], right[0], within))
        limit = f"allowed {general(within, 2)}" if within else "none allowed"
        figure = f"{len(left)} numbers, largest difference {general(gap, 3)}, {limit}"
        return self._add(Check(self._claim(claim), what, ok, figure, gap, 0.0, within))

    def bound(
        self,
        what: str,
        *,
        found: float,
        at_least: float | None = None,
        at_most: float | None = None,
        claim: str | None = None,
    ) -> bool:
        """Check that a number lies above a limit, below one, or between two."""
        if at_least is None and at_most is None:
            raise InputError(f"{what!r} has no limit", hint="give at_least or at_most")
        value = float(found)
        low, high = -math.inf if at_least is None else at_least, math.inf if at_most is None else at_most
        limits = [f"at least {general(low, 7)}"] if at_least is not None else []
        limits += [f"at most {general(high, 7)}"] if at_most is not None else []
        figure = f"{general(value, 7)}, {' and '.join(limits)}"
        return self._add(Check(self._claim(claim), what, low <= value <= high, figure, value))

    def sampled(self, what: str, *, samples: Any, derived: float, claim: str | None = None) -> bool:
        """Check that the mean of samples, or an `Estimate`, is within 4 standard errors of what is derived."""
        estimate = samples if isinstance(samples, Estimate) else estimate_mean(samples)
        away = estimate.errors_from(derived)
        figure = (
            f"sampled {general(estimate.value)}, derived {general(derived)}: {general(away, 2)} of "
            f"{general(ERRORS)} standard errors of {general(estimate.error, 2)}, n = {estimate.count:,}"
        )
        numbers = estimate.value, float(derived), ERRORS * estimate.error, estimate.count
        return self._add(Check(self._claim(claim), what, away <= ERRORS, figure, *numbers))

    def distributed(
        self, what: str, *, samples: Any, cumulative: Callable[[Any], Any], claim: str | None = None
    ) -> bool:
        """Check that samples have the derived distribution: `cumulative` is its CDF, for an array of x.

        The Kolmogorov–Smirnov test has the same false-alarm probability as `sampled`.
        """
        count = len(flat(samples))
        distance, limit = kolmogorov_distance(samples, cumulative), kolmogorov_limit(count, ALPHA)
        figure = f"largest distance of shares {general(distance, 3)}, allowed {general(limit, 3)}, n = {count:,}"
        return self._add(Check(self._claim(claim), what, distance <= limit, figure, distance, 0.0, limit, count))

    def require(self, what: str, *, holds: bool, figure: str, claim: str | None = None) -> bool:
        """Check anything else that must hold, with the figure that says so."""
        return self._add(Check(self._claim(claim), what, bool(holds), figure))

    def progress(self, items: Iterable[Item], what: str) -> Iterator[Item]:
        """Iterate over items of long work and report the progress."""
        total = len(items) if isinstance(items, Sized) else None
        self._report(what, 0, total)
        for done, item in enumerate(items, start=1):
            yield item
            self._report(what, done, total)

    def _report(self, what: str, done: int, total: int | None) -> None:
        if self._listener is not None:
            self._listener.progress(what, done, total)

    def _add(self, block: Block | Check) -> bool:
        """Keep a block; return False for a check that fails."""
        self.blocks.append(block)
        if self._listener is not None:
            self._listener.shown(block)
        return block.ok if isinstance(block, Check) else True

    def _claim(self, claim: str | None) -> str:
        """Return the claim that is named, or the only one."""
        if claim is None:
            assert len(self.claims) == 1, f"this exhibit has several claims, so a check must name one: {self.claims}"
            return self.claims[0]
        assert claim in self.claims, f"this exhibit does not name the claim {claim!r}: {self.claims}"
        return claim
